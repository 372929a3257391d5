"""Shapes of Llama-family decoders: seven by name, any other from a Hugging Face config.json."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch

from ...errors import UsageError
from .layer_windows import layer_windows
from .rope_scaling import Llama3Scaling

DTypeName = Literal["float32", "bfloat16", "float16"]
DTYPES: dict[DTypeName, torch.dtype] = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


FAMILIES = ("llama", "mistral", "ministral")
"""Llama's decoder, or the same with sliding windows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig:
    """The shape of one decoder; field names are Hugging Face's. `init_std` spreads its random weights.

    `windows` are the positions that each layer sees, itself included; None for a layer that sees all, and None in its
    place for a model whose layers all do. `reach` is what the arithmetic looks back at, itself included, where tokens
    are stood in for and only their count matters: costs are counted by the windows, as if all were seen.
    """

    name: str
    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    rms_norm_eps: float = 1e-5
    rope_theta: float = 10000.0
    rope_scaling: Llama3Scaling | None = None
    tie_word_embeddings: bool = False
    dtype: DTypeName = "float32"
    init_std: float = 0.02
    windows: tuple[int | None, ...] | None = None
    reach: int | None = None

    @property
    def torch_dtype(self) -> torch.dtype:
        """The dtype of weights, activations and KV cache."""
        return DTYPES[self.dtype]


# One layer, one head: a sixth of tiny's attention, for replays whose prompts have tens of thousands of tokens.
_MICRO = ModelConfig(
    name="micro", vocab_size=512, hidden_size=32, intermediate_size=64, num_hidden_layers=1,
    num_attention_heads=1, num_key_value_heads=1, head_dim=16, init_std=0.2,
)  # fmt: skip
NAMED: dict[str, ModelConfig] = {
    "micro": _MICRO,
    # Its arithmetic is linear in the prompts' length: for a modelled device, which goes by costs and not by it.
    "micro-256": dataclasses.replace(_MICRO, name="micro-256", reach=256),
    # The spread makes attention peaked and the layers outweigh the embedding: greedy text then depends on the whole
    # context and doesn't fall into a cycle after a few tokens, so a wrong slot or position shows in the tokens.
    "tiny": ModelConfig(
        name="tiny", vocab_size=512, hidden_size=64, intermediate_size=128, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, head_dim=16, init_std=0.2,
    ),
    # The shape whose decode step was measured under vLLM on an H200: 1.14 ms of GPU time for 64 requests of 512 + 64.
    "small-1024": ModelConfig(
        name="small-1024", vocab_size=32000, hidden_size=1024, intermediate_size=4096, num_hidden_layers=16,
        num_attention_heads=16, num_key_value_heads=8, head_dim=64, dtype="bfloat16",
    ),
    # Layers enough for several KV cache groups.
    "tiny-6": ModelConfig(
        name="tiny-6", vocab_size=512, hidden_size=64, intermediate_size=128, num_hidden_layers=6,
        num_attention_heads=4, num_key_value_heads=2, head_dim=16, init_std=0.2,
    ),
    "llama-1b": ModelConfig(
        name="llama-1b", vocab_size=128256, hidden_size=2048, intermediate_size=8192, num_hidden_layers=16,
        num_attention_heads=32, num_key_value_heads=8, head_dim=64, rope_theta=500000.0,
        rope_scaling=Llama3Scaling(32.0, 1.0, 4.0, 8192), tie_word_embeddings=True, dtype="bfloat16",
    ),
    "llama-8b": ModelConfig(
        name="llama-8b", vocab_size=128256, hidden_size=4096, intermediate_size=14336, num_hidden_layers=32,
        num_attention_heads=32, num_key_value_heads=8, head_dim=128, rope_theta=500000.0,
        rope_scaling=Llama3Scaling(8.0, 1.0, 4.0, 8192), dtype="bfloat16",
    ),
}  # fmt: skip


def resolve_config(model: str) -> ModelConfig:
    """The shape named `model`, or the one in the config.json (or its folder) at that path. Raises UsageError."""
    if model in NAMED:
        return NAMED[model]
    path = Path(model)
    if path.is_dir():
        path = path / "config.json"
    if not path.is_file():
        raise UsageError(f"model: {model!r} is neither a known shape ({', '.join(NAMED)}) nor a config.json file")
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: not readable as JSON ({error}); give a Hugging Face config.json") from error
    if not isinstance(raw, dict):
        raise UsageError(f"{path}: holds no JSON object; give a Hugging Face config.json")
    return _HuggingFaceConfig(path, raw).parse()


