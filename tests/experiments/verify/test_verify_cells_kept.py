"""The bench that keeps the cells' turns: what it stores says what the check said."""

import json
import runpy
from pathlib import Path

from stepscope.experiments.verify.cell_specs import cell_specs
from stepscope.experiments.verify.cells import measured_cells

BENCH = runpy.run_path(str(Path(__file__).parents[3] / "benchmarks/gpu/verify_cells.py"))


def test_a_synchronous_cell_can_be_judged_again_by_its_stored_turns(capsys):
    one, *_ = cell_specs("sim", quick=True, model="tiny", context=16)
    one["measure"] |= {"blocks": 12, "block_steps": 2, "settle_steps": 1}
    turns = BENCH["Turns"]()
    (cell,) = measured_cells([one], turns)
    (launch,) = json.loads(json.dumps(turns.launches))
    said = BENCH["told"](launch)
    first, last = said.split("; ")
    assert first.startswith(f"first - skip: whole {cell.skip_ns / 1e3:.1f}, head ")
    assert last.startswith(f"last - first: whole {cell.order_ns / 1e3:.1f}, head ")
    # AND it says by how much the gauges differ, which no arm should move
    assert "update_states" in first
    assert f"{said}\n" in capsys.readouterr().out
