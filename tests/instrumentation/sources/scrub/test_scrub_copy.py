"""Cleaned copies of captures: the same figures, and nothing that a list did not let through."""

import gzip
import json
import shutil
import sqlite3
from pathlib import Path

import pytest
from stepscope.analysis.captures.figures import capture_figures
from stepscope.errors import UsageError
from stepscope.instrumentation.sources import read_capture
from stepscope.instrumentation.sources.scrub import scrub_copy
from stepscope.reports import render_capture

CAPTURES = Path(__file__).resolve().parents[5] / "shared" / "captures"
SOME = (
    "nsys-3.0.0_titanrtx_inference_phases_nvtx_only.sqlite", "nsys-3.20.3_h200_vllm026_v1_graph.sqlite",
    "nsys-3.25.0_h100x2_fastvideo_1s.sqlite", "kineto_mi300_vllm_decode_fullgraph.json.gz",
    "kineto_a100_hta_alexnet_pageable.json.gz", "kineto_h200_vllm026_v1_graph_decode.json.gz",
)  # fmt: skip


def told(path):
    capture = read_capture(path)
    return render_capture(capture_figures(capture.tables, capture.meta), "json", name="capture")


@pytest.mark.parametrize("name", SOME)
def test_the_copy_of_a_real_capture_says_the_same(name, tmp_path):
    if not (CAPTURES / name).exists():
        pytest.skip("the captures are not here")
    out = scrub_copy(CAPTURES / name, tmp_path / name)
    assert told(out) == told(CAPTURES / name)
    assert out.stat().st_size < (CAPTURES / name).stat().st_size


def a_step(export):
    export.range(0, 100, "forward", registered=True)
    export.range(-50, -50, "engine", type_=75, domain=3)
    export.range(10, 60, "attention", domain=3)
    export.call(5, 9, "cudaLaunchKernel_v7000", correlation=7)
    export.kernel(20, 60, correlation=7)
    export.copy(61, 70, correlation=8, src=1)


def test_all_that_figures_are_made_of_stays(export, tmp_path):
    # GIVEN an export with the file's own numbering, versions, a GPU, what was lost, and a table with a version suffix
    a_step(export)
    export.kernel(70, 75, correlation=7, name="softmax", named="CUPTI_ACTIVITY_KIND_KERNEL_V2")
    export.add("ENUM_CUDA_MEM_KIND", id=1, name="CUDA_MEMOPR_MEMORY_KIND_PAGEABLE", label="Pageable")
    export.add("ENUM_CUDA_MEMCPY_OPER", id=1, name="CUDA_MEMCPY_KIND_DTOH", label="Device-to-Host")
    export.add("ENUM_NSYS_EVENT_TYPE", columns="id name label", id=59, name="NvtxPushPopRange")
    export.add("META_DATA_EXPORT", name="EXPORT_SCHEMA_VERSION", value="3.20.3")
    export.add("META_DATA_CAPTURE", name="CUDA_GRAPH_TRACE_OPTIONS:MODE", value="Node")
    export.add("DIAGNOSTIC_EVENT", severity=3, text="Not all CUDA events might have been collected. /home/x")
    export.add("TARGET_INFO_GPU", columns="id name totalMemory uuid", id=0, name="NVIDIA H200", totalMemory=5, uuid="u")
    export.add("TARGET_INFO_SESSION_START_TIME", columns="utcEpochNs utcTime", utcEpochNs=17, utcTime="noon")
    # WHEN it is cleaned
    out = scrub_copy(export.path, tmp_path / "clean.sqlite")
    # THEN the figures are equal, and say what the file said
    assert told(out) == told(export.path)
    content = json.loads(told(out))["content"]
    assert [(own["direction"], own["src_kind"]) for own in content["copies"]] == [("d2h", "pageable")]
    assert content["environment"]["gpu_name"] == "NVIDIA H200"
    assert content["facts"]["graph_trace"] == "node"
    assert "not all CUDA events may be there" in json.dumps(content["cannot_say"])


