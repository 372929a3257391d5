"""nsys exports: lazy tables, version suffixes, re-cut subsets, names, domains, diagnostics, and what is no export."""

import sqlite3
from contextlib import closing
from itertools import islice

import numpy as np
import pytest
from stepscope.errors import MeasurementError, UsageError
from stepscope.instrumentation.sources import read_capture
from stepscope.instrumentation.sources.arrays import ABSENT
from stepscope.instrumentation.sources.nsys.database import Database
from stepscope.instrumentation.sources.nsys.export import read_export
from stepscope.instrumentation.sources.trace import DIRECTIONS, MEMORIES


def spans(path, kind=None):
    rows = read_capture(path).tables["spans"].to_pylist()
    return [row for row in rows if kind is None or row["kind"] == kind]


class TestTables:
    """Case 24."""

    def test_kernels_alone_are_a_capture(self, export):
        export.kernel(0, 40_000)
        export.kernel(50_000, 80_000, name="norm")
        trace = read_export(export.path)
        assert int((trace.device.end - trace.device.start).sum()) == 70_000
        assert trace.absent == ("copies", "calls", "ranges")

    def test_suffixes_of_any_version_are_read(self, export):
        export.kernel(10_000, 60_000, correlation=1, named="CUPTI_ACTIVITY_KIND_KERNEL_V3")
        export.range(0, 100_000, "forward", named="NVTX_EVENTS_V2")
        trace = read_export(export.path)
        assert (len(trace.device), trace.names[trace.host.name[0]]) == (1, "forward")

    def test_the_highest_version_counts(self, export):
        export.kernel(0, 1)
        export.kernel(0, 10, named="CUPTI_ACTIVITY_KIND_KERNEL_V2")
        export.kernel(0, 100, named="CUPTI_ACTIVITY_KIND_KERNEL_V11")
        assert read_export(export.path).device.end.tolist() == [100]

    def test_calls_without_kernels_end_with_the_reason(self, export):
        export.call(0, 10, "cudaLaunchKernel_v7000", correlation=1)
        with pytest.raises(MeasurementError, match=r"no GPU kernels.*1 calls of CUDA") as raised:
            read_capture(export.path)
        assert raised.value.exit_code == 3

    def test_the_reason_is_nsys_own_where_it_gives_one(self, export):
        export.call(0, 10, "cudaLaunchKernel_v7000", correlation=1)
        export.add("DIAGNOSTIC_EVENT", severity=2, text="No CUDA events collected. Does the process use CUDA?")
        with pytest.raises(MeasurementError, match="nsys: no CUDA events were collected"):
            read_capture(export.path)

    def test_ranges_alone_are_a_capture(self, export):
        export.range(0, 100, "forward")
        assert len(read_capture(export.path).tables["spans"]) == 1

    def test_named_columns_only(self, export):
        # GIVEN a table with the columns in another order, some of the user's own, and few of nsys'
        export.add(
            "CUPTI_ACTIVITY_KIND_MEMCPY", columns="kernel_name bytes copyKind streamId deviceId end start",
            kernel_name=9, bytes=64, copyKind=1, streamId=7, deviceId=0, end=30, start=10,
        )  # fmt: skip
        trace = read_export(export.path)
        assert (trace.copies.start.tolist(), trace.copies.end.tolist()) == ([10], [30])
        assert DIRECTIONS[trace.copies.direction[0]] == "h2d"
        assert MEMORIES[trace.copies.src_kind[0]] == "unknown"

    def test_rows_without_a_process_belong_to_the_only_one(self, export):
        export.add("CUPTI_ACTIVITY_KIND_KERNEL", columns="start end deviceId streamId correlationId", start=5, end=9,
                   deviceId=0, streamId=7, correlationId=3)  # fmt: skip
        export.call(0, 2, "cudaLaunchKernel_v7000", correlation=3, pid=41)
        (kernel,) = spans(export.path, "kernel")
        assert kernel["pid"] == 41

    def test_rows_without_usable_times_are_left_out_and_counted(self, export):
        export.kernel(10, 20)
        export.kernel(0, 0)
        export.kernel(30, 25)
        export.kernel(None, 25)
        trace = read_export(export.path)
        assert trace.device.start.tolist() == [10]
        assert trace.facts["invalid_rows"] == {"CUPTI_ACTIVITY_KIND_KERNEL": 3}

    def test_values_of_another_type_are_no_integers(self, export):
        # GIVEN a column without a type, as re-cut files have them
        export.add("CUPTI_ACTIVITY_KIND_KERNEL", columns="start end deviceId name", start=1, end=5, deviceId=0)
        export._connection.execute("ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL ADD COLUMN streamId BLOB")
        export._connection.execute("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (7, 9, 0, 'x', '12')")
        export._connection.execute("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (10, 12, 0, 'x', 3.5)")
        export._connection.execute("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES ('soon', 12, 0, 'x', 'y\nz')")
        export._connection.commit()
        assert [row["lane"] for row in spans(export.path)] == ["gpu:unknown", "gpu:12", "gpu:unknown"]


    @pytest.mark.parametrize("options", ["", " WITHOUT ROWID"])
    def test_whole_numbers_that_became_floats_are_numbers(self, tmp_path, options):
        # GIVEN a table that went through pandas, which makes floats of a column with a null in it
        path = tmp_path / "pandas.sqlite"
        threads = [281_476_838_981_743, None, 5, 1.5, 2**53, float("inf"), -7]
        with closing(sqlite3.connect(path)) as made:
            made.execute(f"CREATE TABLE {RUNTIME} (start INTEGER PRIMARY KEY, globalTid REAL, name){options}")
            rows = [(row, None if value is None else float(value), float(row)) for row, value in enumerate(threads)]
            made.executemany(f"INSERT INTO {RUNTIME} VALUES (?, ?, ?)", rows)
            made.execute("CREATE TABLE plain AS SELECT globalTid, name FROM " + RUNTIME)
            made.commit()
        for table in (RUNTIME, "plain"):
            with closing(Database(path)) as database:
                found = database.integers(table, "globalTid", "name")
            assert found["globalTid"].tolist() == [281_476_838_981_743, ABSENT, 5, ABSENT, ABSENT, ABSENT, -7]
            assert found["name"].tolist() == list(range(7))


