"""A Recording in memory and on disk: exact values, types, keys, meta."""


import msgspec
import numpy as np
import pandas as pd
import pytest
from stepscope.errors import UsageError
from stepscope.instrumentation.probe import Ledger
from stepscope.instrumentation.recording import (
    Diagnostic,
    ProcessKeys,
    Recording,
    RecordingMeta,
    RecordingWriter,
    SweepKeys,
)
from stepscope.instrumentation.recording.schema import KEYS, SWEEP_KEYS, TABLES

BASE = 2**60
SAMPLE = {"float64": 0.1, "string": "text", "bool": True}


def meta(**changes):
    values = {"source": "lab", "device": "sim", "modelled": True, "calibration": "h200"}
    values["process"] = ProcessKeys(host="box", pid=41, device="sim", clock_id="virtual")
    return RecordingMeta(**{**values, **changes})


def full_rows():
    """Three rows a table: all values at 2**60 and beyond, every second value null, all null."""
    rows = {}
    for table, columns in TABLES.items():
        numbers = range(BASE, BASE + len(columns))
        whole = [SAMPLE.get(column.type, number) for column, number in zip(columns, numbers, strict=True)]
        halves = [value if place % 2 else None for place, value in enumerate(whole)]
        rows[table] = [(BASE - 1, *whole), (0, *halves), (None, *([None] * len(whole)))]
    rows["steps"] = [row for row in rows["steps"] if row[1] is not None]  # a step always has its times
    return rows


def values(frame, column):
    return [None if value is pd.NA else value for value in frame[column].tolist()]


@pytest.fixture
def recording():
    return Recording.from_ledger(full_rows(), meta())


class TestExactness:
    def check(self, recording, derived=True):
        for table, rows in full_rows().items():
            frame = recording.table(table)
            keep = range(len(rows))
            for place, column in enumerate(TABLES[table], start=1):
                got = [values(frame, column.name)[row] for row in keep]
                assert got == [rows[row][place] for row in keep], (table, column.name)
            assert [values(frame, "step")[row] for row in keep] == [rows[row][0] for row in keep]
            assert set(values(frame, "pid")) <= {41}
            assert set(values(frame, "rank")) <= {None}

    def test_base_2_60_with_nulls_in_memory(self, recording):
        self.check(recording)

    def test_base_2_60_with_nulls_through_files(self, recording, tmp_path):
        recording.save(tmp_path / "r")
        self.check(Recording.load(tmp_path / "r"))

    def test_base_2_60_with_nulls_through_segments(self, tmp_path):
        writer = RecordingWriter(tmp_path / "r", meta())
        writer.write(full_rows())
        self.check(writer.finish())
        self.check(Recording.load(tmp_path / "r" / "recording.json"))

    def test_every_column_is_nullable_and_int64_stays_integer(self, recording):
        expected = {"int64": pd.Int64Dtype(), "float64": pd.Float64Dtype(), "bool": pd.BooleanDtype()}
        for table, columns in TABLES.items():
            frame = recording.table(table)
            assert list(frame.columns) == [column.name for column in (*KEYS, *columns)]
            for column in (*KEYS, *columns):
                dtype = frame[column.name].dtype
                if column.type == "string":
                    assert pd.api.types.is_string_dtype(dtype)
                else:
                    assert dtype == expected[column.type], (table, column.name)

    def test_arithmetic_beside_nulls_stays_exact(self, recording):
        spans = recording.table("spans")
        assert values(spans.assign(d=spans["end_ns"] - spans["start_ns"]), "d") == [1, None, None]
        assert values(spans.assign(d=spans["start_ns"] + 1), "d")[0] == spans["start_ns"].iloc[0] + 1

    def test_numpy_values_in_rows(self):
        rows = {"waits": [(np.int64(BASE + 1), "host:main", "tokens", np.int32(4), np.int64(BASE + 3), None)]}
        waits = Recording.from_ledger(rows, meta()).table("waits")
        assert values(waits, "step") == [BASE + 1]
        assert values(waits, "start_ns") == [BASE + 3]


def test_a_row_that_does_not_fit_names_its_column():
    with pytest.raises(ValueError, match=r"edges: a row does not have 4 values"):
        Recording.from_ledger({"edges": [(0, "consumer", 1)]}, meta())
    with pytest.raises(ValueError, match=r"edges\.awaited"):
        Recording.from_ledger({"edges": [(0, "consumer", 1, "two")]}, meta())
    with pytest.raises(ValueError, match=r"edges\.awaited"):
        Recording.from_ledger({"edges": [(0, "consumer", 1, 2**63)]}, meta())


