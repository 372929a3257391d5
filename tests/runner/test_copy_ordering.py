"""What waits for what, as calls on the device's door."""

import pytest
from stepscope.errors import UsageError
from stepscope.runner.devices.base import Event
from stepscope.runner.inputs.copy_ordering import make_copy_ordering


class Door:
    """Writes down the ordering calls."""

    def __init__(self):
        self.calls = []

    def record(self, stream):
        self.calls.append(("record", stream))
        return Event(stream, len(self.calls))

    def stream_wait(self, stream, event):
        self.calls.append(("wait", stream, event.stream, event.op))

    def host_has_seen(self, op):
        return False

    def stream_follows(self, stream, op):
        return False


def one_step(ordering):
    ordering.before_copies()
    ordering.before_readers()
    ordering.after_readers()


def test_the_compute_stream_needs_no_waits():
    door = Door()
    ordering = make_copy_ordering(door, "compute", "single_guarded")
    one_step(ordering)
    assert ordering.stream == "compute"
    assert door.calls == []


def test_a_dedicated_stream_waits_for_the_forward_that_reads_its_buffers():
    door = Door()
    ordering = make_copy_ordering(door, "dedicated", "single_guarded")
    one_step(ordering)
    one_step(ordering)
    assert ordering.stream == "copy"
    assert door.calls == [
        ("record", "copy"), ("wait", "compute", "copy", 1), ("record", "compute"),
        ("wait", "copy", "compute", 3), ("record", "copy"), ("wait", "compute", "copy", 5), ("record", "compute"),
    ]  # fmt: skip


def test_without_the_guard_copies_wait_for_nobody():
    door = Door()
    ordering = make_copy_ordering(door, "dedicated", "single_unguarded")
    one_step(ordering)
    one_step(ordering)
    assert [call for call in door.calls if call[:2] == ("wait", "copy")] == []


def test_one_event_guards_all_host_slots_of_a_step():
    door = Door()
    ordering = make_copy_ordering(door, "compute", "single_guarded")
    slots = [type("Slot", (), {"copy": op, "event": None})() for op in (1, 2, 3)]
    for slot in slots:
        ordering.guard.protect(slot)
    ordering.before_readers()
    assert door.calls == [("record", "compute")]
    assert len({id(slot.event) for slot in slots}) == 1


def test_an_unknown_stream_is_refused():
    with pytest.raises(UsageError, match="copy_stream: unknown value 'both'; known are compute, dedicated"):
        make_copy_ordering(Door(), "both", "single_guarded")


def test_two_sets_wait_for_the_forward_before_the_last_one():
    door = Door()
    ordering = make_copy_ordering(door, "dedicated", "double")
    for _ in range(3):
        one_step(ordering)
    readers = [number for number, call in enumerate(door.calls, 1) if call == ("record", "compute")]
    waits = [call[3] for call in door.calls if call[:2] == ("wait", "copy")]
    assert waits == readers[:1]  # only the third step waits, and for the first


def test_landing_buffers_wait_for_the_move_and_not_for_the_forward():
    door = Door()
    ordering = make_copy_ordering(door, "dedicated", "staged_d2d")
    one_step(ordering)
    forward = door.record("compute").op  # of the first step; nobody waits for it
    one_step(ordering)
    assert [call[2:] for call in door.calls if call[:2] == ("wait", "copy")] == [("compute", 3)]
    assert forward == 4


@pytest.mark.parametrize("switches", [("compute", "single_guarded"), ("dedicated", "double")])
def test_arrivals_come_behind_the_copies_and_before_the_readers(switches):
    door = Door()
    ordering = make_copy_ordering(door, *switches)
    ordering.road.arrivals.append(lambda: door.calls.append("arrival"))
    one_step(ordering)
    before = [call for call in door.calls[: door.calls.index("arrival")] if call[:2] == ("wait", "compute")]
    assert len(before) == (switches[0] == "dedicated")
    assert door.calls.count("arrival") == 1
