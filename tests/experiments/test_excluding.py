"""`exclude`: rules match what a point is, not what its spec says; one that can match nothing is refused."""

from __future__ import annotations

from typing import Any

import pytest
from stepscope.errors import UsageError
from stepscope.experiments.axes import parse_params, with_cases
from stepscope.experiments.plan import make_plan

BASE: dict[str, Any] = {"workload": {"regime": "steady"}, "device": "sim", "measure": {"steps": 4}}


def slugs(exclude: list[object], params: tuple[str, ...] = (), **more: object) -> list[str]:
    grid = {"commit_order": ["first", "last"], "graph_mode": ["none", "full"]}
    tree = {**BASE, "grid": grid, **more, "exclude": exclude}
    return [point.slug for point in make_plan([("mine.yaml", tree)], parse_params(params)).points]


@pytest.mark.parametrize(
    "rule",
    [
        {"runner.graph_mode": "none"},
        {"graph_mode": "none", "runner.block_size": 16},
        {"graph_mode": "none", "runner.kv_groups": [["full"]]},
        {"graph_mode": "none", "workload.settings.prompt_len": 32},
        {"graph_mode": "none", "workload.scheduler.watermark": 0.0},
        {"graph_mode": "none", "measure.steps": 4},
    ],
)
def test_a_field_at_its_default_matches(rule: dict[str, object]) -> None:
    assert slugs([rule]) == ["commit_order-first_graph_mode-full", "commit_order-last_graph_mode-full"]


def test_a_default_that_no_axis_names_matches() -> None:
    with pytest.raises(UsageError, match="exclude: nothing is left to run"):
        slugs([{"runner.graph_mode": "none"}], grid={"commit_order": ["first", "last"]})


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ({"runner.nope": 1}, "mine.yaml: exclude[0].runner: unknown key 'nope'"),
        ({"runner.comit_order": "first"}, "unknown key 'comit_order'; did you mean 'commit_order'?"),
        ({"workload.settings.promt_len": 3}, "exclude[0]: unknown setting 'promt_len'; did you mean 'prompt_len'?"),
        ({"workload.scheduler.watermrk": 0}, "unknown key 'watermrk'; did you mean 'watermark'?"),
        ({"commit_order": "fisrt"}, "exclude[0]: {runner.commit_order: fisrt} matches no point; mend it or drop it"),
        ({"commit_order": "first", "graph_mode": "piecewise"}, "matches no point"),
        ({"runner.block_size.x": 1}, "matches no point"),
    ],
)
def test_a_rule_that_can_match_nothing_is_refused(rule: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError) as caught:
        slugs([rule])
    assert words in str(caught.value)


def test_the_command_line_may_leave_a_rule_without_its_points() -> None:
    rules: list[object] = [{"commit_order": "first", "graph_mode": "none"}]
    assert slugs(rules, ("commit_order=last",)) == ["graph_mode-none", "graph_mode-full"]
    assert slugs([{"device": "cuda", "graph_mode": "none"}], ("device=sim",), device="auto")


def test_what_cannot_be_resolved_is_dropped_by_a_rule_about_a_default() -> None:
    # GIVEN `skip` on churn, which is refused; the rule's other field stands in no axis
    grid = {"commit_order": ["first", "skip"]}
    workload = {"regime": "churn"}
    assert slugs(
        [{"commit_order": "skip", "graph_mode": "none"}], grid=grid, workload=workload
    ) == ["commit_order-first"]  # fmt: skip


def test_cases_of_the_command_line_leave_rules_about_the_source_of_requests_aside() -> None:
    tree = {**BASE, "grid": {"commit_order": ["first", "last"]}}
    tree["exclude"] = [{"regime": "steady", "commit_order": "first"}, {"commit_order": "last"}]
    cased = with_cases(tree, ["decode=4*1@64"])
    assert [point.choice["runner.commit_order"] for point in make_plan([("mine.yaml", cased)], {}).points] == ["first"]
