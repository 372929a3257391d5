"""Both lists on one runner: what is run, what is compared, and that the tokens are those of a plain run."""

from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest
from stepscope.experiments.resolve import resolve, workload_of
from stepscope.experiments.session import Session
from stepscope.experiments.sizing.both import BothLists, DeviceClock, ForwardMarks, room_for_both
from stepscope.experiments.sizing.optimal import calibration_table, sizes_costs
from stepscope.workloads.scheduler import Scheduler

LADDER, CHOSEN = (2, 4, 8, 16), (3, 8, 12, 16)
SPEC = {
    "workload": {"generator": {
        "num_requests": 9, "prompt": {"kind": "uniform", "low": 4, "high": 9},
        "output": {"kind": "uniform", "low": 2, "high": 9},
    }},
    "runner": {
        "graph_mode": "full_and_piecewise", "max_num_seqs": 8, "max_num_batched_tokens": 24, "max_model_len": 32,
        "num_blocks": 60, "model": "micro",
    },
    "device": "sim",
}  # fmt: skip


class Counting:
    """The runner's own executor; `sizes` of each step's forwards, in their order. The host stops for 5 ms behind the
    first forward of step `stops_in`."""

    def __init__(self, executor, device, stops_in) -> None:
        self.executor, self.sizes, self.uncaptured = executor, {}, executor.uncaptured
        self.device, self.stops_in = device, stops_in

    def run(self, plan, inputs, metadata):
        sizes = self.sizes.setdefault(inputs.step, [])
        sizes.append(plan.size)
        hidden = self.executor.run(plan, inputs, metadata)
        if inputs.step == self.stops_in and len(sizes) == 1:
            self.device.idle_until(self.device.clock.now_ns() + 5_000_000)
        return hidden


def run(folder, *, first=None, stops_in=None):
    """Tokens of all steps; with `first` by both lists from that step on, and what they gave."""
    spec = resolve(SPEC)
    workload = workload_of(spec)
    roomy = replace(spec, runner=room_for_both(spec.runner, (LADDER, CHOSEN)))
    with closing(Session(roomy, folder)) as session:
        runner = session.runner
        counted = runner.executor = Counting(runner.executor, session.device, stops_in)
        both = None if first is None else BothLists(runner, roomy.runner, (LADDER, CHOSEN), first)
        scheduler, tokens, counts = Scheduler(workload.scheduler), [], {}
        for request in workload.requests:
            scheduler.add_request(request)
        while scheduler.has_unfinished() or scheduler.has_pending_finished():
            delta = scheduler.schedule()
            result = runner.execute(delta)
            scheduler.update(result)
            tokens.append(dict(result.sampled))
            if delta.total_num_scheduled_tokens:
                counts[delta.step] = delta.total_num_scheduled_tokens
        session.device.synchronize()
        return tokens, counts, counted.sizes, None if both is None else both.times()


def place(sizes, count):
    return next((size for size in sizes if size >= count), None)


def test_each_forward_is_run_as_either_list_would_and_the_tokens_stay(tmp_path) -> None:
    plain, *_ = run(tmp_path / "plain")
    tokens, counts, sizes, times = run(tmp_path / "both", first=3)
    assert tokens == plain
    compared = [step for step in sorted(counts) if step >= 3 and counts[step] <= 16]
    assert len(times.ladder_ns) == len(compared) > 4
    kinds = set()
    for nth, step in enumerate(compared):
        one, other = place(LADDER, counts[step]), place(CHOSEN, counts[step])
        kinds.add(one == other)
        # THEN where they differ both come behind the other one, in turns; else one ahead of the one that counts
        in_turn = [one, other, one] if nth % 2 == 0 else [other, one, other]
        assert sizes[step] == ([one] * 2 if one == other else in_turn)
    assert kinds == {True, False}
    # AND before the first step that counts, and above the largest size, it is the ladder's forward alone
    others = {step: sizes[step] for step in counts if step not in compared}
    assert others == {step: [place(LADDER, counts[step])] for step in others}
    assert any(count > 16 for count in counts.values())


def test_what_either_takes_is_its_own_size_s_time(tmp_path) -> None:
    _, counts, _, times = run(tmp_path, first=0)
    compared = np.array([counts[step] for step in sorted(counts) if counts[step] <= 16], dtype=np.int64)
    spec = resolve(SPEC)
    costs = sizes_costs(calibration_table(spec.calibration, spec.cost_model)).without_attention()  # as sim has it
    foretold = costs.step_ns(LADDER, compared) - costs.step_ns(CHOSEN, compared)
    saved = times.ladder_ns - times.chosen_ns
    alike = np.array([place(LADDER, count) == place(CHOSEN, count) for count in compared.tolist()])
    assert (saved[alike] == 0).all()  # exactly: it is one graph
    assert np.abs(saved - foretold).max() <= 2
    assert (times.ladder_ns > 500_000).all()


def test_a_forward_without_a_time_of_its_own_has_none() -> None:
    class Marks:
        def resolve_mark(self, mark, asked_ns):
            assert asked_ns == 0  # or a mark that stands in for another one would be moved to when it was asked for
            return {"early": (100, 5), "late": (170, 5)}.get(mark)

    clock = DeviceClock(Marks())
    assert clock.time_ns(ForwardMarks("early", "late", 100)) == 70
    never = ForwardMarks("early", "never", 90), ForwardMarks(None, "late", 90)
    # AND one that was enqueued when the one ahead had ended: the marks would count how long the device waited for it
    assert [clock.time_ns(forward) for forward in (*never, ForwardMarks("early", "late", 101))] == [None] * 3


def test_a_step_in_which_the_device_waited_for_the_host_is_not_compared(tmp_path) -> None:
    *_, sizes, times = run(tmp_path, first=3, stops_in=6)
    assert len(sizes[6]) > 1
    assert times.untimed == 1
    assert 6 not in times.steps
    assert max(times.ladder_ns.max(), times.chosen_ns.max()) < 5_000_000


@pytest.mark.parametrize("lists", [((4, 16), (8, 16)), ((4, 16), (6,))])
def test_steps_that_only_one_list_replays_are_not_compared(tmp_path, lists) -> None:
    # GIVEN a list that ends at 6, or one that pads a full batch of 8 to 16 rows, which the other one's runner lacks
    spec = resolve(SPEC)
    workload = workload_of(spec)
    roomy = replace(spec, runner=room_for_both(spec.runner, lists))
    with closing(Session(roomy, tmp_path)) as session:
        both = BothLists(session.runner, roomy.runner, lists, 0)
        scheduler, counts = Scheduler(workload.scheduler), []
        for request in workload.requests:
            scheduler.add_request(request)
        while scheduler.has_unfinished() or scheduler.has_pending_finished():
            delta = scheduler.schedule()
            scheduler.update(session.runner.execute(delta))
            counts.append(delta.total_num_scheduled_tokens)
        session.device.synchronize()
        times = both.times()
    most = min(sizes[-1] for sizes in lists)
    assert len(times.ladder_ns) == sum(0 < count <= most for count in counts)
