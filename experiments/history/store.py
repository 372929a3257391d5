"""Results over commits, as files: what `perf history` reads, and the file that a nightly job adds to.

    {"schema": 1, "commit": "4f0c2e1", "time": "2026-11-30T02:00:00+00:00", "env": {...}, "points": {...}}   one result
    {"schema": 1, "results": [...]}                                                                          many
    gate.json of `perf gate --write json=FILE`                                                 its head's own values
    DIR with plan.json                                                                         a sweep: one result
    DIR without                                                                                all of these in it
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from ...analysis.gate.history import Result
from ...analysis.gate.matching import ALL
from ...analysis.history.series import Stored, in_order
from ...errors import UsageError
from ..files import write_atomically
from ..gate.results import SCHEMA, number, read_results
from ..loading import read_text
from ..result_folder import writers_in_turn
from ..strict_json import check_schema, read_json
from .distinct import refuse_copies, refuse_same_paths


def read_history(paths: Sequence[Path]) -> list[Stored]:
    """All results in `paths`, in their order (a folder's files by name). UsageError names what does not fit."""
    files = [file for path in paths for file in files_of(path)]
    refuse_same_paths(files)
    found = [stored for file in files for stored in _read(file)]
    refuse_copies([(stored.label, stored.result, (stored.commit, stored.time)) for stored in found])
    return found


def read_stored(path: Path) -> list[Stored]:
    """The results in `path` for a gate, oldest first: a folder's by time, or by name where one has no time."""
    if files_of(path) == [path]:
        return _read(path)
    return list(in_order(read_history([path])))


def files_of(path: Path) -> list[Path]:
    """What holds results: `path` itself, or, of a folder that is no sweep, the JSON files and sweeps in it by name."""
    if not path.is_dir() or (path / "plan.json").is_file():
        return [path]
    found = [
        below for below in sorted(path.iterdir())
        if below.suffix == ".json" or (below.is_dir() and (below / "plan.json").is_file())
    ]  # fmt: skip
    if not found:
        raise UsageError(f"{path}: holds no result: neither *.json nor folders of sweeps; name what does")
    return found


def _read(path: Path) -> list[Stored]:
    if path.is_dir():
        return [Stored(read_results(path)[0], path.name, time=_created(path))]
    tree = read_json(path)
    if isinstance(tree.get("points"), list):
        return [_of_gate(tree, path)]
    trees = tree["results"] if isinstance(tree.get("results"), list) else [tree]
    labels = [path.name if len(trees) == 1 else f"{path.name}[{index}]" for index in range(len(trees))]
    return [
        Stored(result, label, _word(one, "commit", path), _time(one, path))
        for result, label, one in zip(read_results(path), labels, trees, strict=True)
    ]


def _of_gate(tree: Mapping[str, Any], path: Path) -> Stored:
    """The head of a gate's own result. A point that erred failed; one that only was not decided has its values."""
    values: dict[tuple[str, str], float | None] = {}
    failures: dict[str, str] = {}
    try:
        check_schema(tree["schema"], SCHEMA, str(path))
        for point in tree["points"]:
            if point["verdict"] == "ERROR":
                failures[point["point"]] = f"{point['reason']} {point['detail']}".strip()
            elif point["metric"] != ALL:
                head = point["head"]
                where = f"{path}: {point['point']}.{point['metric']}"
                values[point["point"], point["metric"]] = None if head is None else number(head["value"], where)
        machine = dict(tree["machine"])
    except (KeyError, TypeError, ValueError) as error:
        raise UsageError(f"{path}: is no result of a gate ({type(error).__name__}: {error}); write it anew") from error
    return Stored(Result(machine, values, failures), path.name, _word(tree, "commit", path), _time(tree, path))


def _word(tree: Mapping[str, Any], name: str, path: Path) -> str | None:
    value = tree.get(name)
    if value is None or (isinstance(value, str) and value.strip()):
        return value
    raise UsageError(f"{path}: {name} is {value!r}; expected a text, or leave it out")


def _time(tree: Mapping[str, Any], path: Path) -> str | None:
    text = _word(tree, "time", path)
    return None if text is None else utc(text, str(path))


def utc(text: str, where: str) -> str:
    """An ISO 8601 time as one in UTC, so that texts sort as times; without a zone it is UTC. UsageError otherwise."""
    try:
        found = datetime.fromisoformat(text.replace("Z", "+00:00"))
        zoned = found if found.tzinfo is not None else found.replace(tzinfo=timezone.utc)
        return zoned.astimezone(timezone.utc).isoformat(timespec="seconds")
    except (ValueError, OverflowError):  # the latter: before the year 1 in UTC
        raise UsageError(f"{where}: time is {text!r}; give ISO 8601, 2026-11-30T02:00:00+00:00") from None


def _created(sweep: Path) -> str | None:
    """When the first point of a sweep was recorded."""
    times = [
        json.loads(read_text(file)).get("created") for file in sorted(sweep.glob("points/*/recording/recording.json"))
    ]  # fmt: skip
    known = [utc(time, str(sweep)) for time in times if isinstance(time, str)]
    return min(known, default=None)


def add_result(paths: Sequence[Path], store: Path, commit: str, time: str | None) -> bool:
    """Add the one result in `paths` to the file `store` (made where there is none), under `commit`.

    False where `store` has it already: the same values of the same machine under the same commit. A second measurement
    of a commit has values of its own, and is added.
    UsageError where `paths` hold another number of results, or `store` is no history.
    """
    found = read_history(paths)
    if len(found) != 1:
        raise UsageError(f"--into: {', '.join(map(str, paths))} hold {len(found)} results; add one at a time")
    if not commit.strip():
        raise UsageError("--commit: is empty; name the commit that was measured")
    stamp = utc(time, "--time") if time else found[0].time or utc(datetime.now(timezone.utc).isoformat(), "now")
    new = _plain(replace(found[0], commit=commit.strip(), time=stamp))
    with writers_in_turn(store.absolute().parent):
        results = _stored_trees(store)
        if any(_same(one, new) for one in results):
            return False
        results.append(new)
        text = json.dumps({"schema": SCHEMA, "results": results}, allow_nan=False, indent=1)
        write_atomically(store, f"{text}\n")
    return True


def _same(one: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Whether two results say the same, whenever they were added."""
    return all(one.get(key) == new[key] for key in ("commit", "env", "points"))


def _stored_trees(store: Path) -> list[Any]:
    if not store.exists():
        return []
    tree = read_json(store)
    if not isinstance(tree.get("results"), list):
        raise UsageError(f"{store}: holds no list of results, so nothing can be added; choose another file")
    read_history([store])  # a broken history is refused before it grows
    return list(tree["results"])


def _plain(stored: Stored) -> dict[str, Any]:
    result = stored.result
    points: dict[str, Any] = {name: {"status": "failed", "reason": why} for name, why in result.failures.items()}
    for (point, metric), value in result.values.items():
        if point not in result.failures:
            points.setdefault(point, {"status": "ok", "metrics": {}})["metrics"][metric] = _measured(value)
    return {"schema": SCHEMA, "commit": stored.commit, "time": stored.time, "env": dict(result.machine),
            "points": points}  # fmt: skip


def _measured(value: float | None) -> float | None:
    """Not-a-number is no JSON: what it says, that nothing was measured, is null."""
    return value if value is not None and math.isfinite(value) else None
