"""The words of the gate: verdicts, the reasons behind them, and the exit code of each."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum


class Verdict(Enum):
    """Worst first: of several verdicts the first of this list speaks for all."""

    FAIL = "FAIL"
    ERROR = "ERROR"
    INCOMPARABLE = "INCOMPARABLE"
    INCONCLUSIVE = "INCONCLUSIVE"
    PASS = "PASS"

    @property
    def exit_code(self) -> int:
        """What a command ends with: 0 pass, 1 regression, 3 not measured, 4 undecided, 5 not comparable."""
        return _EXIT_CODES[self]


_EXIT_CODES = {
    Verdict.FAIL: 1, Verdict.ERROR: 3, Verdict.INCOMPARABLE: 5, Verdict.INCONCLUSIVE: 4, Verdict.PASS: 0,
}  # fmt: skip


class Reason(Enum):
    """Why a verdict is what it is. The value is the code that files and reports carry."""

    # pass
    WITHIN_LIMIT = "within_limit"
    FASTER = "faster"
    EQUAL = "equal"
    FEWER = "fewer"
    # fail
    CONFIRMED_FRESH = "confirmed_on_fresh_data"
    CONFIRMED_POOLED = "confirmed_on_pooled_data"
    MORE = "more"
    SLOWER_THAN_HISTORY = "slower_than_history"
    ALL_POINTS_SLOWER = "all_points_slower"
    NOT_ALLOWED_FASTER = "faster_is_not_allowed"
    # undecided
    NEEDS_CONFIRMATION = "needs_confirmation"
    NOT_CONFIRMED = "not_confirmed"
    TOO_WIDE = "interval_too_wide"
    NO_CALIBRATION = "no_calibration"
    CALIBRATION_EXPIRED = "calibration_expired"
    CALIBRATION_OTHER_MACHINE = "calibration_of_another_machine"
    CALIBRATION_OTHER_BLOCKS = "calibration_of_other_blocks"
    CALIBRATION_NO_PACE = "calibration_of_single_periods"
    TOO_FEW_LAUNCHES = "too_few_launches"
    TOO_MANY_DROPPED = "too_many_pairs_dropped"
    NO_VALID_PAIRS = "no_valid_pairs"
    NO_VARIATION = "no_variation"
    COARSE_CLOCK = "clock_too_coarse"
    ORDER_UNBALANCED = "order_unbalanced"
    COUNT_VARIES = "count_varies"
    SINGLE_NUMBER = "single_baseline_number"
    SHORT_HISTORY = "short_history"
    # not comparable
    OTHER_MACHINE = "other_machine"
    UNKNOWN_MACHINE = "unknown_machine"
    OTHER_WORK = "other_workload"
    NOT_IN_BASE = "not_in_base"
    NO_STORED_PACE = "no_stored_pace"
    OTHER_SCALE = "other_scale"
    NO_COMMON_POINTS = "no_common_points"
    # not measured
    NOT_IN_HEAD = "not_in_head"
    ARM_FAILED = "arm_failed"
    NOT_MEASURED = "not_measured"
    NOT_FINITE = "not_finite"
    NOT_POSITIVE = "not_positive"
    NOTHING_MEASURED = "nothing_measured"


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """The verdict that speaks for all; ERROR of none, since nothing measured is no pass."""
    present = set(verdicts)
    return next((verdict for verdict in Verdict if verdict in present), Verdict.ERROR)
