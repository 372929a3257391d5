"""What each reason code says, in a sentence. Files keep the code; people get both."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ...analysis.gate.limits import Limits
from ...analysis.gate.verdict import Reason

_LIMITS = Limits()

MEANINGS: Mapping[Reason, str] = {
    Reason.WITHIN_LIMIT: "surely not slower by --must-detect or more",
    Reason.FASTER: "surely faster",
    Reason.EQUAL: "both sides count the same",
    Reason.FEWER: "the head counts fewer",
    Reason.CONFIRMED_FRESH: "slower in the first launches, and again in fresh ones",
    Reason.CONFIRMED_POOLED: "surely slower over all launches together",
    Reason.MORE: "the head counts more",
    Reason.SLOWER_THAN_HISTORY: "slower than one more result of the stored ones would be",
    Reason.ALL_POINTS_SLOWER: "all points together are surely slower, on fresh launches too",
    Reason.NOT_ALLOWED_FASTER: "faster, where that is not allowed",
    Reason.NEEDS_CONFIRMATION: "looks slower, and was not measured again",
    Reason.NOT_CONFIRMED: "looked slower at first; fresh launches did not show it again",
    Reason.TOO_WIDE: "the interval is too wide to say; more --launches or --pairs narrow it",
    Reason.NO_CALIBRATION: "this machine, point and metric have no calibration, so nothing can fail; run perf gate"
    " calibrate with the same spec",
    Reason.CALIBRATION_EXPIRED: f"the calibration is older than {_LIMITS.calibration_days} days; run perf gate"
    " calibrate again",
    Reason.CALIBRATION_OTHER_MACHINE: "the calibration is of another machine; run perf gate calibrate on this one",
    Reason.CALIBRATION_OTHER_BLOCKS: "the calibration has other --pairs or --block-steps; calibrate with the same",
    Reason.CALIBRATION_NO_PACE: "the calibration knows single periods, which are no pace of pipelined steps; run perf"
    " gate calibrate again",
    Reason.TOO_FEW_LAUNCHES: f"fewer than {_LIMITS.min_launches} whole launches were left; give more --launches",
    Reason.TOO_MANY_DROPPED: f"telemetry dropped more than {_LIMITS.max_dropped_share:.0%} of the pairs; measure on a"
    " quieter machine",
    Reason.NO_VALID_PAIRS: "telemetry dropped every pair; measure on a quieter machine",
    Reason.NO_VARIATION: "all values are equal to the last digit: a clock too coarse, or a copied number",
    Reason.COARSE_CLOCK: "one tick of the clock is worth a regression; measure longer blocks or with a finer clock",
    Reason.ORDER_UNBALANCED: "one arm went first more often, so a drift of the machine would fall on the other",
    Reason.COUNT_VARIES: "the count changes from launch to launch, and the two sides overlap",
    Reason.SINGLE_NUMBER: f"a single stored result shows no spread; store at least {_LIMITS.min_history}",
    Reason.SHORT_HISTORY: f"too few stored results; store at least {_LIMITS.min_history}",
    Reason.OTHER_MACHINE: "the two sides were measured on different machines",
    Reason.UNKNOWN_MACHINE: "one side does not say which machine it was measured on",
    Reason.OTHER_WORK: "the two sides did different work",
    Reason.NOT_IN_BASE: "only the head has the point; --allow-new takes it for new",
    Reason.OTHER_SCALE: "a hundredth of what it was, or less: another unit, or not the same thing; look at both files",
    Reason.NO_STORED_PACE: "stored results of earlier versions know single periods, no pace of pipelined steps;"
    " store new ones",
    Reason.NO_COMMON_POINTS: "the two sides share no point",
    Reason.NOT_IN_HEAD: "the head lacks the point: lost or renamed",
    Reason.ARM_FAILED: "a side failed there",
    Reason.NOT_MEASURED: "a side has no value of it",
    Reason.NOT_FINITE: "a value is not a number, or infinite",
    Reason.NOT_POSITIVE: "a time is zero, or a value negative",
    Reason.NOTHING_MEASURED: "nothing was measured at all",
}


def meanings(reasons: Iterable[Reason]) -> tuple[tuple[str, str], ...]:
    """(code, sentence) of each of `reasons` once, in their order."""
    return tuple((reason.value, MEANINGS[reason]) for reason in dict.fromkeys(reasons))
