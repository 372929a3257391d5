"""The registry and the specs belong together: every figure's cell and arms stand in the spec of its claim."""

import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
from stepscope.analysis.claims.claim import Claim
from stepscope.analysis.claims.registry import CLAIMS
from stepscope.experiments.axes import expand, full_path
from stepscope.experiments.claims.collect import flattened
from stepscope.experiments.loading import load_tree
from stepscope.runner.config import RunnerConfig

SPECS = Path(__file__).parents[3] / "examples" / "claims"
MEASURED = [claim for claim in CLAIMS.values() if claim.findings]
WAITING = [claim for claim in CLAIMS.values() if not claim.findings]


def test_all_claims_of_the_review_are_listed_and_twelve_have_a_spec() -> None:
    assert list(CLAIMS) == [f"E{number}" for number in range(1, 20)]
    assert [int(claim.name[1:]) for claim in MEASURED] == [1, 2, 3, 4, 5, 7, 8, 9, 13, 14, 15, 17]
    assert sorted(claim.spec for claim in MEASURED) == sorted(path.name for path in SPECS.glob("*.yaml"))


@pytest.mark.parametrize("claim", WAITING, ids=lambda claim: claim.name)
def test_the_arms_of_claims_that_wait_are_values_of_switches(claim: Claim) -> None:
    """Who wants to run one finds its switch by the name that the page gives it."""
    switches = get_type_hints(RunnerConfig)
    for one in claim.arms.split("; "):
        found = re.fullmatch(r"`(\w+)`: (\w+(?:, \w+)+)", one)
        assert found, one
        assert set(found[2].split(", ")) <= set(get_args(switches[found[1]]))


def figures(value: object) -> Iterator[Any]:
    """Every figure that names a cell, however deep."""
    if isinstance(value, tuple):
        for one in value:
            yield from figures(one)
    elif dataclasses.is_dataclass(value):
        if hasattr(value, "where") and not isinstance(value.where, str):
            yield value
        for field in dataclasses.fields(value):
            yield from figures(getattr(value, field.name))


def cells(tree: dict[str, Any], axis: str) -> Iterator[tuple[dict[str, Any], str]]:
    base, choices = expand(tree)
    settings = (base.get("workload") or {}).get("settings") or {}
    runner = base.get("runner") or {}
    for choice in choices:
        chosen = {full_path(name): value for name, value in choice.items()}
        said = {
            **dict(flattened(runner, "runner.")), **dict(flattened(settings, "workload.settings.")),
            "workload.regime": (base.get("workload") or {}).get("regime"),
            "measure.device_events": base["measure"].get("device_events", True), **dict(flattened(chosen)),
        }  # fmt: skip
        yield said, str(said[axis])


@pytest.mark.parametrize("claim", MEASURED, ids=lambda claim: claim.name)
def test_cells_and_arms_of_every_figure_are_swept(claim) -> None:
    tree = load_tree(SPECS / claim.spec)
    assert tree["claim"] == claim.name
    measure = tree["measure"]
    assert measure["resident"] is True
    assert measure["keep"] == "blocks"
    axis = full_path(measure["interleave"])
    swept = list(cells(tree, axis))
    assert axis not in {path for figure in figures(claim.findings) for path in figure.where}
    for figure in (*figures(claim.findings), *figures(claim.premises)):
        names = [getattr(figure, name) for name in ("arm", "left", "right", "exact", "padded") if hasattr(figure, name)]
        for arm in names:
            assert any(
                arm == mine and all(cell.get(path) == value for path, value in figure.where.items())
                for cell, mine in swept
            ), f"{claim.name}: no arm {arm} in {figure.where}"


@pytest.mark.parametrize("claim", MEASURED, ids=lambda claim: claim.name)
def test_where_words_tell_findings_apart(claim) -> None:
    words = [finding.where for finding in claim.findings if finding.judges]
    assert all(words)
    assert len(set(words)) == len(words)
    names = [finding.name for finding in claim.findings]
    assert len(set(names)) == len(names)
