"""How much two equal arms differ on this machine: the A/A calibration, and whether it still holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date

import numpy as np

from ...errors import UsageError
from .equal_arms import EqualArms, equal_arms
from .fingerprint import differences
from .limits import Limits
from .pairs import Floats
from .verdict import Reason


@dataclass(frozen=True, slots=True)
class Calibration:
    """What equal arms showed, of a point and a metric, on `measured_on`.

    machine   the environment it was measured in, see `fingerprint`
    """

    equal: EqualArms
    measured_on: date
    machine: Mapping[str, object]


def calibrate(effects: Floats, measured_on: date, machine: Mapping[str, object], limits: Limits) -> Calibration:
    """The calibration of `effects` [launches] of equal arms; UsageError where they are too few or all the same."""
    found = equal_arms(effects)
    if found.launches < limits.calibration_launches:
        raise UsageError(
            f"gate calibration: {int(found.launches)} whole launches of equal arms; measure at least"
            f" {limits.calibration_launches}"
        )
    if not np.ptp(effects[np.isfinite(effects)]) > 0:
        raise UsageError("gate calibration: equal arms do not differ at all; the clock is too coarse for such blocks")
    return Calibration(found, measured_on, dict(machine))


def unusable(
    calibration: Calibration | None, machine: Mapping[str, object], today: date, limits: Limits
) -> Reason | None:
    """Why `calibration` says nothing of a run on `machine` today; None where it holds."""
    if calibration is None or calibration.equal.launches < limits.calibration_launches:
        return Reason.NO_CALIBRATION
    if differences(calibration.machine, machine):
        return Reason.CALIBRATION_OTHER_MACHINE
    age = (today - calibration.measured_on).days
    return Reason.CALIBRATION_EXPIRED if not 0 <= age <= limits.calibration_days else None
