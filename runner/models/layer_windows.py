"""Which layers of a Hugging Face model see a sliding window, from its config.json."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ...errors import UsageError

Refuse = Callable[[str, str], UsageError]
"""(field, what is wrong with it) -> the error that names the file."""


def layer_windows(raw: Mapping[str, Any], num_layers: int, refuse: Refuse) -> tuple[int | None, ...] | None:
    """The positions that each layer sees, None for all; None in place of the tuple where every layer sees all.

    `layer_types` says it layer by layer; without it `sliding_window` holds for all layers, as in Mistral's files.
    Raises UsageError for another kind of layer, a list of another length, or a window that is no positive integer.
    """
    window, types = raw.get("sliding_window"), raw.get("layer_types")
    if types is None:
        types = ["full_attention" if window is None else "sliding_attention"] * num_layers
    if not isinstance(types, list) or len(types) != num_layers:
        raise refuse("layer_types", f"must list the {num_layers} layers, is {types!r}")
    strange = next((kind for kind in types if kind not in ("full_attention", "sliding_attention")), None)
    if strange is not None:
        raise refuse("layer_types", f"{strange!r} is not supported; use full_attention and sliding_attention")
    if "sliding_attention" not in types:
        return None
    if not isinstance(window, int) or isinstance(window, bool) or window < 1:
        raise refuse("sliding_window", f"must be a positive integer, is {window!r}")
    return tuple(window if kind == "sliding_attention" else None for kind in types)
