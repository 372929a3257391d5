"""The folder of a sweep: plan.json first, then one folder a point with its recording and summary.json.

    plan.json
    points/<slug>--<id>/summary.json, recording/        a point of one launch
    points/<slug>--<id>/summary.json                    a point of several: ok when every launch is
    points/<slug>--<id>/launch-2/summary.json, recording/
    .work/                                              what is being measured; dropped when the sweep is opened again

A launch's folder appears by one rename after everything in it is on disk: it is whole or it is not there.
"""

from __future__ import annotations

import json
import math
import os
import shlex
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from ..errors import UsageError
from .files import make_writable, naming, publish_folder, write_atomically
from .loading import read_text
from .named_files import digest, named
from .plan import Plan, Point, read_plan
from .result_folder import writers_in_turn

SUMMARY_VERSION = 1
WORK = ".work"
Status = Literal["ok", "failed", "skipped"]
_MOST_DIGITS = 20
_STATUSES = ("ok", "failed", "skipped")


@dataclass(frozen=True, slots=True)
class PointResult:
    """How one point ended; `reason` is empty when it ended well, else `kind` is its class (`workers.failures`)."""

    point: Point
    status: Status
    reason: str = ""
    wall_s: float = 0.0
    kind: str = ""


class SweepStore:
    """One sweep's folder, made for one plan."""

    def __init__(self, root: Path, plan: Plan) -> None:
        self.root = root
        self.plan = plan

    @classmethod
    def create(cls, root: Path, plan: Plan) -> SweepStore:
        """A new folder with the plan in it. Raises UsageError if it cannot be written or holds another sweep."""
        cls._refuse_another(root)
        make_writable(root / "points")
        plan = replace(plan, began_in=os.path.relpath(Path.cwd(), root.absolute()))
        with writers_in_turn(root):
            cls._refuse_another(root)  # it may have begun just now
            try:
                write_atomically(root / "plan.json", plan.to_json())
            except OSError as error:  # nothing is there yet that could be gone on with
                told = f"{root / 'plan.json'}: cannot be written ({error.strerror or error})"
                raise UsageError(f"{told}; make room there, or choose another folder with --out") from error
        return cls(root, plan)

    @staticmethod
    def _refuse_changed_files(root: Path, plan: Plan) -> None:
        """Points that are missing would be another experiment than those that are there, under the same id."""
        for name, was in plan.files.items():
            here = digest(name)
            if here is not None and here != was:
                told = f"{name}: has changed since the sweep in {root} began"
                raise UsageError(f"{told}; bring the old one back, or choose another --out")

    @staticmethod
    def _refuse_another(root: Path) -> None:
        if (root / "plan.json").exists():
            raise UsageError(f"{root}: holds a sweep already; add --resume to go on with it, or choose another --out")
        if (root / "summary.json").exists() or (root / "recording").exists():
            raise UsageError(f"{root}: holds a run, whose report this would replace; choose another --out")

    @classmethod
    def open(cls, root: Path) -> SweepStore:
        """The sweep that is in `root`, for reading."""
        path = root / "plan.json"
        return cls(root, read_plan(read_text(path), str(path)))

    @classmethod
    def resume(cls, root: Path, plan: Plan | None) -> SweepStore:
        """The sweep that is in `root`; `plan`, where given, must be the same as the one that it was made for."""
        path = root / "plan.json"
        if not path.exists():
            raise UsageError(f"{root}: holds no plan.json, so there is nothing to resume; drop --resume to start")
        stored = read_plan(read_text(path), str(path))
        cls._refuse_changed_files(root, stored)
        differ = set() if plan is None else {p.key for p in plan.points} ^ {p.key for p in stored.points}
        if differ:  # in another order they are the same points; the stored one stays
            raise UsageError(
                f"{root}: was made for another plan ({len(differ)} points differ);"
                " give --resume without specs and parameters, or choose another --out"
            )
        make_writable(root / "points")
        return cls(root, stored)

    def check_files(self, missing: Iterable[Point]) -> None:
        """Raises UsageError that names a file which was there when the sweep began, and which `missing` points need."""
        for name in named(point.spec for point in missing):
            if name in self.plan.files and digest(name) is None:
                began = os.path.normpath(self.root.absolute() / self.plan.began_in) if self.plan.began_in else ""
                away = began and began != str(Path.cwd())
                mend = f"go on in {began}, where this sweep began" if away else "bring it back"
                raise UsageError(f"{name}: is not here, and points that are missing name it; {mend}")

    @contextmanager
    def writing(self, what: str) -> Iterator[None]:
        """A disk that takes nothing more becomes a UsageError that says how to go on. `what` was to be stored."""
        try:
            yield
        except OSError as error:
            told = f"{error.filename or self.root}: {error.strerror or error}: {what} could not be stored"
            raise UsageError(f"{told}; {self.mend}") from error

    @property
    def mend(self) -> str:
        """What to do when the disk is full."""
        return f"make room, then go on with: perf sweep --resume --out {shlex.quote(str(self.root))}"

    def clear_work(self) -> Path:
        """Drop what a killed driver left unfinished; where to measure. Only for whoever holds the lock."""
        shutil.rmtree(self.root / WORK, ignore_errors=True)
        for leftover in self.root.glob(".*.tmp"):
            leftover.unlink(missing_ok=True)
        return self.root / WORK

    def folder(self, point: Point) -> Path:
        """Where the point's recording and summary.json are, once it has been measured."""
        return self.root / "points" / point.folder

    def begin(self, point: Point) -> Path:
        """An empty folder to measure into; `finish` publishes it."""
        temporary = self.root / WORK / f"{point.key}.{os.getpid()}"
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir(parents=True)
        return temporary

    def finish(self, temporary: Path, result: PointResult, record: Mapping[str, Any]) -> None:
        """Write summary.json into `temporary` and publish it as the point's folder. Raises OSError: a full disk."""
        point = result.point
        head = {
            "version": SUMMARY_VERSION,
            "id": point.id,
            "slug": point.slug,
            "repeat": point.repeat,
            "status": result.status,
            "kind": result.kind,
            "reason": result.reason,
            "wall_s": round(result.wall_s, 3),
            "choice": point.choice,
        }
        text = json.dumps({**head, **record}, indent=1) + "\n"
        with naming(temporary / "summary.json"):
            (temporary / "summary.json").write_text(text, encoding="utf-8")  # forced to disk with all the rest
        final = self.folder(point)
        final.parent.mkdir(parents=True, exist_ok=True)
        publish_folder(temporary, final, self.root / WORK)
        if point.spec.measure.repeats > 1 and not point.stored_as:
            self.settle(point)

    def settle(self, point: Point) -> None:
        """Write the summary of a point of several launches: ok when every one of them exists and is."""
        launches = [other for other in self.plan.points if other.id == point.id]
        records = [self.record(launch) for launch in launches]
        bad = [
            (launch, record) for launch, record in zip(launches, records, strict=True)
            if record is None or record["status"] != "ok"
        ]  # fmt: skip
        told = [f"launch {one.repeat + 1}: {record['reason'] if record else 'not measured yet'}" for one, record in bad]
        status = {
            "version": SUMMARY_VERSION, "id": point.id, "slug": point.slug, "choice": point.choice,
            "launches": len(launches), "launches_ok": len(launches) - len(bad),
            "status": "failed" if bad else "ok", "reason": "; ".join(told),
            "kind": next((record.get("kind", "") for _, record in bad if record), "incomplete") if bad else "",
        }  # fmt: skip
        write_atomically(self.folder(point).parent / "summary.json", json.dumps(status, indent=1) + "\n")

    def record(self, point: Point) -> dict[str, Any] | None:
        """The content of its summary.json; None where there is none, or one that is damaged or not this point's."""
        path = self.folder(point) / "summary.json"
        try:
            record = json.loads(read_text(path), parse_int=_whole_number)
        except (UsageError, ValueError, RecursionError):
            return None
        if not isinstance(record, dict) or record.get("id") != point.id or record.get("repeat") != point.repeat:
            return None
        whole = isinstance(record.get("reason"), str) and record.get("status") in _STATUSES
        return record if whole and _is_time(record.get("wall_s")) else None

    def status(self, point: Point) -> str | None:
        """`ok`, `failed` or `skipped` as summary.json says; None without a whole one: it is measured again."""
        record = self.record(point)
        return None if record is None else str(record["status"])

    def done(self) -> list[Point]:
        """The points that ended well."""
        return [point for point in self.plan.points if self.status(point) == "ok"]


def _whole_number(text: str) -> int:
    """No count or time of ours has more digits, and no table takes it."""
    if len(text) > _MOST_DIGITS:
        raise ValueError(f"a number of {len(text)} digits")
    return int(text)


def _is_time(value: object) -> bool:
    return type(value) in (int, float) and 0 <= value < math.inf  # type: ignore[operator]
