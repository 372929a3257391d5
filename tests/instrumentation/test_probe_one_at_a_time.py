"""A probe follows one step at a time: what engines do with it nevertheless gives no figures that look right."""

import asyncio
import os
import subprocess
import sys
import threading
from contextlib import suppress
from functools import partial

import pytest
from stepscope.analysis.phases import phase_steps, phase_summary
from stepscope.errors import UsageError
from stepscope.instrumentation.clock import MonotonicClock
from stepscope.instrumentation.probe import Ledger, Probe
from stepscope.instrumentation.recording import Diagnostic, Recording, RecordingMeta, RecordingWriter

from .probe_fakes import TickingClock

META = RecordingMeta(source="my engine", device="cpu")


@pytest.fixture(params=["the clock of C", "a clock of Python"])
def probe(request):
    made = Probe(Ledger(), MonotonicClock() if "C" in request.param else TickingClock(), nvtx="off")
    made.reasons = lambda: [why for table, _, why in made.diagnostics() if table == "steps"]
    return made


def steps(probe):
    probe.finish()
    return [(row[0], row[-1]) for row in probe.ledger.rows["steps"]]


def test_tasks_whose_steps_overlap_are_not_counted(probe):
    # GIVEN an engine of tasks that has two steps on their way: the sample of the one falls into the other
    async def step(number, begun, go):
        with probe.step(number) as step:
            begun.set()
            await go.wait()
            with step.phase("sample"):
                pass

    async def engine():
        with probe.step(0):
            pass
        first, second, go = (asyncio.Event() for _ in range(3))
        tasks = [asyncio.create_task(step(number, begun, go)) for number, begun in ((1, first), (2, second))]
        await second.wait()
        go.set()
        await asyncio.gather(*tasks)
        with probe.step(3):
            pass

    asyncio.run(engine())
    # THEN neither is complete, those beside them are, and why is said
    assert steps(probe) == [(0, True), (1, False), (2, False), (3, True)]
    assert [why.split(" steps ")[0] for why in probe.reasons()] == ["1", "1"]
    assert "one step at a time" in probe.reasons()[1]
    about = META.with_diagnostics(*(Diagnostic(*why) for why in probe.diagnostics()))
    assert about.lacks == tuple(probe.reasons())


def test_an_engine_whose_steps_always_overlap_keeps_little(probe):
    # GIVEN steps of which each is left behind the beginning of the next one, whose rows are taken now and then
    before = None
    for number in range(300):
        step = probe.step(number)
        step.__enter__()
        if before is not None:
            before.__exit__(None, None, None)
        before = step
        if number % 50 == 49:
            probe.ledger.take()
    # THEN what is known of the overlaps does not grow with them, which each new row is compared with
    assert len(probe._log.overlaps) <= 50
    assert probe.reasons()[1].startswith("299 steps went on")


def test_threads_that_share_a_probe_are_not_counted(probe):
    meet = threading.Barrier(2)

    def run(number):
        with probe.step(number):
            meet.wait(10)
            meet.wait(10)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [whole for _, whole in steps(probe)] == [False, False]


def test_a_generator_that_is_given_up_runs_into_nobody(probe):
    def engine():
        with probe.step(0):
            yield

    given_up = engine()
    next(given_up)
    with probe.step(1):
        given_up.close()
    assert steps(probe) == [(0, False), (1, True)]


def test_a_step_that_never_ends_has_its_row(probe):
    hung = probe.step(0)
    hung.__enter__()
    assert steps(probe) == [(0, False)]
    assert "1 steps were still open" in probe.reasons()[0]


def test_numbers_that_begin_again_are_told_apart(probe):
    # GIVEN a loop that counts the steps of each request from 0, the first request to warm up
    for request in range(3):
        probe.warmup = request == 0
        for number in range(2):
            with probe.step(number) as step:
                for name in ("preprocess", "forward", "sample"):
                    with step.phase(name):
                        pass
    # THEN each step keeps what is its own
    probe.finish()
    recording = Recording.from_ledger(probe.ledger, META)
    assert phase_steps(recording)["step"].tolist() == [0, 1, 2, 3, 4, 5]
    assert phase_summary(recording).host["n"].tolist() == [4, 4, 4, 3]
    assert probe.reasons() == ["4 numbers did not rise: they are the next ones here"]


@pytest.mark.parametrize("way", ["timed", "timed_phase"])
def test_functions_that_come_back_before_they_work_are_refused(probe, way):
    async def coroutine(): ...

    async def stream():
        yield

    def generator():
        yield

    class Forward:
        async def __call__(self): ...

    for function in (coroutine, stream, generator, partial(coroutine), Forward()):
        with pytest.raises(TypeError, match=r"forward: .*comes back before it works; put a `with` around"):
            getattr(probe, way)("forward", function)


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")  # the writer has a thread
def test_a_fork_leaves_its_parents_recording_alone(tmp_path):
    # GIVEN a run in the middle, and a child that was forked then and tidies up as its parent does
    probe = Probe(Ledger(), MonotonicClock(), nvtx="off")
    writer = RecordingWriter(tmp_path, META)

    def run(number):
        with probe.step(number):
            pass
        writer.write(probe.ledger.take())

    run(0)
    child = os.fork()
    if not child:
        with suppress(BaseException):
            run(1)
            with pytest.raises(UsageError, match=f"process {os.getppid()} records here"):
                writer.finish()
            os._exit(0)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    # THEN the parent's is whole, and holds what the parent did
    run(2)
    assert writer.finish().table("steps")["step"].tolist() == [0, 2]
    assert Recording.load(tmp_path).table("steps")["step"].tolist() == [0, 2]


OTHER_RANK = """
import sys
from stepscope.instrumentation.recording import RecordingMeta, RecordingWriter
writer = RecordingWriter(sys.argv[1], RecordingMeta(source="my engine", device="cpu"))
print("records", flush=True)
sys.stdin.read()
writer.write({"steps": [(3, 10, 20, *[None] * 24, False, True)]})
writer.finish()
"""


def test_a_folder_that_another_process_records_into(tmp_path):
    # GIVEN a run of another process, as of another rank with the same path
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    other = subprocess.Popen(
        [sys.executable, "-c", OTHER_RANK, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env=environment,
    )  # fmt: skip
    try:
        assert other.stdout.readline() == "records\n"
        # WHEN this one wants to record there THEN it is told, and the other's is whole
        with pytest.raises(UsageError, match=r"rows.seg: cannot write here \(another process writes it\); choose"):
            RecordingWriter(tmp_path, META)
    finally:
        other.communicate(timeout=60)
    assert Recording.load(tmp_path).table("steps")["step"].tolist() == [3]
    RecordingWriter(tmp_path, META).finish()


def test_a_phase_between_two_steps_is_neithers(probe):
    # GIVEN an engine that runs a batch of nothing between two steps, with the forward that it times
    forward = probe.timed_phase("forward", lambda: None)
    forward()
    for number in range(2):
        with probe.step(number) as step:
            forward()
        forward()
        with step.phase("sample"):
            pass
    probe.finish()
    # THEN the steps have their own alone, and the others are on the lane
    assert [row[:2] for row in probe.ledger.rows["phases"]] == [(0, "forward"), (1, "forward")]
    assert [row[0] for row in probe.ledger.rows["spans"]] == [None, 0, 0, 0, 1, 1, 1]
