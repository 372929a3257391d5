from .config import SchedulerConfig
from .limits import token_limit
from .scheduler import Scheduler

__all__ = ["Scheduler", "SchedulerConfig", "token_limit"]
