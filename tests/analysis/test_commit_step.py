"""What an arm without the copy is spared, where another arm tells what the range costs behind other calls."""

import pytest
from stepscope.analysis.exposure import commit_step, exposure

RANGE = "commit_block_table"
COLD, AROUND, CALL = 35, 20, 10


def arm(lab, order, steps=8):
    """The first calls of a step cost COLD more in all: two parts of three in what the table's range does around its
    call (events, say), or all of it in the call of `ids`, if that comes first.
    """
    made = lab()
    for number in range(steps):
        with made.step(number):
            table = ()
            if order == "first":
                with made.span(RANGE, "range"):
                    made.host(AROUND + COLD - 12)
                    table = (made.copy("block_table", 155, cost=CALL + 12),)
            for at in range(3):
                made.copy("ids", 1, cost=CALL + (COLD if at == 0 and order != "first" else 0))
            if order == "last":
                with made.span(RANGE, "range"):
                    made.host(AROUND)
                    table = (made.copy("block_table", 155, cost=CALL),)
            made.host(600)
            made.wait(made.launch("forward", 400, kind="graph", consumes=table))
    return made


def test_what_is_paid_for_being_first_stays_with_the_step_wherever_it_was_paid(lab):
    first, last, skip = (arm(lab, order) for order in ("first", "last", "skip"))
    measured = first.rows["steps"][4]["period_ns"] - skip.rows["steps"][4]["period_ns"]
    assert measured == AROUND + CALL
    # THEN with the range of arm last the replay of arm first tells just that; its own calls tell less than half of it
    assert commit_step(first.recording(), last.recording()) == measured
    assert exposure(first.recording()).commit_step_ns == measured + COLD - 12


def test_a_range_that_was_shorter_than_that_loses_all_that_it_took(lab):
    cheap, dear = arm(lab, "last"), arm(lab, "first")
    assert commit_step(cheap.recording(), dear.recording()) == exposure(cheap.recording()).commit_step_ns


@pytest.mark.parametrize("missing", ["range", "copy", "steps"])
def test_it_is_null_where_one_of_them_does_not_tell(lab, missing):
    first, last = arm(lab, "first", steps=4 if missing == "steps" else 8), arm(lab, "last")
    if missing == "range":
        last = arm(lab, "skip")
    if missing == "copy":
        first = arm(lab, "skip")
    assert commit_step(first.recording(), last.recording()) is None
    assert commit_step(first.recording(), last.recording(), "ids") is None


def test_a_call_that_was_held_up_in_a_step_of_one_kind_does_not_tell_how_kinds_differ(lab):
    # GIVEN short and long steps by turns, five and four of them counted, and a short one whose call took 3,000 more
    made = lab()
    for number in range(12):
        with made.step(number):
            with made.span(RANGE, "range"):
                table = (made.copy("block_table", 3, cost=CALL + (3000 if number == 6 else 0)),)
            made.host(2600 if number % 2 else 600)
            made.wait(made.launch("forward", 400, kind="graph", consumes=table))
    # THEN the call, not what lies between a long step and a short one, of which there is one more without the call
    assert exposure(made.recording()).commit_step_ns == CALL
