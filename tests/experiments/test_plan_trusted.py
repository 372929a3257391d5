"""plan.json is checked before it is believed: ids are those of the parameters, folders stay in the sweep."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from stepscope.errors import UsageError
from stepscope.experiments.plan import Plan, make_plan, read_plan
from stepscope.experiments.store import SweepStore

BASE: dict[str, Any] = {"workload": {"regime": "steady"}, "device": "sim", "measure": {"steps": 4}}


def plan_of(*sizes: int) -> Plan:
    return make_plan([("mine.yaml", {**BASE, "grid": {"block_size": list(sizes)}})], {})


def changed(change: Callable[[dict[str, Any]], object]) -> str:
    tree = json.loads(plan_of(4, 16).to_json())
    change(tree)
    return json.dumps(tree)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda tree: tree["points"][0]["parameters"]["runner"].update(block_size=8), "has the parameters of"),
        (lambda tree: tree["points"][0].update(id="x"), "point 'x' has the parameters of"),
        (lambda tree: tree["points"][0].update(slug="../../x"), "is called '../../x'"),
        (lambda tree: tree["points"][0].update(repeat=1.5), "repeat 1.5"),
        (lambda tree: tree["points"].clear(), "plans no point"),
        (lambda tree: tree["points"].append(tree["points"][0]), "names a point twice"),
        (lambda tree: tree["points"][0].update(parameters="x"), "is not a sweep's plan.json"),
        (lambda tree: tree["points"][0]["parameters"].update(nope=1), "parameters: unknown key 'nope'"),
    ],
)
def test_a_changed_plan_is_refused_by_name(change: Callable[[dict[str, Any]], object], words: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_plan(changed(change), "s/plan.json")
    assert str(caught.value).startswith("s/plan.json: ")
    assert words in str(caught.value)


def test_a_plan_that_knows_fewer_parameters_is_read() -> None:
    # GIVEN a plan of a version without one of today's fields: its id is that of what it wrote
    from stepscope.experiments.plan import _digest

    def forget(tree: dict[str, Any]) -> None:
        for entry in tree["points"]:
            del entry["parameters"]["measure"]["keep"]
            entry["id"] = _digest(entry["parameters"])

    assert [point.spec.measure.keep for point in read_plan(changed(forget), "plan.json").points] == ["recording"] * 2


DEEP = "[" * 20_000 + "]" * 20_000


@pytest.mark.parametrize("text", [DEEP, '{"version": 1' + "0" * 5000 + "}"], ids=["deep", "long"])
def test_a_plan_without_end_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"is not a sweep's plan\.json"):
        read_plan(text, "plan.json")


def test_the_same_points_in_another_order_are_the_same_sweep(tmp_path: Path) -> None:
    SweepStore.create(tmp_path, plan_of(4, 16))
    again = SweepStore.resume(tmp_path, plan_of(16, 4))
    assert [point.slug for point in again.plan.points] == ["block_size-4", "block_size-16"]
    with pytest.raises(UsageError, match=r"another plan \(1 points differ\)"):
        SweepStore.resume(tmp_path, plan_of(4))


@pytest.mark.parametrize(
    "field",
    [f'"deep": {DEEP}', '"wall_s": 1' + "0" * 400, '"n": 1' + "0" * 400, '"wall_s": "x"'],
    ids=["deep", "long time", "long count", "text"],
)
def test_a_summary_without_end_is_a_damaged_one(tmp_path: Path, field: str) -> None:
    store = SweepStore.create(tmp_path, plan_of(4))
    (point,) = store.plan.points
    folder = store.folder(point)
    folder.mkdir(parents=True)
    head = f'"id": "{point.id}", "repeat": 0, "status": "ok", "reason": ""'
    (folder / "summary.json").write_text(f'{{{head}, "wall_s": 1}}')
    assert store.done() == [point]
    (folder / "summary.json").write_text(f'{{{head}, "wall_s": 1, {field}}}')
    assert store.done() == []