RUNTIME = "CUPTI_ACTIVITY_KIND_RUNTIME"


class TestRanges:
    def test_names_come_from_text_or_from_registered_strings(self, export):
        export.range(0, 10, "by text")
        export.range(20, 30, "by id", registered=True)
        export.range(40, 50, "aten::view, op_id = 314290")
        assert [row["name"] for row in spans(export.path)] == ["by text", "by id", "aten::view"]

    def test_domains_count_within_a_process(self, export, made):
        for pid, name in ((1, "stepscope"), (2, "CCCL")):
            tid = made.global_pid(pid) | pid
            export.add("NVTX_EVENTS", start=0, eventType=75, text=name, domainId=1, globalTid=tid)
            export.range(5, 10, "step", pid=pid, domain=1)
        export.range(20, 30, "plain", pid=1)
        assert [(row["name"], row["domain"]) for row in spans(export.path)] == [
            ("step", "stepscope"), ("step", "CCCL"), ("plain", None),
        ]  # fmt: skip

    def test_open_ranges_end_with_the_capture_and_are_counted(self, export):
        export.range(0, 100, "whole")
        export.range(50, None, "open", type_=60)
        capture = read_capture(export.path)
        assert capture.tables["spans"]["end_ns"].to_pylist() == [100, 100]
        assert "1 ranges that never closed end with the capture" in capture.meta.reason("spans", "end_ns")

    def test_an_open_range_holds_the_work_that_was_launched_in_it_until_the_end(self, export):
        # GIVEN a range that a killed process never closed, and no other one
        export.range(0, None, "forward")
        export.call(2_000, 2_500, "cudaLaunchKernel_v7000", correlation=1)
        export.kernel(3_000, 8_000, correlation=1)
        (row,) = spans(export.path, "range")
        assert (row["start_ns"], row["end_ns"]) == (0, 8_000)

    def test_marks_and_names_are_no_ranges(self, export):
        export.range(0, 100, "range")
        export.range(5, None, "mark", type_=34)
        export.range(6, None, "thread name", type_=39)
        assert [row["name"] for row in spans(export.path)] == ["range"]

    def test_depth_is_that_of_the_thread(self, export):
        export.range(0, 100, "outer")
        export.range(10, 40, "inner")
        export.range(20, 30, "innermost")
        export.range(15, 35, "elsewhere", tid=5)
        assert {row["name"]: row["depth"] for row in spans(export.path)} == {
            "outer": 0, "inner": 1, "innermost": 2, "elsewhere": 0,
        }  # fmt: skip


def test_calls_lose_their_version_suffix(export):
    export.call(0, 5, "cudaMemcpyAsync_ptsz_v7000", correlation=1)
    export.call(6, 9, "cudaStreamGetCaptureInfo_v2_v11030", correlation=2)
    export.copy(1, 4, correlation=1)
    assert [row["name"] for row in spans(export.path, "api")] == ["cudaMemcpyAsync", "cudaStreamGetCaptureInfo_v2"]


def test_graph_nodes_link_to_their_launch(export):
    export.call(0, 5, "cudaGraphLaunch_v10000", correlation=9)
    export.kernel(10, 20, correlation=9, node=77)
    export.kernel(20, 30, correlation=9, node=78)
    kernels = spans(export.path, "kernel")
    assert [(row["graph_node"], row["correlation"]) for row in kernels] == [(77, 9), (78, 9)]


