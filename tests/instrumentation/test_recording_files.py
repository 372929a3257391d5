"""Files of a Recording: one-line errors for bad ones, older versions, the writer, killed runs."""

import errno
import json
import os
import shutil

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from stepscope.errors import UsageError
from stepscope.instrumentation.probe import Ledger, Probe, segments
from stepscope.instrumentation.recording import (
    Diagnostic,
    ProcessKeys,
    Recording,
    RecordingMeta,
    RecordingWriter,
    upgrade,
)
from stepscope.instrumentation.recording.schema import KEYS, LEDGER_COLUMNS, SCHEMA_VERSION, TABLES

BASE = 2**60


def meta():
    process = ProcessKeys(host="box", pid=41, device="sim", clock_id="virtual")
    return RecordingMeta(source="lab", device="sim", modelled=True, calibration="h200", process=process)


def values(frame, column):
    return [None if value is pd.NA else value for value in frame[column].tolist()]


@pytest.fixture
def recording():
    edges = [(BASE, "consumer", 2, 1), (None, "event", BASE + 1, None)]
    return Recording.from_ledger({"steps": [_step(0, 10, 20), _step(1, 30, 45)], "edges": edges}, meta())


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    edges = [(BASE, "consumer", 2, 1)]
    return Recording.from_ledger({"edges": edges}, meta()).save(tmp_path_factory.mktemp("saved") / "r")


class TestBadFiles:
    @pytest.fixture
    def folder(self, saved, tmp_path):
        return shutil.copytree(saved, tmp_path / "r")

    def refuse(self, path, *parts):
        with pytest.raises(UsageError) as caught:
            Recording.load(path)
        message = str(caught.value)
        assert "\n" not in message
        for part in parts:
            assert part in message
        return message

    def test_no_folder(self, tmp_path):
        self.refuse(tmp_path / "none", "recording.json: no such file", "perf run")

    def test_wrong_json(self, folder):
        (folder / "recording.json").write_text('{"source": "lab",')
        self.refuse(folder, "recording.json: not valid JSON")
        (folder / "recording.json").write_bytes(b"\xff\xfe{}")
        self.refuse(folder, "recording.json: not valid JSON")
        (folder / "recording.json").write_text("[1, 2]")
        self.refuse(folder, "holds no JSON object")

    @pytest.mark.parametrize(
        ("change", "part"),
        [
            ({"source": 5}, "$.source"),
            ({"unknown": 1}, "unknown"),
            ({"process": {"pid": "x"}}, "$.process.pid"),
            ({"calibration": None}, "calibration"),
            ({"environment": {"colour": "red"}}, "colour"),
            ({"schema_version": "1"}, "schema_version is missing or no integer"),
            ({"schema_version": True}, "schema_version is missing or no integer"),
            ({"schema_version": -1}, "too old"),
        ],
    )
    def test_wrong_fields(self, folder, change, part):
        path = folder / "recording.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
        self.refuse(folder, str(path), part)

    def test_a_missing_time_of_writing_is_not_filled_in_by_the_reader(self, folder):
        path = folder / "recording.json"
        meta = json.loads(path.read_text())
        del meta["created"]
        path.write_text(json.dumps(meta))
        self.refuse(folder, str(path), "`created`")

    def test_a_newer_version(self, folder):
        path = folder / "recording.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), "schema_version": SCHEMA_VERSION + 6}))
        (folder / "spans.parquet").write_bytes(b"a format of the future")
        self.refuse(folder, f"schema_version {SCHEMA_VERSION + 6} is newer than {SCHEMA_VERSION}", "install a newer")

    @pytest.mark.parametrize("keep", [0, 3, 100, -1])
    def test_a_truncated_table(self, folder, keep):
        path = folder / "copies.parquet"
        path.write_bytes(path.read_bytes()[:keep])
        self.refuse(folder, "copies.parquet: not a readable Parquet file", "copy the recording again")

    def test_a_missing_table(self, folder):
        (folder / "waits.parquet").unlink()
        self.refuse(folder, "waits.parquet: no such file")

    def test_columns_missing_extra_and_of_another_type(self, folder):
        path = folder / "edges.parquet"
        table = pq.read_table(path)
        pq.write_table(table.drop_columns(["awaited"]), path)
        self.refuse(folder, "edges.parquet: column awaited is missing")
        pq.write_table(table.append_column("more", pa.nulls(len(table), pa.int64())), path)
        self.refuse(folder, "edges.parquet: column more is unknown")
        place = table.column_names.index("awaited")
        pq.write_table(table.set_column(place, "awaited", pa.array(["x"] * len(table))), path)
        self.refuse(folder, "edges.parquet: a column has the wrong type")
        twice = [*table.column_names, "awaited"]
        pq.write_table(pa.Table.from_arrays([*table.columns, table["awaited"]], twice), path)
        self.refuse(folder, "edges.parquet: column awaited stands in it twice")

    @pytest.mark.parametrize(("start", "end"), [("start_ns", "end_ns"), ("enqueue_start_ns", "enqueue_end_ns")])
    def test_rows_that_end_before_they_start(self, folder, start, end):
        path = folder / "copies.parquet"
        schema = pq.read_schema(path)
        rows = [{start: 7, end: 9}, {start: 5}, {start: 5, end: 4}]
        pq.write_table(pa.Table.from_pylist(rows, schema=schema), path)
        self.refuse(folder, f"copies.parquet: row 2 has an {end} before its {start}")
        pq.write_table(pa.Table.from_pylist(rows[:2], schema=schema), path)
        assert len(Recording.load(folder).table("copies")) == 2

    def test_unwritable_folders(self, recording, tmp_path):
        (tmp_path / "file").write_text("in the way")
        for write in (recording.save, lambda folder: RecordingWriter(folder, meta())):
            with pytest.raises(UsageError) as caught:
                write(tmp_path / "file" / "r")
            assert "cannot write here" in str(caught.value)
            assert "\n" not in str(caught.value)


