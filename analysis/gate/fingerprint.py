"""Whether two environments may be compared. Unknown is not equal to anything."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

IDENTITY = (
    "gpu", "gpu_count", "driver", "cuda", "torch", "triton", "mig", "ecc", "power_limit_w", "cpu_model",
    "python", "engine",
)  # fmt: skip
"""What must be equal. The first is needed on both sides; another that both sides leave out is not compared. Clocks,
temperature and power are not among them: they change from run to run on one machine.
"""


_NO_GPU = "none ("


@dataclass(frozen=True, slots=True)
class Difference:
    """A field in which two environments differ; None where a side does not know it."""

    field: str
    base: object
    head: object

    @property
    def unknown(self) -> bool:
        """Whether a side does not know the field."""
        return self.base is None or self.head is None


def differences(base: Mapping[str, object], head: Mapping[str, object]) -> tuple[Difference, ...]:
    """Fields that forbid a comparison, in the order of `IDENTITY`. Empty words and "unknown" count as not known."""
    found = []
    for field in IDENTITY:
        left, right = _known(base.get(field)), _known(head.get(field))
        if left is None and right is None and field != IDENTITY[0]:
            continue
        if left is None or right is None or left != right:
            found.append(Difference(field, left, right))
    return tuple(found)


def told(found: Iterable[Difference]) -> str:
    """Each field with what both sides say: "gpu: NVIDIA H200 / unknown"."""
    return ", ".join(f"{item.field}: {_word(item.base)} / {_word(item.head)}" for item in found)


def no_gpu(device: object, calibration: object) -> str:
    """The `gpu` of a run without one. What a model stands in for is a machine of its own, told by its calibration."""
    return f"{_NO_GPU}{device}, calibration {calibration})"


def has_no_gpu(machine: Mapping[str, object]) -> bool:
    """Whether its `gpu` is one of `no_gpu`."""
    return str(machine.get("gpu", "")).startswith(_NO_GPU)


def modelled_note(machine: Mapping[str, object]) -> tuple[str, ...]:
    """What every output says of a modelled device; nothing for a GPU, a CPU alone, and where nobody knows."""
    head, gpu = no_gpu("sim", ""), str(machine.get("gpu", ""))
    if not gpu.startswith(head[:-1]):
        return ()
    return (
        f"modelled: device times are of a queue model with the calibration {gpu[len(head) - 1:-1]}; host times are"
        " measured. It says nothing of a GPU that is here.",
    )


def _word(value: object) -> str:
    return "unknown" if value is None else str(value)


def _known(value: object) -> object:
    if isinstance(value, str) and value.strip().lower() in ("", "unknown", "n/a", "none"):
        return None
    return value
