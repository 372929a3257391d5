"""Regime of drafts: decodes of several tokens, of which many are taken back."""

from __future__ import annotations

from typing import ClassVar

from ..errors import UsageError
from .acceptance import parse_acceptance
from .regime_base import Regime, Seeded, with_window
from .requests import Request
from .workload import Workload


class SpecRollback(Regime, frozen=True, kw_only=True):
    """Requests verify drafts and take back what was not accepted, across block borders: a block that rejected drafts
    needed stays, and its slots are written again. The last prompt token stands in the middle of a block.

    Published (row 10), and default: 16 x 100/60; 1, 4 or 7 drafts; all, none, in turns, or a rate of 0.6 accepted.
    """

    slug: ClassVar[str] = "spec_rollback"
    num_reqs: int = 16
    prompt_len: int = 100
    output_len: int = 60
    num_speculative_tokens: int = 4
    acceptance: str = "synthetic:alternate"

    def requests(self, source: Seeded) -> list[Request]:
        """One shape for all."""
        parse_acceptance(self.acceptance)
        if self.num_speculative_tokens < 1:
            raise UsageError(f"regime {self.slug}: num_speculative_tokens is 0; it is about drafts, use at least 1")
        return [source.request(f"r{index}", self.prompt_len, self.output_len) for index in range(self.num_reqs)]

    def build(self, source: Seeded) -> Workload:
        """With the window in which all rows verify all their drafts."""
        rows, tokens = self.num_reqs, self.num_reqs * (1 + self.num_speculative_tokens)
        return with_window(
            self.assemble(self.requests(source)), lambda shape: shape.num_reqs == rows and shape.num_tokens == tokens
        )