def test_an_empty_ledger_has_all_tables():
    recording = Recording.from_ledger(Ledger(), meta())
    assert {name: len(recording.table(name)) for name in TABLES} == dict.fromkeys(TABLES, 0)
    assert recording.table("steps")["start_ns"].dtype == pd.Int64Dtype()
    assert recording.meta.diagnostics == ()


def test_columns_added_to_a_table_stay_with_the_caller(recording):
    steps = recording.table("steps")
    steps["mine"] = 1
    assert "mine" not in recording.table("steps")


def test_an_unknown_table():
    with pytest.raises(UsageError, match="no table 'stepz'"):
        Recording.from_ledger(Ledger(), meta()).table("stepz")


def test_sweep_keys_stand_behind_the_keys(tmp_path):
    sweep = SweepKeys(point="p1", launch=2, arm="first", order=0)
    recording = Recording.from_ledger(full_rows(), meta(sweep=sweep))
    recording.save(tmp_path)
    steps = Recording.load(tmp_path).table("steps")
    assert list(steps.columns[: len(KEYS) + len(SWEEP_KEYS)]) == [key.name for key in (*KEYS, *SWEEP_KEYS)]
    assert steps[["point", "launch", "arm", "order"]].iloc[0].tolist() == ["p1", 2, "first", 0]
    assert values(steps, "pair") == [None] * len(steps)


def test_from_frames_fills_what_is_absent(tmp_path):
    # GIVEN an importer that knows two columns of one table, with plain pandas types
    frames = {"spans": pd.DataFrame({"name": ["a", None], "start_ns": pd.array([BASE + 1, None], dtype="Int64")})}
    recording = Recording.from_frames(frames, meta(source="nsys", device="cuda", modelled=False, calibration=None))
    recording.save(tmp_path)
    spans = Recording.load(tmp_path).table("spans")
    assert values(spans, "start_ns") == [BASE + 1, None]
    assert values(spans, "name") == ["a", None]
    assert values(spans, "lane") == [None, None]
    assert recording.meta.reason("spans", "lane") == "not recorded by source nsys"
    with pytest.raises(ValueError, match="the schema has no column 'nome'"):
        Recording.from_frames({"spans": pd.DataFrame({"nome": [1]})}, recording.meta)
    with pytest.raises(ValueError, match="no table 'span'"):
        Recording.from_frames({"span": pd.DataFrame()}, recording.meta)


class TestMeta:
    def test_round_trip(self, tmp_path):
        original = meta(
            environment={"gpu_name": "H200", "cpu_count": 2, "gpu_mig": None},
            configuration={"runner": {"capture_sizes": [1, 2], "x": None, "f": 0.1}},
            diagnostics=(Diagnostic("steps", "num_reqs", "why"),),
            history=("made",),
        )
        Recording.from_ledger(Ledger(), original).save(tmp_path)
        assert Recording.load(tmp_path).meta == original

    def test_modelled_names_its_calibration(self):
        with pytest.raises(ValueError, match="names its calibration"):
            meta(calibration=None)

    @pytest.mark.parametrize(
        ("environment", "message"),
        [({"colour": "red"}, "unknown key 'colour'"), ({"cpu_count": "2"}, "cpu_count is str, not int")],
    )
    def test_environment_keys_are_registered(self, environment, message):
        with pytest.raises(ValueError, match=message):
            meta(environment=environment)

    def test_every_null_has_a_reason(self, recording):
        for name in TABLES:
            frame = recording.table(name)
            for column in TABLES[name]:
                if frame[column.name].isna().any():
                    assert recording.meta.reason(name, column.name), (name, column.name)

    def test_a_reason_that_was_given_is_kept(self):
        given = meta(diagnostics=(Diagnostic("steps", "kv_tokens_max", "the model has no KV cache"),))
        rows = {"steps": [(0, 1, 2, *([None] * 24), False, True)]}
        assert Recording.from_ledger(rows, given).meta.reason("steps", "kv_tokens_max") == "the model has no KV cache"


def test_meta_is_frozen():
    with pytest.raises(AttributeError):
        meta().source = "x"
    assert msgspec.json.decode(msgspec.json.encode(meta()), type=RecordingMeta).source == "lab"


def test_floats_are_refused_where_integers_are_wanted():
    # GIVEN times that an importer let through float64: 2**60 + 1 is 2**60 by now
    spans = pd.DataFrame({"name": ["k"], "start_ns": [float(BASE + 1)]})
    # THEN the recording does not take them
    with pytest.raises(ValueError, match=r"spans\.start_ns: holds float64 where int64 is wanted"):
        Recording.from_frames({"spans": spans}, meta())
    # but a column without any value may have any type
    nothing = pd.DataFrame({"name": ["k"], "start_ns": [float("nan")]})
    assert Recording.from_frames({"spans": nothing}, meta()).table("spans")["start_ns"].isna().all()