def test_upgrade_from_a_planted_older_version(recording, tmp_path, monkeypatch):
    # GIVEN files of a version 0 that called the table `edges` `links` and the calibration `costs`
    folder = recording.save(tmp_path / "old")
    path = folder / "recording.json"
    old = json.loads(path.read_text())
    del old["calibration"]
    path.write_text(json.dumps({**old, "schema_version": 0, "costs": "h200"}))
    (folder / "edges.parquet").rename(folder / "links.parquet")

    def to_1(raw):
        content = {key: value for key, value in raw.meta.items() if key != "costs"}
        tables = {("edges" if name == "links" else name): table for name, table in raw.tables.items()}
        return upgrade.RawRecording({**content, "calibration": raw.meta["costs"]}, tables)

    monkeypatch.setitem(upgrade.UPGRADES, 0, to_1)
    # WHEN it is read
    loaded = Recording.load(folder)
    # THEN it is a recording of today that says where it came from
    assert loaded.meta.schema_version == SCHEMA_VERSION
    assert loaded.meta.calibration == "h200"
    assert loaded.meta.history[0] == "upgraded from schema 0 to 1"
    assert loaded.meta.history[-1] == f"upgraded from schema {SCHEMA_VERSION - 1} to {SCHEMA_VERSION}"
    assert loaded.table("edges").equals(recording.table("edges"))
    # and without the step it is refused
    monkeypatch.delitem(upgrade.UPGRADES, 0)
    with pytest.raises(UsageError, match="schema_version 0 is too old"):
        Recording.load(folder)


def test_a_recording_of_version_1_gains_the_columns_of_captures(recording, tmp_path):
    # GIVEN files as version 1 wrote them: without the columns that importers fill
    folder = recording.save(tmp_path / "old")
    path = folder / "recording.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "schema_version": 1, "diagnostics": []}))
    for name in ("spans", "copies", "phases"):
        table = pq.read_table(folder / f"{name}.parquet")
        kept = [*(key.name for key in KEYS), *(column.name for column in LEDGER_COLUMNS[name])]
        pq.write_table(table.select(kept), folder / f"{name}.parquet")
    # WHEN it is read
    loaded = Recording.load(folder)
    # THEN the columns are there, null and with a reason, and nothing else has changed
    assert loaded.table("phases")["origin"].isna().all()
    assert loaded.meta.reason("phases", "origin") == "only imported captures have it"
    assert loaded.table("spans")["start_ns"].equals(recording.table("spans")["start_ns"])