class TestNotAnExport:
    @pytest.mark.parametrize(
        ("content", "message"),
        [
            (b"this is not a database at all", "not an nsys SQLite export"),
            (b"", "the file is empty"),
            (b"version https://git-lfs.github.com/spec/v1\noid sha256:0", "pointer of Git LFS"),
            (b"SQLite format 3\x00" + b"\xff" * 200, "damaged or no SQLite database"),
        ],
    )
    def test_files_of_other_kinds(self, tmp_path, content, message):
        path = tmp_path / "x.sqlite"
        path.write_bytes(content)
        with pytest.raises(UsageError, match=message) as raised:
            read_capture(path)
        assert "\n" not in str(raised.value)

    def test_a_database_of_something_else(self, tmp_path):
        path = tmp_path / "other.sqlite"
        connection = sqlite3.connect(path)
        connection.execute("CREATE TABLE people (name)")
        connection.commit()
        connection.close()
        with pytest.raises(UsageError, match="not an nsys SQLite export"):
            read_capture(path)

    def test_a_missing_file(self, tmp_path):
        with pytest.raises(UsageError, match="no such file"):
            read_capture(tmp_path / "nothing.sqlite")


class TestBulk:
    def test_columns_come_in_blocks_with_nulls(self, tmp_path, monkeypatch):
        from stepscope.instrumentation.sources.nsys import database as module

        monkeypatch.setattr(module, "_ROWS_AT_ONCE", 7)
        path = tmp_path / "t.sqlite"
        connection = sqlite3.connect(path)
        connection.execute("CREATE TABLE t (a INTEGER, b INTEGER)")
        rows = [(n if n % 3 else None, -(2**62) + n) for n in range(50)]
        connection.executemany("INSERT INTO t VALUES (?, ?)", rows)
        connection.execute("DELETE FROM t WHERE b % 5 = 0")
        connection.commit()
        wanted = connection.execute("SELECT a, b FROM t ORDER BY rowid").fetchall()
        connection.close()
        found = Database(path).integers("t", "a", "b", "c")
        assert found["b"].tolist() == [b for _, b in wanted]
        assert found["a"].tolist() == [np.iinfo(np.int64).min if a is None else a for a, _ in wanted]
        assert set(found["c"].tolist()) == {np.iinfo(np.int64).min}


class TestTablesWithoutRowNumbers:
    """Views, and tables made WITHOUT ROWID: read through a copy that has an order."""

    @pytest.fixture
    def filled(self, export):
        for n in range(5):
            export.range(100 * n, 100 * n + 50, f"range {n}", registered=n % 2 == 0)
            export.kernel(100 * n, 100 * n + 10, correlation=n + 1)
        export.kernel(None, 7)
        return export

    def test_they_give_the_same_rows(self, filled):
        wanted = read_capture(filled.path).tables
        for table in ("NVTX_EVENTS", "CUPTI_ACTIVITY_KIND_KERNEL"):
            run = filled._connection.execute
            run(f"ALTER TABLE {table} RENAME TO moved_{table}")
            run(f"CREATE VIEW {table} AS SELECT * FROM moved_{table}")
        filled._connection.commit()
        assert all(table.equals(wanted[name]) for name, table in read_capture(filled.path).tables.items())
        for table in ("NVTX_EVENTS", "CUPTI_ACTIVITY_KIND_KERNEL"):
            columns = [row[1] for row in run(f"PRAGMA table_info({table})")]
            run(f"DROP VIEW {table}")
            run(f"CREATE TABLE {table} (place INTEGER PRIMARY KEY, {', '.join(columns)}) WITHOUT ROWID")
            run(f"INSERT INTO {table} SELECT rowid, * FROM moved_{table}")
        filled._connection.commit()
        assert all(table.equals(wanted[name]) for name, table in read_capture(filled.path).tables.items())


def test_row_numbers_that_go_back_are_damage_and_no_endless_reading(tmp_path):
    # GIVEN a table of several pages whose last row has the number 0
    path = tmp_path / "t.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA page_size = 512")
        connection.execute("CREATE TABLE t (a, b)")
        connection.executemany("INSERT INTO t VALUES (?, ?)", [(n, "x" * 40) for n in range(36)])
        connection.commit()
    content = bytearray(path.read_bytes())
    last_page = max(page for page in range(0, len(content), 512) if content[page] == 13)
    cells = int.from_bytes(content[last_page + 3 : last_page + 5], "big")
    pointer = last_page + 8 + 2 * (cells - 1)
    cell = last_page + int.from_bytes(content[pointer : pointer + 2], "big")
    assert content[cell + 1] == 36
    content[cell + 1] = 0
    path.write_bytes(content)
    # WHEN it is read by SQLite, block after block, THEN it is refused instead of begun again
    with pytest.raises(sqlite3.DatabaseError, match="do not ascend"):
        list(islice(Database(path)._blocks('"t"', ['"a"']), 10))


def test_thousands_of_processes_take_no_longer_than_few(export, made):
    """A damaged column: every row of a process and on a device of its own."""
    export.kernel(5, 6)
    rows = [(10 * n, 10 * n + 5, n, made.global_pid(n % 60_000)) for n in range(20_000)]
    export._connection.executemany(
        "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId, globalPid) VALUES (?, ?, ?, ?)", rows
    )
    export._connection.commit()
    trace = read_export(export.path)
    assert (len(trace.processes), len(trace.devices)) == (20_000, 20_000)
