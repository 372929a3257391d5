"""Environments, command lines, users, hosts, paths and output that captures carry never get into a recording."""

import json

import pytest
from stepscope.errors import StepscopeError
from stepscope.experiments.importing import import_capture
from stepscope.experiments.reporting import write_report
from stepscope.instrumentation.recording import Recording

SECRET = "sk-hunter2-4f9a"


def everything(path, folder, tmp_path):
    """All that an import and all reports of it write, unpacked."""
    done = import_capture([path], folder)
    recording = Recording.load(folder)
    told = [done.text, (folder / "recording.json").read_text()]
    told += [frame.to_csv() for frame in recording.tables.values()]
    for format_ in ("text", "md", "json", "html"):
        for source in (path, folder):
            page = tmp_path / f"page.{format_}"
            write_report(source, format_, page)
            told.append(page.read_text())
    return told


def test_nsys_export(export, made, tmp_path):
    export.range(0, 100, "forward")
    export.call(5, 9, "cudaLaunchKernel_v7000", correlation=7)
    export.kernel(20, 60, correlation=7)
    capture = (
        "PROCESS_0:ENVIRONMENT_VARIABLE", "PROCESS_0:WORKING_DIR", "PROCESS_0:COMMAND", "PROCESS_0:ARGUMENT_1",
        "PROCESS_0:USER_NAME", "CUDA_GRAPH_TRACE_OPTIONS:MODE",
    )  # fmt: skip
    for name in capture:
        export.add("META_DATA_CAPTURE", name=name, value=f"API_KEY={SECRET}")
    exported = ("EXPORT_PARAM_INPUT_ABS", "EXPORT_PARAM_OUTPUT_ABS", "EXPORT_SCHEMA_VERSION", "EXPORT_PRODUCT_VERSION")
    for name in exported:
        export.add("META_DATA_EXPORT", name=name, value=f"/home/{SECRET}/x")
    for name in ("DeviceEnvironment", "Hostname", "TargetInstallDir"):
        export.add("TARGET_INFO_SYSTEM_ENV", name=name, value=SECRET)
    export.add("DIAGNOSTIC_EVENT", severity=3, text=f"No CUDA events collected. Process {SECRET} crashed.")
    export.add("PROCESSES", globalPid=made.global_pid(1001), pid=1001, name=SECRET)
    export.add("ProcessStreams", columns="globalPid filenameId contentId", filenameId=export.text(SECRET), contentId=1)
    export.add("ThreadNames", columns="nameId priority globalTid", nameId=export.text(f"thread {SECRET}"))
    export.add("ANALYSIS_FILE", columns="id filename globalPid", id=1, filename=f"/home/{SECRET}")
    export.text(f"printed {SECRET}")
    assert [text for text in everything(export.path, tmp_path / "r", tmp_path) if SECRET in text] == []


def test_kineto_trace(kineto, made, tmp_path):
    events = [
        made.call(5, 5, "cudaLaunchKernel", 1, token=SECRET), made.kernel(20, 10, 1, path=SECRET),
        made.event("cpu_op", "aten::mm", 0, 50, **{"Call stack": f"/home/{SECRET}/x.py(3): f"}),
        made.event("python_function", f"/home/{SECRET}/model.py(7): forward", 0, 50),
        {"ph": "M", "name": "process_name", "pid": 4242, "tid": 0, "ts": 0, "args": {"name": SECRET}},
        {"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": SECRET, "pid": 1, "tid": 1, "ts": 3},
    ]  # fmt: skip
    path = kineto(
        events, traceName=f"/tmp/{SECRET}.json", host=SECRET, user=SECRET,
        distributedInfo={"backend": SECRET, "rank": SECRET, "world_size": 2}, trace_id=SECRET,
        metadata={"system": {"env": {"HF_TOKEN": SECRET}}}, cupti_version=SECRET, schemaVersion=SECRET,
        baseTimeNanoseconds=SECRET,
    )  # fmt: skip
    assert [text for text in everything(path, tmp_path / "r", tmp_path) if SECRET in text] == []


@pytest.mark.parametrize("salvage", [False, True])
def test_messages_quote_no_more_than_a_name(made, tmp_path, salvage):
    # GIVEN a trace that breaks right behind a secret
    path = tmp_path / "t.json"
    text = json.dumps({"env": SECRET, "traceEvents": [made.kernel(0, 10, token=SECRET)]})
    path.write_text(text.replace('"correlation": 0', '"correlation": 0 0'))
    told = ""
    try:
        import_capture([path], tmp_path / "r", salvage=salvage)
    except StepscopeError as error:
        told = str(error)
    assert SECRET not in told
    assert bool(told)
