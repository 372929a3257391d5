"""Re-cut exports and traces: a figure that rests on a table or a column which is gone is null, never 0."""

import sqlite3
from contextlib import closing

import pytest
from stepscope.analysis.captures.figures import capture_figures
from stepscope.errors import MeasurementError
from stepscope.instrumentation.sources import read_capture
from stepscope.reports import render_capture
from stepscope.reports.jsonable import plain

PREFIX = "CUPTI_ACTIVITY_KIND_"
COMMON = "start deviceId correlationId globalPid"
READ = {
    "KERNEL": f"{COMMON} demangledName shortName graphNodeId", "MEMCPY": f"{COMMON} bytes copyKind srcKind dstKind",
    "MEMSET": f"{COMMON} bytes", "GRAPH_TRACE": COMMON, "RUNTIME": "end globalTid correlationId nameId",
}
CUTS = [
    *(f"DROP TABLE {PREFIX}{table}" for table in READ), "DROP TABLE StringIds", "DROP TABLE NVTX_EVENTS",
    "ALTER TABLE StringIds DROP COLUMN value", "DROP TABLE PROFILER_OVERHEAD",
    *(
        f"ALTER TABLE {PREFIX}{table} DROP COLUMN {column}"
        for table, columns in READ.items() for column in columns.split()
    ),
    *(f"ALTER TABLE NVTX_EVENTS DROP COLUMN {column}" for column in ("start", "end", "eventType", "text", "globalTid")),
]  # fmt: skip
ROWS_OF_THE_FILE = (".processes", ".coverage", "unknown_call", "unknown_kind", "late_known_ns", "late_ns")
"""Counts of rows: of what the file has, they are true. Late is told of the gaps whose next call is known."""


def figures(path):
    capture = read_capture(path)
    return capture_figures(capture.tables, capture.meta)


@pytest.fixture
def whole(export, made):
    """Two steps of one process: a launch, a graph, copies both ways, a memset, waits; a small copy before one."""
    for step in range(2):
        at, first = 10_000 * step, 10 * step
        export.range(at, at + 9_000, f"execute_context_0(0)_generation_{step}({step})")
        export.range(at + 10, at + 800, "preprocess")
        calls = (
            "cudaMemcpyAsync_v3020", "cudaMemsetAsync_v3020", "cudaLaunchKernel_v7000", "cudaGraphLaunch_v10000",
            "cudaMemcpyAsync_v3020", "cudaStreamSynchronize_v3020", "cuLaunchKernel",
        )  # fmt: skip
        for place, name in enumerate(calls, start=1):
            export.call(at + 100 * place, at + 100 * place + 50, name, correlation=first + place)
        export.copy(at + 1_000, at + 1_200, correlation=first + 1)
        device = {"deviceId": 0, "streamId": 7, "globalPid": made.global_pid(1001)}
        export.add(
            f"{PREFIX}MEMSET", start=at + 1_300, end=at + 1_400, correlationId=first + 2, bytes=8, **device
        )
        export.kernel(at + 2_000, at + 2_500, correlation=first + 3, name="ncclDevKernel_AllReduce")
        export.kernel(at + 2_500, at + 2_600, correlation=first + 7)
        export.add(f"{PREFIX}GRAPH_TRACE", start=at + 3_000, end=at + 3_800, correlationId=first + 4, **device)
        export.copy(at + 4_000, at + 4_100, correlation=first + 5, kind=2, src=2, dst=1, size=8)
        export.add(
            "PROFILER_OVERHEAD", start=at + 3_850, end=at + 3_900, globalTid=made.global_pid(1001) | 1001,
            nameId=export.text("Buffer flush"),
        )  # fmt: skip
    return export.path


@pytest.fixture
def cut(whole, tmp_path):
    def execute(statement):
        path = tmp_path / "cut.sqlite"
        path.write_bytes(whole.read_bytes())
        with closing(sqlite3.connect(path)) as database:
            database.execute(statement)
            database.commit()
        return path

    return execute


