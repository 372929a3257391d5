"""The gate end to end, with real processes on this machine: `python benchmarks/gate_end_to_end.py` (`make gate-real`).

    1  the committed tree is unpacked twice; in the second a busy wait of 5 % of a step stands in `build_indices`
    2  equal arms are calibrated
    3  the tree against itself, ten times: none may end with 1, at least seven with 0
    4  the tree against the planted one: must end with 1 and name the phase and the range (after the first of 3)

The gate runs from the unpacked tree as well, so nothing that is edited meanwhile is measured. It takes about a quarter
of an hour on a quiet machine; --scratch DIR goes on with what is there. benchmarks/results/gate/end_to_end.{json,md}
say what was found and what else the machine did.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from datetime import date
from io import BytesIO
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
SPEC = HERE / "gate_point.yaml"
RESULTS = HERE / "results" / "gate"
PLACE = ("runner/inputs/prepare.py", "_build_indices")
PLANTED_SHARE = 0.05
SELVES = 10


def unpacked(folder: Path, revision: str) -> str:
    """Unpack the tree of `revision` into `folder`; its commit."""
    git = ["git", "-C", str(HERE)]
    root = subprocess.run([*git, "rev-parse", "--show-toplevel"], check=True, capture_output=True, text=True)
    git[2] = root.stdout.strip()
    commit = subprocess.run([*git, "rev-parse", revision], check=True, capture_output=True, text=True).stdout.strip()
    packed = subprocess.run([*git, "archive", "--format=tar", commit], check=True, capture_output=True).stdout
    with tarfile.open(fileobj=BytesIO(packed)) as archive:
        archive.extractall(folder)
    return commit


def plant(tree: Path, wait_ns: int) -> None:
    """A busy wait at the beginning of the function that builds the indices."""
    path = tree / PLACE[0]
    text = path.read_text(encoding="utf-8")
    found = re.search(rf"^    def {PLACE[1]}\(.*\) -> .*:\n", text, re.MULTILINE)
    assert found, f"{PLACE[0]} has no {PLACE[1]} any more"
    slow = f"        _until = _time.perf_counter_ns() + {wait_ns}\n        while _time.perf_counter_ns() < _until:\n" \
           "            pass\n"  # fmt: skip
    text = text[: found.end()] + slow + text[found.end() :]
    head, line, rest = text.partition("from __future__ import annotations\n")
    path.write_text(f"{head}{line}\nimport time as _time\n{rest}", encoding="utf-8")


class Machine:
    """Where the unpacked trees lie, and how the gate is run there."""

    def __init__(self, scratch: Path, revision: str) -> None:
        self.scratch = scratch
        self.base, self.head = scratch / "base", scratch / "head"
        for folder in (self.base, self.head, scratch / "view"):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
        self.commit = unpacked(self.base, revision)
        unpacked(self.head, revision)
        (scratch / "view" / "stepscope").symlink_to(self.base, target_is_directory=True)
        shutil.copy(SPEC, scratch / "point.yaml")
        self.environ = {**os.environ, "PYTHONPATH": str(scratch / "view"), "OMP_NUM_THREADS": "1"}

    def gate(self, *arguments: str) -> dict[str, Any]:
        """Run `perf gate` with `arguments`; exit code, time, loads, last line."""
        began, load = time.time(), os.getloadavg()[0]
        command = [
            sys.executable, "-m", "stepscope", "gate", *arguments, "--spec", "point.yaml", "--calibration", "aa.json"
        ]  # fmt: skip
        done = subprocess.run(command, cwd=self.scratch, env=self.environ, capture_output=True, text=True)
        lines = done.stderr.strip().splitlines() or [""]
        found = {
            "commit": self.commit[:12], "exit_code": done.returncode, "wall_s": round(time.time() - began, 1),
            "load_before": round(load, 1), "load_after": round(os.getloadavg()[0], 1), "last_line": lines[-1],
        }  # fmt: skip
        print(f"{' '.join(arguments[:4])}: {found}", flush=True)
        return found

    def judged(self, head: Path) -> dict[str, Any]:
        """The base against `head`: what `gate` says, with the step's period and the notes of the result."""
        out = self.scratch / "gate.json"
        out.unlink(missing_ok=True)
        arms = ["--base", f"checkout:{self.base}", "--head", f"checkout:{head}"]
        found = self.gate(*arms, "--json", str(out), "--markdown", str(self.scratch / "gate.md"))
        if not out.exists():
            return found
        result = json.loads(out.read_text())
        metrics = {
            one["metric"]: {k: one[k] for k in ("verdict", "reason", "stage", "effect", "low", "high", "least_effect",
                                                "launches", "dropped_pairs", "detail")}
            for one in result["points"]
        }  # fmt: skip
        period = next(one for one in result["points"] if one["metric"] == "period_p50_ns")
        return {**found, "verdict": result["verdict"], "reasons": result["reasons"], "notes": result["notes"],
                "base_period_ns": (period["base"] or {}).get("value"), "metrics": metrics}  # fmt: skip


