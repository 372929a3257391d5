"""The copy of the package without the probe's calls, against which the probe's cost is measured: it makes none."""

import os
import subprocess
import sys
from pathlib import Path

BENCHMARKS = Path(__file__).parents[2] / "benchmarks" / "gpu"
RUN = """
import importlib, sys
from pathlib import Path
import stripped

folder = Path(sys.argv[1])
assert stripped.make_copy(folder, "bare", stripped.ROOT, strip=True) > 20
sys.path.insert(0, str(folder))
load = lambda path: importlib.import_module(f"bare.{path}")


class Untouched:
    def __getattr__(self, name):
        raise AssertionError(f"the stripped source asks the probe for {name}")


def steps(**switches):
    spec = load("experiments.resolve").resolve({
        "workload": {"regime": "steady", "settings": {"num_reqs": 3, "prompt_len": 8}}, "device": "cpu",
        "runner": {"model": "micro", "max_model_len": 256, **switches},
        "measure": {"steps": 12},
    })
    ledger = load("instrumentation.probe").Ledger()
    device = load("runner.devices").make_device("cpu", ledger=ledger)
    runner = load("runner.model_runner").build_runner(spec.runner, device, Untouched(), ledger)
    loop, workload = load("experiments.loop"), load("experiments.resolve").workload_of(spec)
    loop.StepLoop(workload, runner, Untouched(), device).run(loop.LoopLimits(steps=12))
    # AND a step without tokens, which notes figures of its own
    runner.submit(load("workloads.step").StepDelta(10**6))
    assert not ledger.rows["steps"] and not ledger.rows["phases"]


for handoff in ("sync", "async_auto"):
    for speculative in ("off", 2):
        steps(token_handoff=handoff, speculative=speculative)
"""


def test_the_stripped_copy_makes_no_call_of_the_probe(tmp_path):
    path = os.pathsep.join((str(BENCHMARKS), *sys.path))
    subprocess.run([sys.executable, "-c", RUN, str(tmp_path)], check=True, env={**os.environ, "PYTHONPATH": path})
