"""A clock that a test moves, device marks that fire when it says, and a step upon them."""

PHASES = ("preprocess", "forward", "sample")


class TickingClock:
    """Each reading is 10 ns later; leaving a range first costs what `costs` declares for it."""

    clock_id = "test"

    def __init__(self, **costs):
        self.time = 0
        self.costs = costs

    def now_ns(self):
        self.time += 10
        return self.time

    def leave(self, name):
        self.time += self.costs.get(name, 0)
        return self.now_ns()


class FakeMarks:
    """Mark k fires at 1000 * k; `known` is how many have been resolved by the device so far."""

    def __init__(self, clock, known=10**9, mark_cost=0):
        self.clock = clock
        self.taken = []
        self.known = known
        self.mark_cost = mark_cost

    def mark(self):
        self.clock.time += self.mark_cost
        self.taken.append(self.clock.time)
        return len(self.taken) - 1

    def resolve_mark(self, mark, asked_ns):
        return (1000 * mark, 3) if mark < self.known else None


def run_step(probe, number, fail_in=None):
    with probe.step(number) as step:
        for name in PHASES:
            with step.phase(name), probe.range(f"{name}.inner"):
                if name == fail_in:
                    raise RuntimeError("planted")


def spans(ledger):
    return [row[:1] + row[2:7] for row in ledger.rows["spans"]]
