"""Cells of the replay against the counterfactual: what is judged, on figures written by hand."""

import pandas as pd
from stepscope.experiments.plan import make_plan
from stepscope.experiments.verify.cells import ROADS, ROWS, WIDTHS, cell_specs, judged


def cell(width, handoff, road, **figures):
    given = {
        "last_minus_first_ns": 0.0, "first_minus_skip_ns": 160_000.0, "commit_step_ns": 155_000.0, "copy_ns": 155_000.0,
        **figures,
    }  # fmt: skip
    where = {"table_width": str(width), "token_handoff": handoff, **ROADS[road]}
    return {**{f"runner.{name}": value for name, value in where.items()}, **given}


def all_cells(**of_double):
    hidden = {"first_minus_skip_ns": 8_000.0, "commit_step_ns": 3_000.0, **of_double}
    return pd.DataFrame([
        cell(width, handoff, road, **(hidden if road == "double" else {}))
        for width in (8192, 32_768) for handoff in ("sync", "async_auto") for road in ROADS
    ])  # fmt: skip


def failed(cells, small_given=0):
    return [finding.planted for finding in judged(cells, small_given) if not finding.passed]


def test_twelve_cells_of_which_eleven_must_agree():
    assert failed(all_cells()) == []
    one, two = all_cells(), all_cells()
    one.loc[0, "commit_step_ns"] = 100_000.0
    two.loc[[0, 1], "commit_step_ns"] = 100_000.0
    assert failed(one) == []
    (only,) = failed(two)
    assert only.startswith("12 cells of 2 and 8 MiB: replayed within max(8 us, 10 %) of first - skip; not: 2.0 MiB")
    # AND a cell without a replay does not agree
    two.loc[[0, 1], "commit_step_ns"] = None
    assert len(failed(two)) == 1


def test_what_two_tables_leave_and_what_order_is_worth():
    assert failed(all_cells(first_minus_skip_ns=16_000.0, commit_step_ns=15_000.0)) == [
        "8.0 MiB, async_auto, dedicated double: first - skip"
    ]
    cells = all_cells()
    cells.loc[(cells["runner.token_handoff"] != "sync") & (cells["runner.copy_stream"] == "compute"),
              "last_minus_first_ns"] = 6_000.0  # fmt: skip
    assert [text.rpartition(": ")[2] for text in failed(cells)] == ["last - first", "last - first"]


def test_copies_below_the_resolution_must_be_null():
    assert failed(all_cells(), small_given=1) == ["cells of 0.125 MiB that give an exposure a copy"]


def test_its_points_can_be_resolved():
    specs = cell_specs("sim", quick=False, model="tiny", prompt_len=16)
    plan = make_plan([(f"verify-{at}", spec) for at, spec in enumerate(specs)], {})
    assert len(plan.points) == 3 * (2 + 2 * 2 * len(ROADS))
    assert all(width * ROWS * 4 == mib * 2**20 for width, mib in WIDTHS.items())
