"""Marks of engines, and where versions of the profiler draw them."""

import pytest
from stepscope.instrumentation.sources import read_capture


def test_annotations_on_a_streams_row_are_no_steps_of_the_host(kineto, made):
    """Some versions draw them there under the category of the host's."""
    step = [made.event("user_annotation", f"ProfilerStep#{n}", 100 * n, 90) for n in range(2)]
    calls = [made.call(100 * n + 5, 2, "cudaLaunchKernel", n + 1) for n in range(2)]
    work = [made.kernel(100 * n + 20, 30, n + 1) for n in range(2)]
    drawn = [made.event("user_annotation", f"ProfilerStep#{n}", 100 * n + 20, 30, pid=0, tid=7) for n in range(2)]
    tables = [read_capture(kineto([*step, *calls, *work, *more])).tables for more in ([], drawn)]
    assert tables[1]["steps"].to_pylist() == tables[0]["steps"].to_pylist()
    assert tables[1]["spans"].num_rows == tables[0]["spans"].num_rows == 6


@pytest.mark.parametrize(
    ("name", "reqs"),
    [
        ("[Executor] _forward_step 12: 3 ctx reqs, 29 gen reqs", [32, 3, 29]),
        ("[Executor] _forward_step: 0 ctx reqs, 8 gen reqs", [8, 0, 8]),
        ("[Executor] _forward_step 60000: 0 ctx reqs, 0 ctx tokens, 32 gen reqs", [32, 0, 32]),
    ],
)
def test_steps_of_tensorrt_llm(kineto, made, name, reqs):
    events = [made.event("user_annotation", name, 0, 90), made.call(5, 2, "cudaLaunchKernel", 1), made.kernel(20, 9, 1)]
    capture = read_capture(kineto(events))
    assert capture.meta.configuration["steps_from"] == "trtllm"
    (step,) = capture.tables["steps"].to_pylist()
    assert [step[key] for key in ("num_reqs", "num_prefill", "num_decode")] == reqs
    assert step["num_tokens"] is None


def test_settings_beside_the_traces_of_a_folder_are_left_out(kineto, made, tmp_path):
    for rank in range(2):
        events = [made.call(5, 2, "cudaLaunchKernel", 1, pid=40 + rank), made.kernel(20, 9, 1)]
        kineto(events, name=f"1759-TP-{rank}.trace.json.gz", packed=True, distributedInfo={"rank": rank})
    (tmp_path / "server_args.json").write_text('{"model_path": "x", "tp_size": 2}')
    capture = read_capture(tmp_path)
    assert sorted(set(capture.tables["spans"]["rank"].to_pylist())) == [0, 1]
    assert capture.meta.configuration["files"] == 2
