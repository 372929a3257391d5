from .reader import read_trace
from .replay import ReplayOptions, TraceResult

__all__ = ["ReplayOptions", "TraceResult", "read_trace"]
