"""`perf sizes`' work: choose by one part of a workload, judge on the rest, say what it takes, and run it if asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ...analysis.sizes.costs import SizesLimits, candidates_of, problem_of
from ...analysis.sizes.graphs import NOT_CAPTURED, capture_costs
from ...analysis.sizes.judgement import SizesArm, SizesGain, judge_arm, predicted_gain
from ...analysis.sizes.solve import solve_sizes
from ...analysis.sizes.stream import SizesStream, check_train, split_stream
from ...errors import UsageError
from ...reports.sizes_text import SizesView
from ..resolve import check_device
from .optimal import ladder_of, usual_limits
from .source import CostsAsked, SizesSource, open_source
from .watch import UNWATCHED, SizesWatch

LEAST_STEPS = 2
MOST = 10**9
"""Of tokens, requests, MiB or graphs: more would overflow where they are multiplied, and no engine has it."""
MOST_DRAFTS = 1024
NOT_RUN = "--run STEPS measures it"


@dataclass(frozen=True, slots=True, kw_only=True)
class SizesRequest:
    """What was asked.

    train           share of the steps to choose by, from the beginning; the others judge
    budget          most graphs; None: as many as vLLM's ladder has
    maximum         largest captured size, forced; None: that of the default ladder
    multiple        sizes are multiples of it, besides a decode's tokens
    force           further sizes that must be captured
    memory_mib      limit on the memory of all graphs, by what the recording's captures took
    limit, speed    of a trace
    run, device     measured steps of a run of both lists, 0 for none, and where
    """

    path: Path
    train: float = 0.5
    budget: int | None = None
    maximum: int | None = None
    multiple: int = 1
    force: tuple[int, ...] = ()
    memory_mib: int | None = None
    drafts: int | None = None
    max_num_seqs: int | None = None
    limit: int | None = None
    speed: float | None = None
    calibration: str | None = None
    cost_model: str | None = None
    run: int = 0
    device: str | None = None

    def check(self) -> None:
        """Raises UsageError for what cannot be, before anything is read."""
        counts = {"budget": self.budget, "max": self.maximum, "multiple": self.multiple, "memory": self.memory_mib,
                  "max-num-seqs": self.max_num_seqs, "limit": self.limit}  # fmt: skip
        for name, value in (*counts.items(), *(("force", size) for size in self.force)):
            if value is not None and value < 1:
                raise UsageError(f"--{name}: {value} is too small; at least 1")
            if value is not None and value > MOST:
                raise UsageError(f"--{name}: {value} is too large; at most {MOST}")
        if self.drafts is not None and not 0 <= self.drafts <= MOST_DRAFTS:
            raise UsageError(f"--drafts: {self.drafts} is no number of drafts; give 0 to {MOST_DRAFTS}")
        check_train(self.train)
        if self.run < 0:
            raise UsageError(f"--run: {self.run} steps cannot be run; give 1 or more, or leave it out")
        if self.device is not None and not self.run:
            raise UsageError("--device: is where both lists are run; add --run STEPS, or leave it out")
        if self.device is not None:
            check_device(self.device)


def find_sizes(request: SizesRequest, watch: SizesWatch = UNWATCHED) -> SizesView:
    """The best list and its judgement. Raises UsageError for limits that leave nothing, and for unusable input.

    Interrupted, it judges by the steps so far; KeyboardInterrupt where these are too few.
    """
    request.check()
    source = _open(request, watch)
    if watch.interrupted and len(source.stream.tokens) < LEAST_STEPS:
        raise KeyboardInterrupt
    limits = _limits(request, source)
    ladders = {name: ladder_of(source.config, name) for name in ("vllm", "default")}
    reach = max(limits.maximum, *(ladder[-1] for ladder in ladders.values() if ladder))
    stream = source.stream.up_to(reach)
    head, rest = split_stream(stream, request.train)
    captures = capture_costs(source.calibration)
    memory = None
    if limits.max_bytes is not None:
        memory, why = captures.memory_of(candidates_of(limits, source.costs))
        if memory is None:
            raise UsageError(f"--memory: the memory of a graph is not known ({why}); use --budget")
    best = solve_sizes(problem_of(head, source.costs, limits, memory))
    chosen = judge_arm("optimal", best.sizes, rest, source.costs)
    arms = [judge_arm(name, sizes, rest, source.costs) for name, sizes in ladders.items()]
    shares = f"{len(head.tokens)} to choose by, {len(rest.tokens)} to judge on"
    eager = f"{stream.left_out} more in no figure: eager whatever is captured (above {reach} tokens, or not for graphs)"
    gains = [predicted_gain(chosen, arm, rest, source.costs) for arm in arms]
    view = SizesView(
        chosen=chosen, arms=arms, predicted=gains, unbeaten=_unbeaten(chosen, arms, gains, limits),
        measured=(), why_not=NOT_RUN, graphs=[captures.of(arm.sizes) for arm in (chosen, *arms)],
        facts=(*source.facts, ("judged", f"{shares}; {eager}")), decode_tokens=source.config.decode_query_len,
    )  # fmt: skip
    if watch.interrupted:
        return replace(view, why_not="interrupted")
    return _run(request, source, view, rest, watch) if request.run else view


def _unbeaten(
    chosen: SizesArm, arms: Sequence[SizesArm], gains: Sequence[SizesGain], limits: SizesLimits
) -> str:
    """The first ladder that the optimum gains nothing over, with no more graphs, and that the limits allow."""
    must = {limits.maximum, *limits.forced}
    for arm, gain in zip(arms, gains, strict=True):
        allowed = must <= set(arm.sizes) and not any(size % limits.multiple for size in arm.sizes)
        fits = allowed and max(arm.sizes) == limits.maximum and limits.max_bytes is None
        if fits and gain.mean_ns <= 0 and len(arm.sizes) <= len(chosen.sizes):
            return arm.name
    return ""


def _open(request: SizesRequest, watch: SizesWatch) -> SizesSource:
    trace = {"limit": request.limit, "speed": request.speed}
    runner = {"speculative": request.drafts, "max_num_seqs": request.max_num_seqs}
    return open_source(
        request.path, {name: value for name, value in trace.items() if value is not None},
        {name: value for name, value in runner.items() if value is not None},
        CostsAsked(request.calibration, request.cost_model, request.device, bool(request.run)), watch,
    )  # fmt: skip


def _limits(request: SizesRequest, source: SizesSource) -> SizesLimits:
    usual = usual_limits(source.config)
    multiple = usual.multiple * request.multiple
    maximum = request.maximum or usual.maximum // multiple * multiple
    return SizesLimits(
        maximum=maximum, multiple=multiple, forced=request.force,
        max_graphs=usual.max_graphs if request.budget is None else request.budget,
        max_bytes=None if request.memory_mib is None else request.memory_mib << 20,
    )  # fmt: skip


def _run(
    request: SizesRequest, source: SizesSource, view: SizesView, rest: SizesStream, watch: SizesWatch
) -> SizesView:
    from .run import SizesLists, measured_gain

    ladder = next(arm for arm in view.arms if arm.name == "vllm")
    found = measured_gain(source, SizesLists(view.chosen.sizes, ladder.sizes), request, rest, watch)
    if isinstance(found, str):
        return replace(view, why_not=found)
    same = predicted_gain(view.chosen, ladder, rest.numbered(found.steps), source.costs)
    graphs = [found.captures.of(arm.sizes) for arm in (view.chosen, *view.arms)]
    if graphs[0].reason == NOT_CAPTURED:  # by this run
        graphs = list(view.graphs)
    facts = list(view.facts)
    if found.untimed:
        facts.append(("run", f"{found.untimed} more steps without a time: the device waited for the host"))
    return replace(view, measured=(found.gain,), measured_as=found.what, same_steps=(same,), graphs=graphs, facts=facts)