class TestWriter:
    def test_a_run_with_flushes_leaves_tables_only(self, tmp_path):
        ledger = Ledger()
        probe = Probe(ledger, _Clock(), level="host")
        writer = RecordingWriter(tmp_path, meta())
        for number in range(4):
            with probe.step(number) as step, step.phase("forward"):
                pass
            writer.write(ledger.take())
            writer.flush_if_due(number * 10**9)
        recording = writer.finish(Diagnostic("phases", "span_ns", "level host"))
        assert values(recording.table("steps"), "step") == [0, 1, 2, 3]
        assert recording.meta.reason("phases", "span_ns") == "level host"
        assert sorted(os.listdir(tmp_path)) == sorted([*(f"{name}.parquet" for name in TABLES), "recording.json"])
        assert Recording.load(tmp_path).meta == recording.meta

    def test_a_killed_run_is_read_from_its_segments(self, tmp_path):
        # GIVEN a writer that was never finished; its file lost the last bytes
        writer = RecordingWriter(tmp_path, meta())
        writer.write({"steps": [_step(0, 10, 20), _step(1, 30, 45)]})
        writer.write({"edges": [(1, "event", 5, 4)]})
        writer._segments.close()
        segment = tmp_path / "rows.seg"
        segment.write_bytes(segment.read_bytes()[:-5])
        recording = Recording.load(tmp_path)
        assert values(recording.table("steps"), "period_ns") == [20, None]
        assert len(recording.table("edges")) == 1
        (event,) = recording.meta.history
        assert event.startswith("the run was killed; ")

    def test_dropped_rows_are_told(self, tmp_path):
        writer = RecordingWriter(tmp_path, meta())
        writer._segments._capacity = 0
        writer.write({"steps": [_step(0, 10, 20)]})
        recording = writer.finish()
        assert recording.meta.reason("steps", "complete") == "1 rows were dropped while recording"

    def test_dropped_rows_of_a_killed_run_are_told_from_the_file(self, tmp_path):
        writer = RecordingWriter(tmp_path, meta())
        writer._segments._capacity = 0
        writer.write({"steps": [_step(0, 10, 20), _step(1, 30, 40)]})
        writer._segments.close()
        assert Recording.load(tmp_path).meta.reason("steps", "complete") == "2 rows were dropped while recording"

    def test_rows_that_a_full_disk_refused_are_told_though_the_file_cannot_say_so(self, tmp_path, monkeypatch):
        writer = RecordingWriter(tmp_path, meta())

        def full(fd, data, offset):
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(segments.os, "pwrite", full)
        writer.write({"steps": [_step(0, 10, 20)]})
        recording = writer.finish()
        assert recording.meta.reason("steps", "complete") == "1 rows were dropped while recording"

    def test_a_new_run_in_an_old_folder_hides_the_old_one(self, tmp_path, recording):
        recording.save(tmp_path)
        writer = RecordingWriter(tmp_path, meta())
        assert len(Recording.load(tmp_path).table("spans")) == 0
        writer.finish()

    def test_damaged_segments_are_refused(self, tmp_path):
        RecordingWriter(tmp_path, meta())._segments.close()
        (tmp_path / "rows.seg").write_bytes(b"something else")
        with pytest.raises(UsageError, match=r"rows\.seg: not a segment file"):
            Recording.load(tmp_path)
        (tmp_path / "rows.seg").unlink()
        with pytest.raises(UsageError, match=r"rows\.seg: cannot be read"):
            Recording.load(tmp_path)


class _Clock:
    def __init__(self):
        self.time = BASE

    def now_ns(self):
        self.time += 10
        return self.time

    def leave(self, name):
        return self.now_ns()


def _step(number, start_ns, end_ns):
    return (number, start_ns, end_ns, *([None] * 24), False, True)


SPECULATION = ("drafted_reqs", "drafted_tokens", "accepted_tokens")


def test_a_recording_of_version_2_does_not_say_what_was_drafted(recording, tmp_path):
    folder = recording.save(tmp_path / "old")
    path = folder / "recording.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "schema_version": 2, "diagnostics": []}))
    table = pq.read_table(folder / "steps.parquet")
    pq.write_table(table.drop_columns(list(SPECULATION)), folder / "steps.parquet")
    loaded = Recording.load(folder)
    assert loaded.table("steps")["accepted_tokens"].isna().all()
    assert loaded.meta.reason("steps", "accepted_tokens") == "recordings before version 3 do not say what was drafted"
    assert loaded.table("steps")["warmup"].equals(recording.table("steps")["warmup"])


def test_rows_of_a_killed_run_of_version_2_are_padded_before_their_flags():
    rows = {"steps": [(7, 100, 200, "figure", False, True)], "spans": [(7, "lane")]}
    assert upgrade.upgrade_rows(2, rows) == {
        "steps": [(7, 100, 200, "figure", None, None, None, False, True)], "spans": [(7, "lane")],
    }
    assert upgrade.upgrade_rows(SCHEMA_VERSION, rows) == rows
