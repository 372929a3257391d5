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
