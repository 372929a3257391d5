"""The probe that can live in anyone's engine: standard library, numpy, torch and nvtx only, nothing else of ours."""

from .api import DeviceMarks, LateStep, ProbeLike, StepScope
from .ledger import Ledger
from .null import NullProbe
from .probe import Probe

__all__ = ["DeviceMarks", "LateStep", "Ledger", "NullProbe", "Probe", "ProbeLike", "StepScope"]