@dataclass(frozen=True, slots=True)
class _HuggingFaceConfig:
    """One config.json while it's read: every complaint names the file and the field."""

    path: Path
    raw: Mapping[str, Any]

    def parse(self) -> ModelConfig:
        self._refuse_other_families()
        hidden, heads = self._size("hidden_size"), self._size("num_attention_heads")
        kv_heads = self._size("num_key_value_heads", heads)
        head_dim = self._size("head_dim", hidden // heads)
        if heads % kv_heads:
            raise self._error("num_key_value_heads", f"must divide num_attention_heads = {heads}, is {kv_heads}")
        if head_dim % 2:
            raise self._error("head_dim", f"must be even for rotary positions, is {head_dim}")
        rope, layers = self._rope(), self._size("num_hidden_layers")
        return ModelConfig(
            name=str(self.path),
            vocab_size=self._size("vocab_size"),
            hidden_size=hidden,
            intermediate_size=self._size("intermediate_size"),
            num_hidden_layers=layers,
            num_attention_heads=heads,
            num_key_value_heads=kv_heads,
            head_dim=head_dim,
            rms_norm_eps=self._number(self.raw, "rms_norm_eps", 1e-6),
            rope_theta=self._number(rope if "rope_theta" in rope else self.raw, "rope_theta", 10000.0),
            rope_scaling=self._scaling(rope),
            tie_word_embeddings=bool(self.raw.get("tie_word_embeddings", False)),
            dtype=self._dtype(),
            init_std=self._number(self.raw, "initializer_range", 0.02),
            windows=layer_windows(self.raw, layers, self._error),
        )

    def _error(self, field: str, text: str) -> UsageError:
        return UsageError(f"{self.path}: {field}: {text}")

    def _refuse_other_families(self) -> None:
        family = self.raw.get("model_type", "llama")
        if family not in FAMILIES:
            raise self._error("model_type", f"{family!r} is not supported; use a model of type {', '.join(FAMILIES)}")
        for flag in ("attention_bias", "mlp_bias"):
            if self.raw.get(flag, False):
                raise self._error(flag, "biases are not supported; use a model with false here")
        activation = self.raw.get("hidden_act", "silu")
        if activation != "silu":
            raise self._error("hidden_act", f"{activation!r} is not supported; use a model with 'silu'")

    def _size(self, field: str, default: int | None = None) -> int:
        value = self.raw.get(field)
        value = default if value is None else value
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise self._error(field, f"must be a positive integer, is {value!r}")
        return value

    def _number(self, source: Mapping[str, Any], field: str, default: float | None = None) -> float:
        value = source.get(field, default)
        if not isinstance(value, (int, float)) or isinstance(value, bool) or not value > 0:
            raise self._error(field, f"must be a positive number, is {value!r}")
        return float(value)

    def _rope(self) -> Mapping[str, Any]:
        """transformers 5 writes `rope_parameters` (theta inside), older versions `rope_scaling` (theta beside)."""
        rope = self.raw.get("rope_parameters") or self.raw.get("rope_scaling") or {}
        if not isinstance(rope, dict):
            raise self._error("rope_scaling", f"must be an object or null, is {rope!r}")
        return rope

    def _scaling(self, rope: Mapping[str, Any]) -> Llama3Scaling | None:
        kind = rope.get("rope_type", rope.get("type", "default"))
        if kind == "default":
            return None
        if kind != "llama3":
            raise self._error("rope_scaling", f"type {kind!r} is not supported; use a model with llama3 or no scaling")
        low, high = self._number(rope, "low_freq_factor"), self._number(rope, "high_freq_factor")
        if high <= low:
            raise self._error("high_freq_factor", f"must be above low_freq_factor = {low:g}, is {high:g}")
        original = int(self._number(rope, "original_max_position_embeddings"))
        return Llama3Scaling(self._number(rope, "factor"), low, high, original)

    def _dtype(self) -> DTypeName:
        name = self.raw.get("dtype") or self.raw.get("torch_dtype") or "float32"
        for known in DTYPES:
            if name == known:
                return known
        raise self._error("dtype", f"{name!r} is not supported; use one of {', '.join(DTYPES)}")
