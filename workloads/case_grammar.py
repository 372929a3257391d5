"""The batches of vLLM's `vllm bench forward`: NAME=REQS, where REQS is a comma list of [N*]Q[@K][c][:D].

    N  requests, 1 if not given          Q  tokens that each computes in the step
    K  length with these tokens          c  a prefill goes on: what lies before was computed in earlier steps
    D  drafts among the Q tokens         (without c, what lies before a prefill is found in the prefix cache)

`decode=32*1@8192`, `verify=16*4@4096:3`, `prefill=8192`, `hit=2048@10240`, `chunk=8192@40960c`, `mix=8192,32*1@8192`.
Source: the help of vLLM 0.33's command.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from ..errors import UsageError

Kind = Literal["decode", "prefill", "hit", "chunk"]
_TERM = re.compile(r"(?:(\d{1,9})\*)?(\d{1,9})(?:@(\d{1,9}))?(c)?(?::(\d{1,9}))?")
_NAME = re.compile(r"[A-Za-z0-9_.+-]+")
_FORM = "expected [N*]Q[@K][c][:D], as 32*1@8192"


@dataclass(frozen=True, slots=True)
class Rows:
    """`count` equal requests of a batch."""

    count: int
    query: int
    length: int
    drafts: int = 0
    chunk: bool = False

    @property
    def before(self) -> int:
        """Tokens that lie before the step's."""
        return self.length - self.query

    @property
    def kind(self) -> Kind:
        """What the step does for them: one token (and drafts) of an answer, a new prompt, a cut one."""
        if self.before and self.query == 1 + self.drafts:
            return "decode"
        if self.chunk and self.before:
            return "chunk"
        return "hit" if self.before else "prefill"


@dataclass(frozen=True, slots=True)
class Case:
    """A batch by name."""

    name: str
    rows: tuple[Rows, ...]

    @property
    def num_reqs(self) -> int:
        """Requests in a step."""
        return sum(rows.count for rows in self.rows)

    @property
    def num_tokens(self) -> int:
        """Tokens in a step."""
        return sum(rows.count * rows.query for rows in self.rows)

    def of(self, *kinds: Kind) -> tuple[Rows, ...]:
        """Its rows of some kinds."""
        return tuple(rows for rows in self.rows if rows.kind in kinds)

    @property
    def drafts(self) -> int:
        """Drafts that a decode brings to a step."""
        return max((rows.drafts for rows in self.rows), default=0)


def parse_case(text: str) -> Case:
    """The batch that `text` describes. Raises UsageError that names the part which does not fit."""
    name, sign, terms = text.partition("=")
    name = name.strip()
    if not sign or not _NAME.fullmatch(name):
        raise UsageError(f"workload.case: {text!r} is no NAME=REQS; write it as decode=32*1@8192")
    case = Case(name, tuple(_rows(text, term.strip()) for term in terms.split(",")))
    _check_together(text, case)
    return case


def _rows(text: str, term: str) -> Rows:
    match = _TERM.fullmatch(term)
    if match is None:
        raise UsageError(f"workload.case: {term!r} in {text!r}: {_FORM}")
    count, query, length, chunk, drafts = match.groups()
    rows = Rows(int(count or 1), int(query), int(length or query), int(drafts or 0), bool(chunk))
    where = f"workload.case: {term!r} in {text!r}"
    if rows.count < 1 or rows.query < 1:
        raise UsageError(f"{where}: needs at least one request and one token")
    if rows.before < 0:
        raise UsageError(f"{where}: K counts the {rows.query} tokens of the step too; give @{rows.query} or more")
    if rows.drafts and rows.kind != "decode":
        raise UsageError(f"{where}: {rows.drafts} drafts are verified with 1 + {rows.drafts} tokens behind others")
    if rows.chunk and rows.kind != "chunk":
        raise UsageError(f"{where}: c marks a prefill that goes on, with tokens before it")
    return rows


def _check_together(text: str, case: Case) -> None:
    """What one scheduler cannot put into one step."""
    where = f"workload.case: {text!r}"
    if len({rows.drafts for rows in case.of("decode")}) > 1:
        raise UsageError(f"{where}: all decodes bring the same number of drafts; measure them in two cases")
    chunks = case.of("chunk")
    if not chunks:
        return
    sizes = {rows.query for rows in chunks}
    if len(sizes) > 1 or any(rows.query > min(sizes) for rows in case.of("prefill", "hit")):
        raise UsageError(
            f"{where}: the scheduler cuts prompts to one size, so all chunks are of one, and no other prefill is longer"
        )
