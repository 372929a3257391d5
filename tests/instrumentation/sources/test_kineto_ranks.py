"""Files merged from the traces of several ranks, whose correlation ids repeat: each rank keeps its own work."""

import pytest
from stepscope.analysis.captures.figures import capture_figures
from stepscope.errors import UsageError
from stepscope.instrumentation.sources import read_capture

LABELLED = ({"host": "[TP00] 251", "gpu": "[TP00] 0"}, {"host": "[TP01] 251", "gpu": "[TP01] 0"})
NUMBERED = ({"host": 251, "gpu": 0}, {"host": 252, "gpu": 1})


def rank_events(made, pids, ids, *, late, kernel_us):
    """Calls 5 us before kernels of `kernel_us`, in a step, of one rank that begins `late` us."""
    found = [made.event("user_annotation", "ProfilerStep#1", late, 900, pid=pids["host"])]
    for number, own in enumerate(ids):
        at = late + 100 * number
        found.append(made.call(at, 3, "cudaLaunchKernel", own, pid=pids["host"]))
        kernel = made.kernel(at + 5, kernel_us, own)
        found.append({**kernel, "pid": pids["gpu"]})
        if isinstance(pids["gpu"], int):
            kernel["args"]["device"] = pids["gpu"]
    return found


def figures(path):
    capture = read_capture(path)
    return capture, capture_figures(capture.tables, capture.meta)


def write(kineto, made, ranks, ids):
    a = rank_events(made, ranks[0], ids[0], late=1000, kernel_us=40)
    b = rank_events(made, ranks[1], ids[1], late=1050, kernel_us=60)
    return kineto([event for pair in zip(a, b, strict=True) for event in pair])


@pytest.mark.parametrize("ranks", [LABELLED, NUMBERED], ids=["labels", "numbers"])
def test_work_is_tied_to_the_calls_of_its_own_rank(kineto, made, ranks):
    # GIVEN two ranks that share the ids 2 and 3
    _, found = figures(write(kineto, made, ranks, ([1, 2, 3], [2, 3, 4])))
    # THEN each has its own kernels, none waited for the calls of the other, and each has its own step
    assert [(own.kernels, own.busy_ns) for own in found.devices] == [(3, 120_000), (3, 180_000)]
    assert [(own.n, own.p50_ns, own.max_ns, own.skewed) for own in found.queue] == [(3, 5000, 5000, 0)] * 2
    assert [(own.pid, own.eager_kernels, own.unlinked_kernels) for own in found.graphs] == [
        (251, 3, 0), (251 if ranks is LABELLED else 252, 3, 0),
    ]  # fmt: skip
    assert found.steps[["step", "kernels", "busy_ns"]].to_numpy().tolist() == [[0, 3, 120_000], [0, 3, 180_000]]
    assert [own.rank for own in found.devices] == ([0, 1] if ranks is LABELLED else [None, None])


def test_the_process_that_launches_gives_its_pid(kineto, made):
    # GIVEN a worker that feeds it and has more events
    events = [made.event("cpu_op", "aten::stack", n, 1, pid=200, tid=200) for n in range(300)]
    events += [made.call(10, 2, "cudaLaunchKernel", 1, pid=100, tid=100), made.kernel(14, 3, 1)]
    _, found = figures(kineto(events))
    assert [(own.pid, own.kernels) for own in found.processes] == [(100, 1)]


def test_ranks_that_stand_one_behind_the_other_are_seen(kineto, made):
    ids = list(range(1, 200))
    a = rank_events(made, NUMBERED[0], ids, late=1000, kernel_us=40)
    b = rank_events(made, NUMBERED[1], [own + 1 for own in ids], late=1050, kernel_us=60)
    _, found = figures(kineto(a + b))
    assert [(own.n, own.max_ns, own.skewed) for own in found.queue] == [(199, 5000, 0)] * 2


def test_labels_tell_where_all_ids_are_shared(kineto, made):
    _, found = figures(write(kineto, made, LABELLED, ([1, 2, 3], [1, 2, 3])))
    assert [(own.rank, own.n, own.max_ns) for own in found.queue] == [(0, 3, 5000), (1, 3, 5000)]


