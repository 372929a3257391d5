"""Dose response of planted engines: the slope says whether a longer copy would be paid."""

from stepscope.analysis.doses import dose_response


def test_two_in_flight_on_the_compute_queue_every_nanosecond_is_paid(lab, steps):
    found = dose_response(steps(lab(), 12, in_flight=2, copy_ns=155).recording())
    doses = [(dose.factor, dose.added_ns, dose.period_added_ns) for dose in found.doses]
    assert doses == [(2, 155, 155), (4, 465, 465)]
    assert found.slope == 1.0


def test_a_queue_of_its_own_hides_it_as_long_as_the_forward_lasts(lab, steps):
    # GIVEN a copy of 100 beside a forward of 488 that does not wait for the tokens: 200 and 400 hide as well
    found = dose_response(steps(lab(), 12, in_flight=2, copy_ns=100, lane="gpu:copy").recording())
    assert found.slope == 0.0
    # AND four times 200 do not: 4 x 200 is longer than the rest of the step
    longer = dose_response(steps(lab(), 12, in_flight=2, copy_ns=200, lane="gpu:copy").recording())
    assert longer.doses[0].period_added_ns == 0
    assert longer.doses[1].period_added_ns > 0
    assert 0 < longer.slope < 1


def test_null_with_a_reason(lab, steps, source):
    assert dose_response(source()).reason == "no device operation can be replayed"
    short = dose_response(steps(lab(), 4).recording())
    assert (short.slope, short.reason) == (None, "only 1 steady steps can be replayed, 3 are needed")
    other = dose_response(steps(lab(), 9).recording(), buffer="absent")
    assert other.reason == "no copy of absent in a counted step can be replayed"