def totals(found):
    """Every number by its place; lists whose rows have names of their own are added up."""
    numbers = {}

    def walk(value, place, listed):
        if isinstance(value, dict):
            for key, item in value.items():
                walk(item, f"{place}.{key}", listed)
        elif isinstance(value, list):
            for item in value:
                walk(item, place, True)
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            numbers[place] = numbers.get(place, 0) + value

    walk(plain({name: getattr(found, name) for name in found.__dataclass_fields__ if name != "facts"}), "", False)
    return numbers


def test_no_figure_becomes_zero_whatever_table_or_column_is_gone(whole, cut):
    before, refused = totals(figures(whole)), []
    assert sum(value > 0 for value in before.values()) > 80
    for statement in CUTS:
        try:
            after = totals(figures(cut(statement)))
        except MeasurementError:
            refused.append(statement)
            continue
        zero = [place for place, value in before.items() if value > 0 and after.get(place) == 0]
        assert [place for place in zero if not any(part in place for part in ROWS_OF_THE_FILE)] == [], statement
    assert refused == []


@pytest.mark.parametrize(
    ("statement", "why"),
    [
        ("DROP TABLE StringIds", "none of its 14 calls has a name"),
        (f"ALTER TABLE {PREFIX}RUNTIME DROP COLUMN nameId", "none of its 14 calls has a name"),
        (f"DROP TABLE {PREFIX}RUNTIME", "the capture has no calls of CUDA"),
    ],
)
def test_waiting_calls_without_names_cannot_be_said(cut, statement, why):
    found = figures(cut(statement))
    assert (found.syncs, found.lacks.calls) == (None, why)
    assert [(own.launches, own.kernels, own.eager_kernels, own.eager_steps) for own in found.graphs] == [(None,) * 4]
    assert found.steps["graph_launches"].isna().all()
    for format_ in ("text", "md", "html"):
        assert why in " ".join(render_capture(found, format_, name="capture").split())
    assert '"syncs": null' in render_capture(found, "json", name="capture")


def test_the_whole_export_lacks_nothing(whole):
    found = figures(whole)
    assert found.phases["busy_ns"].notna().any()
    assert {name: getattr(found.lacks, name) for name in found.lacks.__dataclass_fields__} == dict.fromkeys(
        found.lacks.__dataclass_fields__
    )
    assert [(own.calls, own.item_like) for own in found.syncs] == [(2, 2)]


def test_some_calls_without_names_are_counted(cut):
    found = figures(cut("DELETE FROM StringIds WHERE value LIKE 'cudaStreamSynchronize%'"))
    assert found.syncs is None
    assert ("what 2 calls did", "the capture does not have their names") in {
        (own.question, own.because) for own in found.cannot_say
    }


def test_calls_of_a_trace_without_names(kineto, made):
    calls = [made.call(0, 1, "", 1), made.call(2, 1, "", 2)]
    found = figures(kineto([*calls, made.kernel(5, 2, 1), made.kernel(8, 2, 2)]))
    assert (found.syncs, found.lacks.calls) == (None, "none of its 2 calls has a name")
    assert [own.busy_ns for own in found.devices] == [4_000]


class TestOneKindOfWorkWithoutIds:
    def test_kernels(self, cut):
        found = figures(cut(f"ALTER TABLE {PREFIX}KERNEL DROP COLUMN correlationId"))
        assert found.lacks.kernel_calls == "none of its 4 kernels is tied to a call"
        assert {(own.gpu_ops, own.gpu_reason) for own in found.ranges} == {(None, found.lacks.kernel_calls)}
        assert [(own.launches, own.eager_kernels, own.unlinked_kernels) for own in found.graphs] == [(2, None, 4)]
        assert found.steps["busy_ns"].isna().all()
        assert len(found.phases) == 1
        assert found.phases["busy_ns"].isna().all()
        assert found.steps["copies"].tolist() == [2, 2]

    def test_memsets_asked_for_in_the_capture_of_a_graph_are_none(self, export):
        export.call(0, 1, "cudaStreamBeginCapture_v10000", correlation=1)
        export.call(2, 3, "cudaMemsetAsync_v3020", correlation=2)
        export.call(4, 5, "cudaStreamEndCapture_v10000", correlation=3)
        export.call(6, 7, "cudaLaunchKernel_v7000", correlation=4)
        export.kernel(10, 20, correlation=4)
        assert [(own.memsets, own.memset_union_ns) for own in figures(export.path).devices] == [(0, 0)]
