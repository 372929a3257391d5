"""What the probe costs a step of 3 phases and 7 ranges. Bounds are wide: they catch a slip, not a slow machine."""

import time

import pytest
from stepscope.instrumentation.clock import MonotonicClock
from stepscope.instrumentation.probe import Ledger, NullProbe, Probe

RANGES = (
    "update_states", "commit_block_table", "build_indices", "copy_inputs", "slot_mapping", "attention_metadata",
    "dispatch",
)


class Marks:
    def __init__(self):
        self.count = 0

    def mark(self):
        self.count += 1
        return self.count

    def resolve_mark(self, mark):
        return mark, 0


def run_step(probe, number):
    with probe.step(number) as step:
        with step.phase("preprocess"):
            for name in RANGES:
                with probe.range(name):
                    pass
        with step.phase("forward"):
            pass
        with step.phase("sample"):
            pass
        step.note(num_reqs=3, num_tokens=4)


@pytest.mark.parametrize(("kind", "bound_us"), [("null", 25), ("host", 150), ("events", 180)])
def test_cost_of_a_step(kind, bound_us):
    best_ns = float("inf")
    for _ in range(5):
        ledger = Ledger()
        marks = Marks() if kind == "events" else None
        probe = NullProbe() if kind == "null" else Probe(ledger, MonotonicClock(), marks=marks, level="events")
        start_ns = time.perf_counter_ns()
        for number in range(300):
            run_step(probe, number)
        best_ns = min(best_ns, (time.perf_counter_ns() - start_ns) / 300)
    assert best_ns < bound_us * 1000