def test_labels_of_more_than_a_rank_are_not_kept(kineto, made):
    # GIVEN labels with two numbers, and a name in them that is nobody's business
    ranks = [{"host": f"node-ada DP0 TP{rank} 251", "gpu": f"node-ada DP0 TP{rank} 0"} for rank in (0, 1)]
    capture, found = figures(write(kineto, made, ranks, ([1, 2, 3], [1, 2, 3])))
    assert [(own.n, own.max_ns, own.skewed) for own in found.queue] == [(3, 5000, 0)] * 2
    assert set(capture.tables["spans"]["host"].to_pylist()) == {"process 1", "process 2"}
    assert "ada" not in str([table.to_pydict() for table in capture.tables.values()]) + str(capture.meta)


def test_where_all_ids_are_shared_and_nothing_tells_no_call_is_tied(kineto, made):
    capture, found = figures(write(kineto, made, NUMBERED, ([1, 2, 3], [1, 2, 3])))
    assert [(own.kernels, own.busy_ns) for own in found.devices] == [(3, 120_000), (3, 180_000)]
    assert (found.queue, found.coverage[0].covered, found.coverage[0].of) == ((), 0, 6)
    assert "several processes" in capture.meta.reason("spans", "correlation")
    assert "which calls launched some of the work" in [own.question for own in found.cannot_say]


def test_two_pids_that_share_no_id_are_one_process(kineto, made):
    """A fault of older profilers: some calls of a process stand under pid 0."""
    _, found = figures(kineto([
        made.call(0, 3, "cudaLaunchKernel", 1), made.kernel(10, 20, 1),
        made.call(40, 3, "cudaLaunchKernel", 2, pid=0), made.kernel(50, 20, 2),
    ]))  # fmt: skip
    assert [(own.pid, own.eager_kernels) for own in found.graphs] == [(4242, 2)]


def test_a_file_is_read_once(kineto, made):
    path = kineto([made.kernel(1000, 10)])
    with pytest.raises(UsageError, match="given twice"):
        read_capture([path, path.parent / "." / path.name])
    with pytest.raises(UsageError, match="given twice"):
        read_capture([path.parent, path])


@pytest.mark.parametrize(("base", "told"), [(None, True), (10**18, False)])
def test_files_of_which_some_name_no_base_of_their_times(kineto, made, base, told):
    bases = ({"baseTimeNanoseconds": own} if own else {} for own in (10**18, base))
    paths = [kineto([made.kernel(1000, 10)], name=f"r{rank}.json", **own) for rank, own in enumerate(bases)]
    capture = read_capture(paths)
    asked = [own.question for own in capture_figures(capture.tables, capture.meta).cannot_say]
    assert ("how the ranks lie to one another in time" in asked) is told


@pytest.mark.parametrize(("later_us", "told"), [(0, False), (1005, False), (20_000, True)])
def test_files_that_lie_apart_in_time_may_be_no_ranks_of_one_run(kineto, made, later_us, told):
    """Ranks of a run overlap; two captures that somebody keeps in one folder do not."""
    events = [made.call(0, 1000, "cudaLaunchKernel", 1), made.kernel(1000, 10, 1)]
    for rank, late_us in enumerate((0, later_us)):
        kineto(events, name=f"r{rank}.json", baseTimeNanoseconds=10**18 + late_us * 1000)
    folder = kineto(events, name="r2.json", baseTimeNanoseconds=10**18).parent
    capture = read_capture(folder)
    found = capture_figures(capture.tables, capture.meta).cannot_say
    because = [own.because for own in found if own.question == "whether the files are the ranks of one run"]
    assert ("number 2 began when all before had ended" in " ".join(because)) is told


def test_captures_of_nsight_systems_beside_the_traces_are_named_as_not_read(kineto, made):
    path = kineto([made.call(0, 1, "cudaLaunchKernel", 1), made.kernel(1000, 10, 1)], name="r0.json")
    (path.parent / "other.sqlite").write_bytes(b"SQLite format 3\x00")
    capture = read_capture(path.parent)
    because = [own.because for own in capture_figures(capture.tables, capture.meta).cannot_say]
    assert "the folder also holds captures of Nsight Systems, not read: other.sqlite" in because
    alone = read_capture(path)
    assert not [own for own in capture_figures(alone.tables, alone.meta).cannot_say if "other.sqlite" in own.because]
