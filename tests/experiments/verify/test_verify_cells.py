"""Cells of the replay against the counterfactual: what is judged, on figures written by hand."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from stepscope.analysis.blocks import Block
from stepscope.analysis.forwards import Jump
from stepscope.errors import UsageError
from stepscope.experiments.plan import make_plan
from stepscope.experiments.resolve import workload_of
from stepscope.experiments.verify import cell_specs as specs_module
from stepscope.experiments.verify import cells as cells_module
from stepscope.experiments.verify.cell_specs import HANDOFFS, ROADS, ROWS, TILE, TURNS, WIDTHS, Turns, cell_specs
from stepscope.experiments.verify.cells import Cell, judged
from stepscope.workloads.case_grammar import parse_case

WHOLE = Cell(
    width=32_768, handoff="sync", road="compute", events=True, order_ns=0, skip_ns=160_000, replayed_ns=155_000,
    copy_ns=155_000,
)  # fmt: skip
SMALL = replace(WHOLE, width=512, skip_ns=None, replayed_ns=None, copy_ns=2_000)
HIDDEN = {"skip_ns": 8_000, "replayed_ns": 3_000}


def all_cells(**of_double):
    cells = [
        replace(WHOLE, width=width, handoff=handoff, road=road, **(HIDDEN | of_double if road == "double" else {}))
        for width in (8192, 32_768) for handoff in HANDOFFS for road in ROADS
    ]  # fmt: skip
    plain = [
        replace(cell, events=False, replayed_ns=None, copy_ns=None)
        for cell in cells if cell.width == 32_768 and cell.handoff == "async_auto" and cell.road != "single_guarded"
    ]  # fmt: skip
    return [*cells, *plain, SMALL]


def failed(cells):
    return [finding.planted for finding in judged(cells) if not finding.passed]


def test_twelve_cells_of_which_eleven_must_agree():
    cells = all_cells()
    assert failed(cells) == []
    cells[0] = replace(cells[0], replayed_ns=100_000)
    assert failed(cells) == []
    cells[1] = replace(cells[1], replayed_ns=100_000)
    (only,) = failed(cells)
    assert only.startswith("12 cells of 2 and 8 MiB: replayed within max(8 us, 10 %) of first - skip; not: 2 MiB, sync")
    # AND a cell without a replay does not agree
    cells[:2] = [replace(cell, replayed_ns=None) for cell in cells[:2]]
    assert len(failed(cells)) == 1
    assert "2 MiB, sync, compute null against 160.0" in failed(cells)[0]


def test_what_two_tables_leave_and_what_order_is_worth():
    assert failed(all_cells(skip_ns=16_000, replayed_ns=15_000)) == [
        "8 MiB, async_auto, double, without events: first - skip"
    ]
    dear = [replace(cell, order_ns=6_000) if cell.road == "compute" else cell for cell in all_cells()]
    assert failed(dear) == [
        f"{size} MiB, async_auto, compute{events}: last - first"
        for size, events in ((2, ""), (8, ", without events"))
    ]


def test_what_the_compute_stream_exposes_is_the_copy():
    for skip_ns, passes in ((169_000, True), (172_000, False), (138_000, False), (None, False)):
        cells = [cell if cell.events else replace(cell, skip_ns=skip_ns) for cell in all_cells()]
        cells[-2] = replace(cells[-2], skip_ns=0)  # two tables
        assert (failed(cells) == []) is passes


DOUBLE = (32_768, "async_auto", "double", False)
WORTH = {"first": 160_000, "last": 162_000, "skip": 0}


def arms_of_eight_rounds(monkeypatch, **fit):
    """Rounds of one step of 1 ms and what its arm is worth, whose forwards take 0.5 ms and grow with no rule."""
    monkeypatch.setattr(cells_module, "kept_waiting", lambda name, blocks: fit.get(name, [True] * 8))
    monkeypatch.setattr(cells_module, "steps_of", lambda name, blocks: [np.array([block.order]) for block in blocks])
    forwards, arms = {}, {}
    for at, (name, ns) in enumerate(WORTH.items()):
        orders = [3 * number + (at if number % 2 == 0 else 2 - at) for number in range(8)]
        forwards[name] = {order: 500_000 + 3_000 * order**2 for order in orders}
        blocks = [Block(order, (500_000 + ns + forwards[name][order],)) for order in orders]
        arms[name] = (SimpleNamespace(recording=name), blocks)
    return arms, forwards


def test_a_round_in_which_the_host_of_one_arm_was_late_counts_for_none(monkeypatch):
    # GIVEN eight rounds of which four count, and arm `last` late in the sixth
    arms, forwards = arms_of_eight_rounds(monkeypatch, last=[True] * 5 + [False, True, True])
    monkeypatch.setattr(cells_module, "jump_of", lambda left, right: Jump(0, None))
    found = cells_module._launch(DOUBLE, arms, forwards)
    assert (len(found.order), len(found.skip), found.late) == (3, 3, 1)
    cell = cells_module._cell(DOUBLE, [found])
    assert (cell.order_ns, cell.skip_ns, cell.late) == (2_000, 160_000, 1)
    said = cells_module._said(cell)
    assert said.endswith("null against 160.0 (0.0 of it in the forward; rounds in which the device did not bind: 1)")


def test_what_an_arm_does_to_the_forward_is_counted_and_told(monkeypatch):
    arms, forwards = arms_of_eight_rounds(monkeypatch)
    own = {"first": 6_000, "last": 5_000, "skip": 1_000}
    names = {min(forwards[name]): own[name] for name in own}
    monkeypatch.setattr(cells_module, "settled", lambda forwards, steps, left_out: forwards)
    monkeypatch.setattr(
        cells_module, "jump_of", lambda left, right: Jump(names[min(left)] - names[min(right)], 1_500)
    )
    cell = cells_module._cell(DOUBLE, [cells_module._launch(DOUBLE, arms, forwards)])
    assert (cell.order_ns, cell.skip_ns, cell.forward.ns) == (2_000 - 1_000, 160_000 + 5_000, 5_000)
    assert cells_module._said(cell).endswith("null against 165.0 (5.0 +- 1.5 of it in the forward)")
    # AND without the forwards there is no figure
    monkeypatch.undo()
    arms, _ = arms_of_eight_rounds(monkeypatch)
    cell = cells_module._cell(DOUBLE, [cells_module._launch(DOUBLE, arms, {})])
    assert (cell.order_ns, cell.skip_ns) == (None, None)


def test_arms_without_events_are_held_against_the_forwards_of_their_twins_with_events(monkeypatch):
    *_, large, plain = cell_specs("sim", quick=False, model="tiny", context=16)
    seen = {}

    def launch(key, arms, forwards):
        seen[key] = forwards
        return cells_module._Launch([], [], 0)

    def measure(group, folder, interrupted):
        for point in group:
            yield point, None, SimpleNamespace(recording=(cells_module._key(point.spec), point)), []

    monkeypatch.setattr(cells_module, "_launch", launch)
    monkeypatch.setattr(cells_module, "measure_launch", measure)
    monkeypatch.setattr(cells_module, "forwards_of", lambda recording: {0: recording[0]})
    cells_module.measured_cells([large, plain])
    assert len(seen) == 8
    for key, forwards in seen.items():
        assert forwards == {arm: {0: (*key[:-1], True)} for arm in ("first", "last", "skip")}


def test_copies_below_the_resolution_must_be_null():
    *large, small = all_cells()
    assert failed([*large, small]) == []
    for instead in ([replace(small, exposed=True)], []):
        assert failed([*large, *instead]) == ["cells of 0.125 MiB that give an exposure a copy"]


def test_its_points_can_be_resolved(monkeypatch):
    monkeypatch.setattr(specs_module, "TURNS", dict.fromkeys(TURNS, Turns(16, 1, 4, 2, 6, 1)))
    specs = cell_specs("sim", quick=False, model="tiny")
    plan = make_plan([(f"verify-{at}", spec) for at, spec in enumerate(specs)], {})
    assert len(plan.points) == 3 * (2 + 2 * 2 * len(ROADS) + 2)
    assert all(width * ROWS * 4 == mib * 2**20 for width, mib in WIDTHS.items())
    # AND rows do not all cross a tile of keys in the same step, whatever they have said before the first one
    lengths = [request.prompt_len % TILE for request in workload_of(plan.points[0].spec).requests]
    assert len({length // 16 for length in lengths}) == 8
    # AND rounds come with their mirror images
    assert all(turns.blocks % 2 == turns.left_out % 2 == 0 for turns in TURNS.values())


@pytest.mark.parametrize("quick", [True, False])
def test_every_table_is_wide_enough_for_its_rows(quick):
    for spec in cell_specs("sim", quick=quick):
        runner, widths = spec["runner"], spec["grid"]["runner.table_width"]
        assert runner["max_model_len"] <= 16 * min(widths)
        context = min(row.length for row in parse_case(spec["workload"]["case"]).rows)
        steps = spec["measure"]["blocks"] * (spec["measure"]["block_steps"] + spec["measure"]["settle_steps"] + 1)
        assert context + TILE + len(spec["grid"]["runner.commit_order"]) * steps <= runner["max_model_len"]


def test_a_case_with_prompts_in_it_has_no_arm_without_copies():
    one, *_ = cell_specs("sim", quick=True, model="tiny", context=16)
    one["workload"]["case"] = "cells=4*1@64,16"
    with pytest.raises(UsageError, match=r"case cells=.* changes its rows; use it with .*a case of decodes alone"):
        make_plan([("verify", one)], {})
