"""The bench that keeps the cells' turns: what it stores says what the check said, also of a run that was cut short."""

import json
import runpy
import sys
from pathlib import Path

import pytest
from stepscope.experiments.verify.cell_specs import cell_specs
from stepscope.experiments.verify.cells import cell_launches, measured_cells

BENCH = runpy.run_path(str(Path(__file__).parents[3] / "benchmarks/gpu/verify_cells.py"))


@pytest.fixture
def sync_cell():
    one, *_ = cell_specs("sim", quick=True, model="tiny", context=16)
    one["measure"] |= {"blocks": 12, "block_steps": 2, "settle_steps": 1}
    return one


@pytest.fixture
def again(tmp_path, monkeypatch, capsys):
    def judged():
        capsys.readouterr()
        monkeypatch.setattr(sys, "argv", ["verify_cells.py", "--again", str(tmp_path)])
        BENCH["main"]()
        return capsys.readouterr().out.splitlines()

    return judged


def test_a_synchronous_cell_can_be_judged_again_by_its_stored_turns(sync_cell, tmp_path, capsys, again):
    turns = BENCH["Turns"](tmp_path / "cells.json", len(cell_launches([sync_cell])))
    (cell,) = measured_cells([sync_cell], turns)
    (launch,) = json.loads((tmp_path / "cells.json").read_text())
    said = BENCH["told"](launch)
    first, last = said.split("; ")
    assert first.startswith(f"first - skip: whole {cell.skip_ns / 1e3:.1f}, head ")
    assert last.startswith(f"last - first: whole {cell.order_ns / 1e3:.1f}, head ")
    # AND it says by how much the gauges differ, which no arm should move
    assert "update_states" in first
    assert f"{said}\n" in capsys.readouterr().out
    assert again() == [f"512 sync compute True {said}"]


def test_a_run_that_is_cut_short_keeps_its_launches_and_says_how_many(sync_cell, tmp_path, again):
    sync_cell["measure"]["repeats"] = 3
    turns = BENCH["Turns"](tmp_path / "cells.json", len(cell_launches([sync_cell])))

    def cut_behind_two(*launch):
        turns(*launch)
        if len(turns.launches) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        measured_cells([sync_cell], cut_behind_two)
    *launches, end = again()
    assert [line.startswith("512 sync compute True first - skip: whole ") for line in launches] == [True, True]
    assert end == "2 of 3 launches are there: the run was cut short"
    # AND of turns stored before that was written down nothing is said
    stored = json.loads((tmp_path / "cells.json").read_text())
    for launch in stored:
        del launch["planned"]
    (tmp_path / "cells.json").write_text(json.dumps(stored))
    assert again() == launches
