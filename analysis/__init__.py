"""Pure functions from the tables of a Recording to tables, figures and findings.

`summarise` gives the metric row of a recording and `pair_orders` sets such rows side by side; each question has a
module of its own: `phases`, `overlap`, `exposure`, `what_if`, `pinned`, `padding`, `gaps`, `findings`.
"""

from .arms import ArmPoint, pair_orders
from .summary import Summary, summarise

__all__ = ["ArmPoint", "Summary", "pair_orders", "summarise"]
