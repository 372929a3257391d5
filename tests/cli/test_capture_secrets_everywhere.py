"""A secret in every place that captures are known to hold some, looked for in everything that is written of them.

Looked through: what the commands print, the recording with its Parquet columns unpacked, all formats of the report, the
trace events, the comparison, and the cleaned copy byte by byte, free pages and packed data included.
"""

import gzip
import json
import sqlite3

import pyarrow.parquet as pq
import pytest

SECRET = "sk-hunter2-4f9a"
CAPTURE_ROWS = (
    "PROCESS_0:ENVIRONMENT_VARIABLE", "PROCESS_0:WORKING_DIR", "PROCESS_0:COMMAND", "PROCESS_0:ARGUMENT_0",
    "PROCESS_0:ARGUMENT_1", "PROCESS_0:USER_NAME", "PROCESS_1:ENVIRONMENT_VARIABLE", "CUDA_GRAPH_TRACE_OPTIONS:MODE",
)  # fmt: skip
EXPORT_ROWS = (
    "EXPORT_PARAM_INPUT_ABS", "EXPORT_PARAM_OUTPUT_ABS", "EXPORT_SCHEMA_VERSION", "EXPORT_PRODUCT_VERSION",
    "EXPORT_SCHEMA_VERSION_MAJOR",
)  # fmt: skip


@pytest.fixture
def nsys_file(export, made):
    """An export with the secret in every table that the profiler, the program or the system can have put it into."""
    for step in range(2):
        at = step * 1000
        export.range(at, at + 900, "step", domain=4)
        export.range(at, at + 100, "forward", domain=4)
        export.call(at + 5, at + 9, "cudaLaunchKernel_v7000", correlation=7 + step)
        export.kernel(at + 20, at + 60, correlation=7 + step)
    export.range(-9, -9, "stepscope", type_=75, domain=4)
    export.copy(61, 70, correlation=8)
    for name in CAPTURE_ROWS:
        export.add("META_DATA_CAPTURE", name=name, value=f"API_KEY={SECRET}")
    for name in EXPORT_ROWS:
        export.add("META_DATA_EXPORT", name=name, value=f"/home/{SECRET}/x")
    for name in ("DeviceEnvironment", "Hostname", "TargetInstallDir"):
        export.add("TARGET_INFO_SYSTEM_ENV", name=name, value=f"HOME={SECRET}")
    export.add("DIAGNOSTIC_EVENT", severity=3, text=f"No CUDA events collected. Process {SECRET} crashed.")
    export.add("PROCESSES", globalPid=made.global_pid(1001), pid=1001, name=SECRET)
    export.add("ProcessStreams", columns="globalPid filenameId contentId", filenameId=export.text(f"/tmp/{SECRET}"),
               contentId=export.text(f"printed {SECRET}"))
    export.add("ThreadNames", columns="nameId priority globalTid", nameId=export.text(f"thread of {SECRET}"))
    export.add("ANALYSIS_FILE", columns="id filename globalPid", id=1, filename=f"/home/{SECRET}")
    export.add("TARGET_INFO_GPU", columns="id name totalMemory uuid busLocation", id=0, name="NVIDIA H200",
               uuid=SECRET, busLocation=SECRET)
    export.add("ENUM_CUDA_MEM_KIND", id=0, name="CUDA_MEMOPR_MEMORY_KIND_PAGEABLE", label=SECRET)
    export.add("ENUM_NSYS_EVENT_TYPE", columns="id name label", id=59, name="NvtxPushPopRange", label=SECRET)
    export.add("ENUM_NSYS_EVENT_TYPE", columns="id name label", id=990, name=SECRET)
    export.add("OSRT_API", columns="start end nameId path", start=1, end=2, path=f"/home/{SECRET}")
    export.range(0, 50, f"thread {SECRET}", type_=39)  # the name of a thread
    export.range(0, 50, f"category {SECRET}", type_=33)
    export.range(0, 50, f"stream {SECRET}", type_=99, registered=True)
    connection = sqlite3.connect(export.path)
    for table, column in (("NVTX_EVENTS", "jsonText"), ("NVTX_EVENTS", "binaryData"),
                          ("CUPTI_ACTIVITY_KIND_KERNEL", "kernel_name"), ("CUPTI_ACTIVITY_KIND_RUNTIME", "comment")):
        connection.execute(f'ALTER TABLE "{table}" ADD COLUMN "{column}"')
        connection.execute(f'UPDATE "{table}" SET "{column}" = ?', (f'{{"token": "{SECRET}"}}',))
    # text where numbers belong, a column whose name is the secret, and a deleted row in a free page
    connection.execute('UPDATE "CUPTI_ACTIVITY_KIND_RUNTIME" SET returnValue = ?', (SECRET,))
    connection.execute(f'ALTER TABLE "CUPTI_ACTIVITY_KIND_MEMCPY" ADD COLUMN "{SECRET}"')
    connection.execute("CREATE TABLE gone (text)")
    connection.executemany("INSERT INTO gone VALUES (?)", [(f"{SECRET} " * 500,)] * 20)
    connection.execute("DROP TABLE gone")
    connection.commit()
    assert connection.execute("PRAGMA freelist_count").fetchone()[0] > 0
    connection.close()
    return export.path


