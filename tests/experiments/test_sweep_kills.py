"""kill -9 of driver and worker at any moment: what was finished stays as it is, and resume completes the sweep.

In the suite a few kills with work that takes milliseconds. `make sweep-kills` sets STEPSCOPE_KILLS: so many kills of
`perf sweep` itself, with real points.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from stepscope.experiments.lock import LOCK_FILE
from stepscope.experiments.plan import make_plan
from stepscope.experiments.store import WORK, SweepStore
from stepscope.experiments.sweep import load_specs

HERE = Path(__file__).parent
KILLS = int(os.environ.get("STEPSCOPE_KILLS", "0"))
SPEC = """\
workload: {regime: steady, settings: {num_reqs: 2, prompt_len: 4}, scheduler: {reserve_output: true}}
runner: {max_num_seqs: 2, max_num_batched_tokens: 16, max_model_len: 64, block_size: 4}
device: sim
measure: {steps: 3, repeats: 2}
grid: {commit_order: [first, last], ring_slots: 1:%d}
"""
DRIVE = """\
import sys
from pathlib import Path
from stepscope.cli.sweep_progress import watch_sweep
from stepscope.experiments.driver import SweepOptions
from stepscope.experiments.store import SweepStore
from stepscope.experiments.sweep import run_sweep
from stepscope.experiments.workers.launcher import Workers
from stepscope.experiments.workers.process import WorkerProcess
store = SweepStore.resume(Path(sys.argv[1]), None)
workers = lambda scratch: Workers([WorkerProcess(scratch, work="odd_work:brief")])
run_sweep(store, watch_sweep("json"), workers, SweepOptions(allow_mixed=True))  # somebody may edit the source meanwhile
"""

linux = pytest.mark.skipif(sys.platform != "linux", reason="children are found in /proc")


class Sweep:
    """A sweep in a process of its own, started as often as it is killed."""

    def __init__(self, folder: Path, *, real: bool, points: int) -> None:
        self._real = real
        self.out = folder / "out"
        self._spec = folder / "spec.yaml"
        self._spec.write_text(SPEC % points)
        self._log = folder / "log.jsonl"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> subprocess.Popen[bytes]:
        """From the beginning, or from where it was killed."""
        resume = (self.out / "plan.json").exists()
        path = os.pathsep.join([str(HERE / "workers"), os.environ.get("PYTHONPATH", "")])
        if self._real:
            arguments = ["-m", "stepscope", "sweep", *(["--resume"] if resume else [str(self._spec)])]
            arguments += ["--out", str(self.out), "--progress", "json"]
        else:
            if not resume:
                SweepStore.create(self.out, make_plan(load_specs([self._spec]), {}))
            arguments = ["-c", DRIVE, str(self.out)]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, *arguments], stdout=subprocess.DEVNULL, stderr=log,
                env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
            )  # fmt: skip
        return self._process

    def until(self, done: int) -> None:
        """Wait until `done` points were told of, or it ended."""
        assert self._process is not None
        until_s = time.monotonic() + 120
        while self._process.poll() is None and len(self.told()) < done and time.monotonic() < until_s:
            time.sleep(0.005)

    def told(self) -> list[str]:
        """Launches that were told to be ok, in all runs so far."""
        lines = self._log.read_text(errors="replace").splitlines() if self._log.exists() else []
        events = [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]
        ok = [event for event in events if event["event"] == "point_finished" and event["status"] == "ok"]
        return [f"{event['point']}-{event['launch'] + 1}" for event in ok]

    def worker(self) -> int | None:
        """The worker's process id, as soon as it has one; None when the sweep ended without."""
        assert self._process is not None
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
        while self._process.poll() is None:
            with contextlib.suppress(OSError):
                if found := children.read_text().split():
                    return int(found[0])
            time.sleep(0.005)
        return None

    def finished(self) -> dict[str, str]:
        """Launches that are ok on disk, with the hash of all that their folders hold."""
        if not (self.out / "plan.json").exists():
            return {}
        store = SweepStore.open(self.out)
        return {point.key: fingerprint(store.folder(point)) for point in store.done()}


def fingerprint(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            digest.update(path.relative_to(folder).as_posix().encode() + path.read_bytes())
            digest.update(str(path.stat().st_mtime_ns).encode())
    return digest.hexdigest()


def kill_often(
    sweep: Sweep, kills: int, rng: random.Random, total: int, *, least: int, pause_s: float
) -> Counter[str]:
    """Kill driver or worker at random moments; after each kill the finished points must be what they were.

    `least`: points that are measured in each run before the kill; 0 kills some drivers that have only just begun.
    `pause_s`: at most so long behind that, which should be about the length of a point.
    """
    before: dict[str, str] = {}
    killed: Counter[str] = Counter()
    targets = (["driver", "worker"] * kills)[:kills]
    rng.shuffle(targets)
    for target in targets:
        process = sweep.start()
        sweep.until(len(sweep.told()) + rng.randint(least, max(1, total // kills - 1)))
        time.sleep(rng.random() * pause_s)
        victim = sweep.worker() if target == "worker" else process.pid
        if process.poll() is not None or victim is None:  # it came to its end: nothing is left to kill
            victim, target = process.pid, "driver"
        with contextlib.suppress(ProcessLookupError):
            os.kill(victim, signal.SIGKILL)
            killed[target] += 1
        if target == "worker":  # the sweep goes on with another one
            sweep.until(len(sweep.told()) + 1)
            process.kill()
        process.wait()
        now = sweep.finished()
        assert {key: now.get(key) for key in before} == before, "a finished point was lost or written again"
        before = now
    return killed


def complete(sweep: Sweep, total: int) -> None:
    """Resume to the end; everything is there, once, and nothing is left over."""
    sweep.start().wait()  # a point whose worker was killed has failed: it is measured again
    store = SweepStore.open(sweep.out)
    assert len(store.done()) == total
    told = Counter(sweep.told())
    assert [key for key, times in told.items() if times > 1] == [], "a point was recorded twice"
    folders = {path.parent for path in sweep.out.glob("points/*/launch-*/summary.json")}
    assert folders == {store.folder(point) for point in store.plan.points}
    assert [folder for folder in folders if not any((folder / "recording").iterdir())] == []
    states = [json.loads(path.read_text()) for path in sweep.out.glob("points/*/summary.json")]
    assert [state["status"] for state in states] == ["ok"] * (total // 2)
    assert not (sweep.out / WORK).exists()
    assert not (sweep.out / LOCK_FILE).exists()
    strays = [path for path in sweep.out.rglob("*") if re.search(r"\.(tmp|old|copy)$|^\.", path.name)]
    assert strays == []


@linux
def test_a_few_kills_lose_at_most_the_point_in_flight(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path, real=False, points=4)
    killed = kill_often(sweep, 2, random.Random(3), 8, least=1, pause_s=0.02)
    assert set(killed) == {"driver", "worker"}
    complete(sweep, 16)


@linux
@pytest.mark.skipif(not KILLS, reason="make sweep-kills")
def test_many_kills_of_the_command_itself(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path, real=True, points=max(KILLS // 2, 4))
    total = 4 * max(KILLS // 2, 4)
    killed = kill_often(sweep, KILLS, random.Random(11), total, least=0, pause_s=0.3)
    sys.stdout.write(f"killed {dict(killed)}; {len(sweep.finished())} of {total} points finished before the last run\n")
    assert sum(killed.values()) == KILLS
    complete(sweep, total)
