"""docs/specs.md names every field of the runner, every value of its switches, and every regime."""

from pathlib import Path
from typing import Literal, get_args, get_origin, get_type_hints

import pytest
from stepscope.runner.config import RunnerConfig
from stepscope.workloads.regimes import REGIMES

SPECS = Path(__file__).parents[2] / "docs" / "specs.md"


@pytest.fixture(scope="module")
def specs():
    return SPECS.read_text(encoding="utf-8")


@pytest.mark.parametrize("field", list(get_type_hints(RunnerConfig)))
def test_a_field_stands_in_the_docs_with_its_values_default_first(specs, field):
    assert f"`{field}`" in specs
    kind = get_type_hints(RunnerConfig)[field]
    rows = [line for line in specs.splitlines() if line.startswith(f"| `{field}` |")]
    if get_origin(kind) is Literal:
        (row,) = rows
        named = [word.strip(" `") for word in row.split("|")[2].split(",")]
        assert sorted(named) == sorted(get_args(kind))
        assert named[0] == getattr(RunnerConfig(), field)


def test_every_regime_stands_in_the_docs(specs):
    assert [slug for slug in REGIMES if f"`{slug}`" not in specs] == []