@pytest.fixture
def kineto_file(kineto, made):
    """A trace with the secret in its metadata and in every kind of event and argument that figures do not need."""
    events = [
        *(made.event("user_annotation", "stepscope: step", at, 90) for at in (0, 100)),
        made.event("user_annotation", "stepscope: forward", 2, 20, **{"Call stack": SECRET}),
        made.call(5, 5, "cudaLaunchKernel", 1, token=SECRET), made.kernel(20, 10, 1, path=SECRET),
        made.copy(40, 5, "HtoD (Pageable -> Device)", correlation=2),
        made.event("cpu_op", "aten::mm", 0, 50, **{"Call stack": f"/home/{SECRET}/x.py(3): f", "Input Dims": SECRET}),
        made.event("python_function", f"/home/{SECRET}/model.py(7): forward", 0, 50),
        made.event("ac2g", SECRET, 1, 1), made.event(SECRET, "own category", 1, 1),
        {"ph": "M", "name": "process_name", "pid": 4242, "tid": 0, "ts": 0, "args": {"name": f"python {SECRET}"}},
        {"ph": "M", "name": "process_labels", "pid": 4242, "tid": 0, "ts": 0, "args": {"labels": SECRET}},
        {"ph": "M", "name": "thread_name", "pid": 4242, "tid": 1, "ts": 0, "args": {"name": SECRET}},
        {"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": SECRET, "pid": 1, "tid": 1, "ts": 3},
        {"ph": "C", "name": SECRET, "pid": 1, "tid": 1, "ts": 3, "args": {SECRET: 1}},
        {"ph": "s", "cat": "ac2g", "name": SECRET, "id": 1, "pid": 1, "tid": 1, "ts": 3},
    ]  # fmt: skip
    return kineto(
        events, "trace.json.gz", packed=True, traceName=f"/tmp/{SECRET}.json", host=SECRET, user=SECRET,
        distributedInfo={"backend": SECRET, "rank": 0, "world_size": 2, "pg_config": [{"pg_name": SECRET}]},
        trace_id=SECRET, metadata={"system": {"env": {"HF_TOKEN": SECRET}}}, cupti_version=SECRET, schemaVersion=SECRET,
        baseTimeNanoseconds=SECRET, PRETRACE_COMMAND=f"python --key={SECRET}", with_stack=1,
        deviceProperties=[{"id": 0, "name": "NVIDIA H200", "uuid": SECRET}],
    )  # fmt: skip


def unpacked(folder):
    """Every file of a recording as text: Parquet as its columns, its key-value metadata and its raw bytes."""
    for path in sorted(folder.rglob("*")):
        raw = path.read_bytes()
        yield path.name, raw.decode("latin-1")
        if path.suffix == ".parquet":
            table = pq.read_table(path)
            yield f"{path.name}, columns", json.dumps(table.to_pydict(), default=str) + str(table.schema.metadata)


def written(perf, capture, tmp_path, ending):
    """(what, text) of everything that the commands print and write of a capture."""
    folder, copy = tmp_path / "recording", tmp_path / f"clean{ending}"
    ended = perf("import", capture, "-o", folder, "--scrub-copy", copy)
    assert ended.code == 0
    yield "import", ended.out + ended.err
    yield from unpacked(folder)
    raw = copy.read_bytes()
    yield "copy", (gzip.decompress(raw) if ending.endswith(".gz") else raw).decode("latin-1")
    direct = tmp_path / "direct"
    assert perf("import", capture, "-o", direct).code == 0
    yield from unpacked(direct)
    for source in (capture, folder, copy):
        for format_ in ("html", "text", "md", "json", "perfetto"):
            page = tmp_path / "page"
            told = perf("report", source, "--format", format_, "-o", page)
            assert told.code == 0
            yield f"{format_} of {source.name}", told.out + told.err + page.read_text()
    compared = perf("diff", folder, copy)
    yield "diff", compared.out + compared.err


@pytest.mark.parametrize(("fixture", "ending"), [("nsys_file", ".sqlite"), ("kineto_file", ".json.gz")])
def test_no_output_holds_the_secret(perf, request, tmp_path, fixture, ending):
    capture = request.getfixturevalue(fixture)
    raw = capture.read_bytes()
    assert SECRET.encode() in (gzip.decompress(raw) if ending.endswith(".gz") else raw)
    found = list(written(perf, capture, tmp_path, ending))
    assert [what for what, text in found if SECRET in text or "hunter2" in text] == []
    # and it is not because nothing was written
    assert any("gemm" in text for _, text in found)
    assert len(found) > 40
