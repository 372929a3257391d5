"""Whether two arms measure the same work on the same machine: only then is a difference the code's."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from ...analysis.gate.block_values import LaunchValues
from ...analysis.gate.fingerprint import differences, no_gpu, told
from ...analysis.gate.verdict import Reason

_NAMES = {"gpu_name": "gpu", "gpu_driver": "driver", "gpu_mig": "mig"}
_TRIED = ("python", "torch", "triton", "engine", "cuda")
"""What two arms may differ in, because it may be what is being compared (another interpreter)."""
RUNNER_WORK = (
    "model", "model_seed", "kv_groups", "block_size", "dcp", "max_num_seqs", "max_num_batched_tokens", "max_model_len",
    "speculative", "acceptance", "ngram_min", "ngram_max",
)  # fmt: skip
"""Of the runner: what is computed, not how. Other work, unless a `set:` names it as what is compared."""


def machine_of(opened: Mapping[str, Any]) -> dict[str, Any]:
    """The environment that an arm told, under the gate's names. A modelled device is its own kind of GPU."""
    known = {_NAMES.get(key, key): value for key, value in opened["environment"].items()}
    if opened["device"] != "cuda":
        known["gpu"] = no_gpu(opened["device"], opened["calibration"])
    return known


def why_incomparable(
    opened: Mapping[str, Mapping[str, Any]], named: Collection[str] = ()
) -> tuple[Reason, str] | None:
    """What differs between "base" and "head" beyond the code; None where nothing does.

    `named`: paths that an arm's `set:` names ("runner.model"): these are what is being compared.
    """
    base, head = opened["base"], opened["head"]
    machines = [{k: v for k, v in machine_of(one).items() if k not in _TRIED} for one in (base, head)]
    found = differences(*machines)
    if found:
        unknown = any(item.unknown for item in found)
        return (Reason.UNKNOWN_MACHINE if unknown else Reason.OTHER_MACHINE), told(found)
    for section, names in (("workload", None), ("runner", RUNNER_WORK)):
        base_has, head_has = (one["parameters"].get(section, {}) for one in (base, head))
        for name in base_has:  # a field that only one version of the code knows is no difference of the work
            asked = names is None or (name in names and not {section, f"{section}.{name}"} & set(named))
            if asked and name in head_has and base_has[name] != head_has[name]:
                return Reason.OTHER_WORK, f"{section}.{name}: {base_has[name]} / {head_has[name]}"
    return None


def other_tokens(values: Mapping[str, LaunchValues]) -> tuple[Reason, str] | None:
    """Why what both arms did is not the same work, whatever their parameters say; None where it is."""
    base, head = (values[arm].tokens for arm in ("base", "head"))
    if base == head:
        return None
    return Reason.OTHER_WORK, f"tokens over the counted steps: {_told(base)} / {_told(head)}"


def _told(tokens: int | None) -> str:
    return "not recorded" if tokens is None else str(tokens)
