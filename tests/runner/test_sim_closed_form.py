"""The step's shape on the sim device with declared host times, against formulas worked out by hand. All in us.

Costs of data/round.json: copies 4 host, 3 latency; slot mapping 12 host, 2 latency, 3 device; graph 10 host, 6 latency,
G = 110 device (64 tokens, no KV read); sample 5 host, 2 latency, 20 device; copy back 3 host, 3 latency, 2 device;
event record 2, stream wait 1, host wait 1.5, wake-up 7. The small inputs take 1 on the device, the block table C.
Declared: B for `build_indices`, S for `schedule`.
"""

from pathlib import Path

import pytest
import torch
from stepscope.instrumentation.probe.ledger import Ledger
from stepscope.instrumentation.recording.schema import COPIES, EDGES, SPANS
from stepscope.runner.devices import make_device
from stepscope.runner.devices.base import GraphKey, Work
from stepscope.runner.devices.sim_clock import DeclaredHost

ROUND = str(Path(__file__).parent / "data" / "round.json")
US = 1000
B, S, G = 40, 30, 110
KEY = GraphKey("full", 64, 64)


def table_bytes(device_us):
    """The curve is 0.9 us + bytes / 10,000 per us."""
    return (device_us * 1000 - 900) * 10


class Runner:
    """Drives the door as a model runner does. `in_flight` steps are enqueued before the host waits for the oldest."""

    def __init__(self, order="first", stream="compute", in_flight=1, table_us=51, guarded=True):
        self.ledger = Ledger()
        host = DeclaredHost({"build_indices": B * US, "schedule": S * US}, start_ns=2**60)
        self.device = make_device("sim", ledger=self.ledger, calibration=ROUND, cost_model="round", host=host)
        self.order, self.stream, self.in_flight, self.guarded = order, stream, in_flight, guarded
        self.pinned = {name: self._pinned(size) for name, size in (("table", table_bytes(table_us)), ("inputs", 1000))}
        self.gpu = {name: self.device.empty(tensor.shape, tensor.dtype) for name, tensor in self.pinned.items()}
        self.tokens = self._pinned(256)
        self.device.capture(KEY, lambda: torch.zeros(1))
        self.last_reader, self.events, self.starts, self.returns = None, [], [], []

    def _pinned(self, size):
        return self.device.host_tensor((size,), torch.uint8, pinned=True)

    def run(self, steps):
        for step in range(steps):
            self.ledger.step = step
            self.starts.append(self.device.clock.now_ns())
            self.step()
            if len(self.events) == self.in_flight:
                self.device.host_wait(self.events.pop(0), "tokens")
            self.returns.append(self.device.clock.now_ns())
            self.device.clock.leave("schedule")
        return self

    def copy(self, name):
        return self.device.copy_to_device(self.gpu[name], self.pinned[name], buffer=name, stream=self.stream)

    def step(self):
        device = self.device
        if self.last_reader is not None and self.stream == "copy" and self.guarded:
            device.stream_wait("copy", self.last_reader)
        copies = [self.copy("table")] if self.order == "first" else []
        device.clock.leave("build_indices")
        copies.append(self.copy("inputs"))
        if self.order == "last":
            copies.append(self.copy("table"))
        if self.stream == "copy":
            device.stream_wait("compute", device.record("copy"))
        device.launch("slot_mapping", lambda: None, Work("slot_mapping", tokens=64, rows=64), consumes=copies)
        device.replay(KEY, Work("forward", tokens=64, rows=64))
        if self.stream == "copy" and self.guarded:
            self.last_reader = device.record("compute")
        device.launch("sample", lambda: None, Work("sample", rows=64))
        device.stream_wait("output", device.record("compute"))
        device.copy_to_host(self.tokens, self.tokens.clone(), buffer="tokens", stream="output")
        self.events.append(device.record("output"))

    def intervals(self, step):
        """{operation: (start, end)} of one step, in us from the step's own start."""
        found = {}
        for row in self._rows("copies", COPIES, step):
            found[row["buffer"]] = (row["start_ns"], row["end_ns"])
        for row in self._rows("spans", SPANS, step):
            if row["lane"].startswith("gpu:"):
                found[row["name"]] = (row["start_ns"], row["end_ns"])
        return {name: tuple((time - self.starts[step]) / US for time in times) for name, times in found.items()}

    def periods(self):
        return [(later - earlier) / US for earlier, later in zip(self.starts, self.starts[1:], strict=False)]

    def _rows(self, table, columns, step):
        names = ["step", *(column.name for column in columns)]
        return [dict(zip(names, row, strict=True)) for row in self.ledger.rows[table] if row[0] == step]