def test_a_copy_of_a_copy_is_the_copy(export, tmp_path):
    a_step(export)
    once = scrub_copy(export.path, tmp_path / "once.sqlite")
    assert scrub_copy(once, tmp_path / "twice.sqlite").read_bytes() == once.read_bytes()


def test_only_listed_tables_and_columns_stay(export, tmp_path):
    a_step(export)
    export.add("PROCESSES", globalPid=1, pid=1, name="python")
    export.add("ProcessStreams", columns="globalPid filenameId contentId", contentId=export.text("printed"))
    out = scrub_copy(export.path, tmp_path / "clean.sqlite")
    with sqlite3.connect(out) as opened:
        tables = {name for (name,) in opened.execute("SELECT name FROM sqlite_master")}
        texts = {value for (value,) in opened.execute("SELECT value FROM StringIds")}
        assert opened.execute("PRAGMA freelist_count").fetchone() == (0,)
        assert opened.execute("SELECT * FROM PROCESSES").fetchall() == [(1, 1)]
    assert "ProcessStreams" not in tables
    assert texts == {"forward", "gemm", "cudaLaunchKernel_v7000"}


def test_times_keep_every_digit(kineto, made, tmp_path):
    # GIVEN times that no float64 holds
    events = [made.call(1, 2, "cudaLaunchKernel", 1), made.kernel("T", "D", 1)]
    path = kineto(events, schema=1)
    text = path.read_text().replace('"T"', "1699999999123456.789").replace('"D"', "0.125e2")
    path.write_text(text)
    out = scrub_copy(path, tmp_path / "clean.json.gz")
    assert b'"ts":1699999999123456.789,"dur":0.125e2' in gzip.decompress(out.read_bytes())
    assert told(out) == told(path)


def test_events_without_times_are_still_counted(kineto, made, tmp_path):
    path = kineto([made.kernel(0, 10), made.kernel("soon", 10), made.kernel(None, 1), made.event("python_function",
                                                                                                "f", 0, 1)])
    out = scrub_copy(path, tmp_path / "clean.json")
    assert json.loads(told(out))["content"]["facts"]["invalid_rows"] == {"kernel": 2}
    assert "python_function" not in out.read_text()


@pytest.mark.parametrize(
    ("name", "message"),
    [("copy.txt", "ends in"), ("copy.sqlite", "ends in"), ("trace.json", "is the capture itself"), (".", "ends in")],
)
def test_what_cannot_be_the_copy_is_refused(kineto, made, tmp_path, name, message):
    path = kineto([made.kernel(0, 10)])
    with pytest.raises(UsageError, match=message):
        scrub_copy(path, tmp_path / name)
    assert json.loads(path.read_text())["traceEvents"]


def test_a_damaged_capture_leaves_nothing_behind(kineto, made, tmp_path):
    path = kineto([made.kernel(0, 10)] * 3)
    path.write_text(path.read_text()[:-30])
    with pytest.raises(UsageError, match="not valid JSON"):
        scrub_copy(path, tmp_path / "clean.json.gz")
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


def test_a_report_is_exported_first(export, tmp_path, monkeypatch):
    # GIVEN an nsys on the PATH that exports by copying a file that lies beside the report
    a_step(export)
    shutil.copy(export.path, tmp_path / "export.sqlite")
    tool = tmp_path / "bin" / "nsys"
    tool.parent.mkdir()
    tool.write_text('#!/bin/sh\nfor last; do :; done\nout=$(echo "$@" | sed "s/.*--output=\\([^ ]*\\).*/\\1/")\n'
                    'cp "$(dirname "$last")/export.sqlite" "$out"\n')
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tool.parent}:/usr/bin:/bin")
    report = tmp_path / "run.nsys-rep"
    report.write_bytes(b"report")
    assert told(scrub_copy(report, tmp_path / "clean.sqlite")) == told(export.path)
