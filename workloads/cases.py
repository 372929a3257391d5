"""A batch of `case_grammar` as a workload: a stream of steps of which each is that batch, made by the real scheduler.

Decodes go on from step to step, so their length grows by one (the drafts of a verify are rejected): in the first step
of the regime it is K. Prefills and hits are new requests in every step, which end with it; hits share their first
tokens with the ones before. Chunks go on with the next chunk: they begin at K, or at the first chunk border behind it,
and grow by Q a step.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import msgspec

from ..errors import UsageError
from .case_grammar import Case, Rows, parse_case
from .driver import deltas
from .regime_base import Regime, Seeded
from .requests import PrefixHashes, Request
from .step import StepDelta
from .workload import Workload

STEPS = 100
LEAST_BUDGET = 2048
"""Prompts of decodes are computed with at least this budget, before the first measured step."""
MORE_STEPS = 8
"""The regime lasts so much longer than asked for: warm-up steps may be more than it takes to settle."""
_TRIES = 8
_ROOM = 1 << 40


@dataclass(frozen=True, slots=True)
class Draft:
    """Requests to try: prompt lengths of the decodes by id, and steps before the regime that others must last for."""

    prompts: Mapping[str, int]
    lead: int


@dataclass(frozen=True, slots=True)
class Settled:
    """What a dry run of a draft showed: where the regime begins, how long it lasts, decode steps before it by id."""

    step: int
    steps: int
    decoded: Mapping[str, int]


class ForwardCase(Regime, frozen=True, kw_only=True):
    """`case` for `steps` steps, of which the first is about the `lead`-th (None: not known)."""

    slug: ClassVar[str] = "case"
    case: str
    steps: int = STEPS
    lead: int | None = None
    acceptance: str = "synthetic:none"

    def build(self, source: Seeded) -> Workload:
        """With the window in which every step is the batch. Raises UsageError where none is."""
        case = parse_case(self.case)
        self._check_sizes(case)
        prompts = {name: rows.before for rows, name in _decodes(case)}
        draft = Draft(prompts, lead_steps(case, self.max_num_batched_tokens) if self.lead is None else self.lead)
        for _ in range(_TRIES):
            workload = self._workload(case, draft, source)
            found = _settled(workload, case, most=draft.lead + self.steps + 2 * MORE_STEPS)
            # what a decode has said before the others were ready is length that it has already
            wanted = {name: max(rows.before - found.decoded[name], 1) for rows, name in _decodes(case)}
            if wanted == dict(draft.prompts) and found.step <= draft.lead:
                return self._told(workload, case, found)
            draft = Draft(wanted, max(found.step, draft.lead))
        raise UsageError(f"workload.case: {self.case!r} does not settle; its decodes cannot be of that length")

    def _check_sizes(self, case: Case) -> None:
        for rows in case.of("hit"):
            if rows.before % self.block_size:
                raise UsageError(
                    f"workload.case: {self.case!r}: a hit of {rows.before} tokens is no whole number of blocks of"
                    f" {self.block_size}; choose K - Q or runner.block_size so that it is"
                )
        if self.num_speculative_tokens not in (0, case.drafts):
            raise UsageError(
                f"runner.speculative: is {self.num_speculative_tokens}, but {self.case!r} verifies {case.drafts};"
                " leave it out"
            )
        if self.max_num_seqs is not None and self.max_num_seqs < case.num_reqs:
            raise UsageError(
                f"runner.max_num_seqs: {self.max_num_seqs} is too small for {self.case!r}, whose steps have"
                f" {case.num_reqs} requests"
            )
        if self.max_num_batched_tokens < case.num_tokens:
            raise UsageError(
                f"runner.max_num_batched_tokens: {self.max_num_batched_tokens} is too small for {self.case!r}, whose"
                f" steps have {case.num_tokens} tokens"
            )

    def _workload(self, case: Case, draft: Draft, source: Seeded) -> Workload:
        last = draft.lead + self.steps + MORE_STEPS
        requests = [source.request(name, draft.prompts[name], last) for _, name in _decodes(case)]
        for rows, name in _chunks(case):
            requests.append(source.request(name, rows.query * (-(-rows.before // rows.query) + last), 1))
        for step in range(last):
            requests += _passing(case, step, source)
        sized = self._sized(case, requests)
        num_rows = self.max_num_seqs or case.num_reqs
        return replace(sized.assemble_with_rows(requests, num_rows), max_concurrency=case.num_reqs)

    def _sized(self, case: Case, requests: Sequence[Request]) -> ForwardCase:
        """With a pool that is large enough where nobody said how large, and with what the batch asks of the scheduler.

        Twice the room of the largest requests: what a hit finds must not be evicted by those that come after it.
        """
        held = sorted((self.blocks_of(request.prompt_len + request.output_len) for request in requests), reverse=True)
        return msgspec.structs.replace(
            self,
            num_blocks=self.num_blocks or 1 + 2 * sum(held[: case.num_reqs]),
            long_prefill_token_threshold=next((rows.query for rows in case.of("chunk")), 0),
            num_speculative_tokens=case.drafts,
        )

    def _told(self, workload: Workload, case: Case, found: Settled) -> Workload:
        notes = [f"every measured step is the batch {self.case}, made by a scheduler; decodes grow by 1 a step"]
        for rows in case.of("chunk"):
            notes.append(f"the chunks of {rows.query} tokens begin at a length of {rows.length} or behind it and grow")
        hidden = {"lead", *(() if case.drafts else ("acceptance",))}
        parameters = {name: value for name, value in workload.parameters.items() if name not in hidden}
        return replace(
            workload, name=case.name, settle_steps=found.step, regime_steps=found.steps, notes=tuple(notes),
            parameters=parameters,
        )  # fmt: skip


def lead_steps(case: Case, budget: int) -> int:
    """An upper bound for the steps before the batch, while the prompts of its decodes and chunks are computed.

    Where there are chunks, the prompts of decodes are cut to their size as well.
    """
    before = sum(rows.count * rows.length for rows in case.rows)
    sizes = [rows.query for rows in case.of("chunk")]
    chunks = max(-(-rows.before // sizes[0]) for rows in case.of("chunk", "decode")) if sizes else 0
    return 2 * -(-before // max(budget - case.num_reqs, 1)) + chunks + MORE_STEPS


def case_workload(text: str, source: Seeded, steps: int, limits: Mapping[str, object]) -> Workload:
    """The workload of the case `text` with at least `steps` steps that are it. `limits` are sizes that were given.

    A first try, with room for everything, shows in which step it begins; then its requests are made as long as they
    have to be. Raises UsageError; msgspec.ValidationError for limits of another type.
    """
    case = parse_case(text)
    sizes = {"max_num_batched_tokens": _budget(case), **limits}
    room = {**sizes, "max_model_len": _ROOM, "num_blocks": None}
    first = msgspec.convert({"case": text, "steps": steps, **room}, ForwardCase).build(source)
    lead = max(first.settle_steps or 0, 1)
    fitted = {"max_model_len": _longest(case, lead + steps + MORE_STEPS), **sizes}
    return msgspec.convert({"case": text, "steps": steps, "lead": lead, **fitted}, ForwardCase).build(source)


def _budget(case: Case) -> int:
    """A prompt that is cut alone gets all that the budget leaves, so the budget is its chunk then."""
    alone = case.num_reqs == 1 and bool(case.of("chunk"))
    return case.num_tokens if alone else max(case.num_tokens, LEAST_BUDGET)


def _longest(case: Case, steps: int) -> int:
    """Tokens of the longest request when all is over."""
    growth = {"decode": (1 + case.drafts) * (steps + 1), "prefill": 1, "hit": 1, "chunk": 1}
    cut = (rows.query * (-(-rows.before // rows.query) + steps) + 1 for rows in case.of("chunk"))
    return max(2, *(rows.length + growth[rows.kind] for rows in case.rows), *cut)


def _decodes(case: Case) -> list[tuple[Rows, str]]:
    """Its decodes one by one, with the names of their requests."""
    terms = enumerate(case.of("decode"))
    return [(rows, f"d{number}.{index}") for number, rows in terms for index in range(rows.count)]


def _chunks(case: Case) -> list[tuple[Rows, str]]:
    """Its chunks one by one, likewise."""
    terms = enumerate(case.of("chunk"))
    return [(rows, f"c{number}.{index}") for number, rows in terms for index in range(rows.count)]


def _passing(case: Case, step: int, source: Seeded) -> list[Request]:
    """Requests that come new and go within one step."""
    found = []
    for number, rows in enumerate(case.of("prefill", "hit")):
        for index in range(rows.count):
            name = f"p{number}.{index}.{step}"
            prefix = None
            if rows.before:  # the first piece is the slot's, the others nobody else has
                pieces = -(-rows.length // rows.before)
                own = (hash_of(number, index, step, piece) for piece in range(1, pieces))
                prefix = PrefixHashes(rows.before, (hash_of(number, index, -1, 0), *own))
            found.append(source.request(name, rows.length, 1, prefix))
    return found


def hash_of(number: int, index: int, step: int, piece: int) -> int:
    """A number for a piece of a prompt; step -1: it belongs to the slot."""
    return ((number * 1_000_003 + index) * 1_000_003 + step + 1) * 1_000_003 + piece


def _settled(workload: Workload, case: Case, *, most: int) -> Settled:
    """Where the steps are the batch. Raises UsageError when none of the first `most` is."""
    watch = _Watch(case, workload)
    begin, length = -1, 0
    decoded: Mapping[str, int] = {}
    for step, delta in enumerate(deltas(workload)):
        before = dict(watch.decoded)
        fits = watch.step(delta)
        if fits and begin < 0:
            begin, decoded = step, before
        if begin >= 0 and not fits:
            break
        length += begin >= 0
        if step >= most:
            break
    if begin < 0:
        raise UsageError(
            f"workload.case: {case.name} does not come about in {most} steps under this scheduler; leave its sizes and"
            " switches out of the spec"
        )
    return Settled(begin, length, decoded)


class _Watch:
    """Follows the requests of a dry run."""

    def __init__(self, case: Case, workload: Workload) -> None:
        self._prompts = {request.req_id: request.prompt_len for request in workload.requests}
        self._query = {name: rows.query for rows, name in _decodes(case)}
        self._least = {name: rows.before for rows, name in _chunks(case)}
        self._new = {f"p{number}": rows.before for number, rows in enumerate(case.of("prefill", "hit"))}
        self._others = Counter[int]()
        for rows in case.rows:
            if rows.kind != "decode":
                self._others[rows.query] += rows.count
        self._computed: dict[str, int] = {}
        self.decoded = dict.fromkeys(self._query, 0)
        """Steps so far in which a decode has decoded."""

    def step(self, delta: StepDelta) -> bool:
        """Whether this step is the batch."""
        new = {request.req_id: request.num_computed_tokens for request in delta.new_requests}
        self._computed |= new
        others, num_decoding, fits = Counter[int](), 0, True
        for name, tokens in delta.num_scheduled_tokens.items():
            computed = self._computed[name]
            self._computed[name] = computed + tokens
            if name not in self._query:
                others[tokens] += 1
                fits &= self._fits(name, computed, new=name in new)
            elif computed >= self._prompts[name]:
                num_decoding += 1
                fits &= tokens == self._query[name]
                self.decoded[name] += 1
        return fits and num_decoding == len(self._query) and others == self._others

    def _fits(self, name: str, computed: int, *, new: bool) -> bool:
        """A chunk begins where asked for or behind that; any other prompt is new and begins exactly behind its hit."""
        if name in self._least:
            return computed >= self._least[name]
        return new and computed == self._new[name.partition(".")[0]]
