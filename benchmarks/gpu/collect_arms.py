"""The raw blocks of a sweep whose points took turns, and its arms table, in one file.

    python benchmarks/gpu/collect_arms.py SWEEP_FOLDER OUT.json [GPU]
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from stepscope.experiments.store import SweepStore
from stepscope.experiments.sweep_view import sweep_view
from stepscope.reports.pages.sweep_tables import arms

FIGURES = (
    "period_p50_ns", "preprocess_p50_ns", "table_copy_p50_ns", "table_copy_queued_ns", "exposed_step_ns",
    "commit_step_ns", "build_overlap_fraction", "preprocess_overlap_fraction",
)


def main() -> None:
    """Read the folder, write the file, print the table."""
    store = SweepStore.open(Path(sys.argv[1]))
    view = sweep_view(store)
    table = arms(view)
    points = [
        {
            "choice": point.parameters, "launch": point.repeat,
            "figures": {name: point.metrics.get(name) for name in FIGURES},
            "reasons": {name: point.reasons[name] for name in FIGURES if name in point.reasons},
            "blocks": [{"order": block.order, "periods_ns": block.periods_ns} for block in point.blocks],
        }
        for point in view.measured
    ]  # fmt: skip
    spec = json.loads((store.root / "plan.json").read_text())["points"][0]["parameters"]
    record = {
        "gpu": view.environment.get("gpu_name") or view.environment.get("gpu"), "spec": spec, "points": points,
        "table": json.loads(table.to_json(orient="records")),
    }  # fmt: skip
    Path(sys.argv[2]).write_text(json.dumps(record) + "\n")
    print(table.T.to_string())


if __name__ == "__main__":
    main()