def chain(**starts_and_durations):
    return {name: (start, start + duration) for name, (start, duration) in starts_and_durations.items()}


@pytest.mark.parametrize("c", [51, 65, 66, 101])
def test_sync_commit_first_hides_the_copy_behind_host_work(c):
    # table: call ends at 4, ready 7, device [7, 7 + C]. inputs: call ends at 8 + B, ready 11 + B.
    # slot mapping: call ends 20 + B, ready 22 + B. graph: call ends 30 + B, ready 36 + B.
    # Without a wait the graph starts at 36 + B; through the copy at 7 + C + 1 + 3. Hidden: 25 + B of C.
    inputs = max(11 + B, 7 + c)
    slots = max(22 + B, inputs + 1)
    graph = max(36 + B, slots + 3)
    assert graph == 36 + B + max(0, c - (25 + B))
    sample = graph + G
    runner = Runner("first", table_us=c).run(3)
    for step in range(3):
        assert runner.intervals(step) == chain(
            table=(7, c), inputs=(inputs, 1), slot_mapping=(slots, 3), **{"graph.64": (graph, G)},
            sample=(sample, 20), tokens=(sample + 20, 2),
        )  # fmt: skip
    # The host wakes 7 after the tokens arrived, then schedules.
    assert runner.periods() == [sample + 20 + 2 + 7 + S] * 2
    assert [(back - start) / US for back, start in zip(runner.returns, runner.starts, strict=True)] == [sample + 29] * 3


@pytest.mark.parametrize("c", [20, 22, 23, 51, 101])
def test_sync_commit_last_exposes_all_but_the_launches_behind_it(c):
    # inputs: call ends 4 + B, device [7 + B, 8 + B]. table: call ends 8 + B, device [11 + B, 11 + B + C].
    # The graph would start at 36 + B; through the copy at 11 + B + C + 3. Only 22 of C are hidden.
    slots = max(22 + B, 11 + B + c)
    graph = max(36 + B, slots + 3)
    assert graph == 36 + B + max(0, c - 22)
    runner = Runner("last", table_us=c).run(3)
    for step in range(3):
        assert runner.intervals(step) == chain(
            table=(11 + B, c), inputs=(7 + B, 1), slot_mapping=(slots, 3), **{"graph.64": (graph, G)},
            sample=(graph + G, 20), tokens=(graph + G + 20, 2),
        )  # fmt: skip
    assert runner.periods() == [graph + G + 29 + S] * 2


def test_sync_order_is_worth_what_the_host_does_between_the_two_commit_points():
    # last - first = C - 22 for C <= 25 + B: everything beyond the launches, which hide 22 in either order
    first, last, skip = (Runner(order, table_us=51).run(3).periods()[-1] for order in ("first", "last", "skip"))
    assert last - first == 51 - 22
    assert first - skip == 4  # the call itself: the copy is hidden, the host's 4 us are not


@pytest.mark.parametrize("order", ["first", "last", "skip"])
def test_two_in_the_queue_on_the_compute_stream_the_order_is_worth_nothing(order):
    # The device is the bottleneck: its step is C + 1 + 3 + G + 20, the host's 114.5 at most. Every operation starts
    # where the one before it on the stream ends, so the whole copy is exposed and its place does not matter.
    c = 0 if order == "skip" else 51
    period = c + 1 + 3 + G + 20
    runner = Runner(order, in_flight=2).run(8)
    assert runner.periods()[3:] == [period] * 4

    step, before = runner.intervals(6), runner.intervals(5)
    start = before["sample"][1] - period  # where the step before left the stream, on this step's scale
    names = [name for name in {"first": ("table", "inputs"), "last": ("inputs", "table"), "skip": ("inputs",)}[order]]
    for name in (*names, "slot_mapping", "graph.64", "sample"):
        assert step[name][0] == start
        start = step[name][1]
    assert step["tokens"] == (start, start + 2)


