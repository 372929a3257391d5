"""Random programs against a second opinion: a discrete-event simulation that knows nothing of maxima and sums."""

import heapq
import random
from collections import defaultdict

import pytest
from stepscope.instrumentation.queues import Enqueue, HostUntil, HostWait, HostWork, replay


class EventByEvent:
    """Runs a program as a machine would: a heap of happenings, lanes that look at their head, a host that blocks."""

    def __init__(self, program, durations):
        self.program, self.durations = program, durations
        self.happenings = []  # (time, serial, what, argument)
        self.serial = 0
        self.fifo = defaultdict(list)  # lane -> operations not yet started
        self.running = {}  # lane -> operation
        self.ready, self.started, self.ended = set(), {}, {}
        self.host_times = []
        self.blocked = None  # (operation, time of the call, instruction)
        self.counter = 0

    def post(self, time, what, argument=None):
        self.serial += 1
        heapq.heappush(self.happenings, (time, self.serial, what, argument))

    def run(self, start):
        self.post(start, "host")
        while self.happenings:
            time, _, what, argument = heapq.heappop(self.happenings)
            getattr(self, f"on_{what}")(time, argument)
            self.start_heads(time)
        return self.started, self.ended, self.host_times

    def on_host(self, time, _):
        if self.counter > 0:
            self.host_times.append(time)
        if self.counter == len(self.program):
            return
        instruction = self.program[self.counter]
        self.counter += 1
        if isinstance(instruction, HostWork):
            self.post(time + instruction.duration_ns, "host")
        elif isinstance(instruction, HostUntil):
            self.post(instruction.time_ns if instruction.time_ns > time else time, "host")
        elif isinstance(instruction, Enqueue):
            self.post(time + instruction.host_cost_ns, "submitted", instruction)
        else:
            self.block(time, instruction)

    def on_submitted(self, time, instruction):
        self.fifo[instruction.lane].append(instruction)
        self.post(time + instruction.latency_ns, "ready", instruction.op)
        self.post(time, "host")

    def on_ready(self, _, op):
        self.ready.add(op)

    def on_ended(self, time, instruction):
        self.ended[instruction.op] = time
        del self.running[instruction.lane]
        if self.blocked and self.blocked[0] == instruction.op:
            _, call, wait = self.blocked
            self.blocked = None
            self.wake(time, call, wait)

    def block(self, time, wait):
        if wait.op in self.ended:
            self.wake(self.ended[wait.op], time, wait)
        else:
            self.blocked = (wait.op, time, wait)

    def wake(self, ended, call, wait):
        wakeup = wait.overhead_ns if wait.wakeup_ns is None else wait.wakeup_ns
        at = call + wait.overhead_ns
        if ended + wakeup > at:
            at = ended + wakeup
        self.post(at, "host")

    def start_heads(self, time):
        for lane, waiting in self.fifo.items():
            if not waiting or lane in self.running:
                continue
            head = waiting[0]
            if head.op in self.ready and all(op in self.ended for op in head.waits):
                waiting.pop(0)
                self.running[lane] = head
                self.started[head.op] = time
                self.post(time + self.durations.get(head.op, head.duration_ns), "ended", head)


def random_program(rng):
    """Up to 60 instructions on up to 4 lanes; ties and zeros are frequent on purpose."""
    lanes = [f"lane{index}" for index in range(rng.randint(1, 4))]
    scale = rng.choice([3, 20, 1000])
    program, ops = [], []
    for _ in range(rng.randint(1, 60)):
        kind = rng.choice(["work", "enqueue", "enqueue", "enqueue", "wait", "until"])
        if kind == "work":
            program.append(HostWork(rng.randint(0, scale)))
        elif kind == "until":
            program.append(HostUntil(rng.randint(0, 20 * scale)))
        elif kind == "wait" and ops:
            wakeup = rng.choice([None, rng.randint(0, scale)])
            program.append(HostWait(rng.choice(ops), rng.randint(0, scale), wakeup))
        else:
            op = (ops[-1] if ops else 0) + rng.randint(1, 3)
            waits = tuple(rng.sample(ops, min(len(ops), rng.choice([0, 0, 1, 2]))))
            cost, latency = rng.randint(0, scale), rng.randint(0, scale)
            program.append(Enqueue(op, rng.choice(lanes), rng.randint(0, 3 * scale), latency, waits, cost))
            ops.append(op)
    return program, {op: rng.randint(0, scale) for op in ops if rng.random() < 0.3}


@pytest.mark.parametrize("batch", range(10))
def test_a_thousand_random_queue_graphs_equal_the_event_by_event_simulation(batch):
    rng = random.Random(20_000 + batch)
    for _ in range(100):
        program, overrides = random_program(rng)
        start = rng.choice([0, 2**60 + 1])
        program = [HostUntil(step.time_ns + start) if isinstance(step, HostUntil) else step for step in program]
        for durations in ({}, overrides):
            model = replay(program, durations, start_ns=start)
            started, ended, host_times = EventByEvent(program, durations).run(start)
            assert {op: times.start_ns for op, times in model.ops.items()} == started
            assert {op: times.end_ns for op, times in model.ops.items()} == ended
            assert list(model.host_ns) == host_times