def report(found: dict[str, Any]) -> str:
    """The results as Markdown."""
    rows = [("run", "commit", "exit", "verdict", "period", "90 % interval", "launches", "load", "minutes")]
    rows.append(("---", *["---:"] * 8))
    runs = [(f"self {n + 1}", run) for n, run in enumerate(found["selves"])]
    runs += [("+5 % in build_indices", run) for run in found["planted"]]
    for name, run in runs:
        period = run.get("metrics", {}).get("period_p50_ns", {})
        effect, low, high = (period.get(key) for key in ("effect", "low", "high"))
        interval = "" if low is None else f"{low:+.2%} to {high:+.2%}"
        rows.append((
            name, run["commit"], str(run["exit_code"]), run.get("verdict", ""),
            "" if effect is None else f"{effect:+.2%}", interval,
            str(period.get("launches", "")), f"{run['load_before']} to {run['load_after']}",
            f"{run['wall_s'] / 60:.1f}",
        ))  # fmt: skip
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    said = "\n".join(f"    {run['last_line']}" for run in found["planted"])
    verdict = "holds" if found["holds"] else "DOES NOT HOLD"
    if len(found["selves"]) < SELVES:
        verdict += f" so far ({len(found['selves'])} of {SELVES} self-comparisons were run)"
    return (
        f"# The gate end to end\n\n{found['date']}, {found['cores']} cores,"
        f" `python benchmarks/gate_end_to_end.py`: {verdict}.\n\n"
        f"A/A calibration, sd between launches: {found['spreads']}. Planted: {found.get('planted_ns')} ns in"
        f" `build_indices`, 5 % of a step of {found.get('period_ns')} ns. Load is the machine's 1-minute load;"
        f" the gate itself makes 1 of it.\n\n{table}\n\nThe planted run said:\n\n{said}\n"
    )


def holds(found: dict[str, Any]) -> bool:
    codes = [run["exit_code"] for run in found["selves"]]
    named = all("preprocess / build_indices" in run["last_line"] for run in found["planted"])
    return 1 not in codes and codes.count(0) >= 0.7 * len(codes) and named and bool(found["planted"]) and all(
        run["exit_code"] == 1 for run in found["planted"]
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--selves", type=int, default=SELVES)
    parser.add_argument("--revision", default="HEAD")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--scratch", type=Path, help="where to work, or to go on")
    options = parser.parse_args()
    scratch = (options.scratch or Path(tempfile.mkdtemp(prefix="gate-end-to-end-"))).resolve()
    machine = Machine(scratch, options.revision)
    found = gone_on(scratch)
    if not (scratch / "aa.json").exists():
        found["calibration"] = machine.gate("calibrate", "--base", f"checkout:{machine.base}")
        save(found, scratch)
    while len(found["selves"]) < options.selves or not found["planted"]:
        if found["selves"] and not found["planted"]:
            period = next(run["base_period_ns"] for run in reversed(found["selves"]) if run.get("base_period_ns"))
            found["period_ns"], found["planted_ns"] = round(period), round(PLANTED_SHARE * period)
            plant(machine.head, found["planted_ns"])
            found["planted"].append(machine.judged(machine.head))
        else:
            found["selves"].append(machine.judged(machine.base))
        save(found, scratch)
        written(found, scratch, options.out)
    print(report(found))
    return 0 if found["holds"] else 1


def gone_on(scratch: Path) -> dict[str, Any]:
    """What an earlier run in `scratch` has found."""
    state = scratch / "state.json"
    return json.loads(state.read_text()) if state.exists() else {"calibration": None, "selves": [], "planted": []}


def save(found: dict[str, Any], scratch: Path) -> None:
    (scratch / "state.json").write_text(json.dumps(found, indent=1))


def written(found: dict[str, Any], scratch: Path, out: Path) -> None:
    """Write the results so far."""
    book = json.loads((scratch / "aa.json").read_text())
    found |= {
        "date": date.today().isoformat(), "cores": os.cpu_count(), "holds": holds(found),
        "spreads": {one["metric"]: round(one["sd"], 5) for one in book["entries"]},
    }  # fmt: skip
    out.mkdir(parents=True, exist_ok=True)
    (out / "end_to_end.json").write_text(json.dumps(found, indent=1) + "\n")
    (out / "end_to_end.md").write_text(report(found))


if __name__ == "__main__":
    sys.exit(main())