def test_two_in_the_queue_the_steady_wait_returns_behind_the_older_steps_tokens():
    runner = Runner("first", in_flight=2).run(8)
    for step in range(4, 8):
        returned = (runner.returns[step] - runner.starts[step - 1]) / US
        assert returned == runner.intervals(step - 1)["tokens"][1] + 7


def test_sync_with_a_dedicated_stream_costs_the_calls_that_order_it():
    # From the second step: guard 1. table: call ends 5, device [8, 8 + C]. inputs: call ends 9 + B, ready 12 + B,
    # behind the table. record 2, wait 1: 12 + B. slot mapping: call ends 24 + B, ready 26 + B, after the copies.
    # graph: call ends 34 + B, ready 40 + B.
    c = 51
    inputs = max(12 + B, 8 + c)
    slots = max(26 + B, inputs + 1)
    graph = max(40 + B, slots + 3)
    runner = Runner("first", "copy", table_us=c).run(4)
    assert runner.intervals(2) == chain(
        table=(8, c), inputs=(inputs, 1), slot_mapping=(slots, 3), **{"graph.64": (graph, G)},
        sample=(graph + G, 20), tokens=(graph + G + 20, 2),
    )  # fmt: skip
    assert runner.periods()[1:] == [graph + G + 29 + S] * 2
    assert runner.intervals(0)["table"] == (7, 7 + c)  # nothing to guard against yet


@pytest.mark.parametrize("c", [11, 19, 20, 51, 101])
def test_two_in_the_queue_the_guard_of_a_dedicated_stream_takes_the_gain_back(c):
    # The copy waits for the graph before it (write after read), g: device [g, g + C], inputs behind it, slot mapping
    # after max(sample's end g + 20, g + C + 1). Only the sampler's 20 are hidden.
    period = max(20, c + 1) + 3 + G
    runner = Runner("first", "copy", in_flight=2, table_us=c).run(9)
    assert runner.periods()[4:] == [period] * 4
    step, before = runner.intervals(7), runner.intervals(6)
    g = before["graph.64"][1] - period
    slots = g + max(20, c + 1)
    assert step == chain(
        table=(g, c), inputs=(g + c, 1), slot_mapping=(slots, 3), **{"graph.64": (slots + 3, G)},
        sample=(slots + 3 + G, 20), tokens=(slots + 3 + G + 20, 2),
    )  # fmt: skip


def test_two_in_the_queue_without_the_guard_the_copy_is_hidden_and_reads_race_with_it():
    runner = Runner("first", "copy", in_flight=2, guarded=False).run(9)
    assert runner.periods()[4:] == [3 + G + 20] * 4
    step, before = runner.intervals(7), runner.intervals(6)
    graph_before = before["graph.64"][1] - runner.periods()[6]
    assert step["table"][0] < graph_before  # the hazard: the table is overwritten while the forward reads it


def test_edges_name_the_first_reader_and_the_waits_between_streams():
    runner = Runner("first", "copy", in_flight=2).run(3)
    names = ["step", *(column.name for column in EDGES)]
    edges = [dict(zip(names, row, strict=True)) for row in runner.ledger.rows["edges"] if row[0] == 2]
    ops = {row[-1]: row[6] for row in runner.ledger.rows["copies"] if row[0] in (1, 2)}
    ops |= {row[-1]: row[2] for row in runner.ledger.rows["spans"] if row[0] in (1, 2)}
    assert [(edge["kind"], ops[edge["waiting"]], ops[edge["awaited"]]) for edge in edges] == [
        ("event", "table", "graph.64"), ("event", "slot_mapping", "inputs"), ("consumer", "slot_mapping", "table"),
        ("consumer", "slot_mapping", "inputs"), ("event", "tokens", "sample"),
    ]  # fmt: skip


@pytest.mark.parametrize("order", ["first", "last"])
@pytest.mark.parametrize("stream", ["compute", "copy"])
@pytest.mark.parametrize("in_flight", [1, 2])
def test_declared_time_is_deterministic_to_the_nanosecond(order, stream, in_flight):
    first, second = (Runner(order, stream, in_flight).run(6).ledger.rows for _ in range(2))
    assert first == second
    assert len(first["copies"]) == 18
