"""Kineto traces: exact times, both dialects, categories, several ranks, files that are cut or no JSON."""

import gzip
import json

import pytest
from stepscope.errors import MeasurementError, UsageError
from stepscope.instrumentation.sources import CaptureOptions, read_capture
from stepscope.instrumentation.sources.kineto import cutting
from stepscope.instrumentation.sources.kineto.collect import copy_kinds
from stepscope.instrumentation.sources.kineto.numbers import nanoseconds
from stepscope.instrumentation.sources.trace import DIRECTIONS, MEMORIES

SALVAGE = CaptureOptions(salvage=True)


def spans(path, kind="kernel", options=None):
    return [row for row in read_capture(path, options).tables["spans"].to_pylist() if row["kind"] == kind]


class TestTimes:
    def test_digits_are_moved_not_rounded(self):
        tokens = ["1712195495519689.047", 1712195495519689, "0.2", "1614800519473300.8", "1e3", "-0.001", "7"]
        assert nanoseconds(tokens).tolist() == [
            1712195495519689047, 1712195495519689000, 200, 1614800519473300800, 1000000, -1, 7000,
        ]  # fmt: skip

    def test_what_is_no_time_is_absent(self):
        absent = nanoseconds([None])[0]
        for token in (None, True, "soon", [1], "1e30", 1 << 70, "NaN", "Infinity", ""):
            assert nanoseconds([token, "1.5"]).tolist() == [absent, 1500]
            assert nanoseconds([token]).tolist() == [absent]

    @pytest.mark.parametrize("gone", ["ts", "dur"])
    @pytest.mark.parametrize("category", ["gpu_memcpy", "gpu_memset", "kernel", "cuda_runtime", "cpu_op", "overhead"])
    def test_a_category_without_any_usable_time(self, kineto, made, gone, category):
        events = [
            made.call(100, 5, "cudaMemcpyAsync", 1), made.copy(110, 9, "HtoD (Pinned -> Device)", correlation=1),
            made.kernel(130, 40, 2), made.event("gpu_memset", "Memset (Device)", 180, 4, device=0, stream=7),
            made.event("cpu_op", "aten::to", 90, 40), made.event("overhead", "Buffer Flush", 90, 2),
        ]  # fmt: skip
        for event in events:
            if event["cat"] == category:
                del event[gone]
        capture = read_capture(kineto(events))
        assert capture.meta.configuration["invalid_rows"] == {category: 1}
        assert sum(table.num_rows for table in capture.tables.values()) == len(events) - 1

    def test_true_and_false_are_no_times_among_ints(self):
        absent = nanoseconds([None])[0]
        assert nanoseconds([5, True, False, 1, 0]).tolist() == [5_000, absent, absent, 1_000, 0]
        assert nanoseconds([5, "7", "1.5"]).tolist() == [5_000, 7_000, 1_500]
        assert nanoseconds([5, 1 << 70]).tolist() == [5_000, absent]

    def test_zero_negative_and_short_durations(self, kineto, made):
        """Case 32."""
        path = kineto([
            made.kernel(0, 0, name="zero_ts"), made.kernel(1614800519473220, 10, name="ok"),
            made.kernel(1614800519473250, -1, name="neg"), made.kernel(1614800519473300.8, 0.2, name="submicro"),
            made.kernel(1614800519473400, 0, name="dur0"),
        ])  # fmt: skip
        capture = read_capture(path)
        rows = [row for row in capture.tables["spans"].to_pylist() if row["kind"] == "kernel"]
        assert [(row["name"], row["end_ns"] - row["start_ns"]) for row in rows] == [
            ("ok", 10_000), ("submicro", 200), ("dur0", 0),
        ]  # fmt: skip
        assert rows[-1]["end_ns"] - rows[0]["start_ns"] == 180_000
        assert capture.meta.configuration["invalid_rows"] == {"kernel": 2}

    def test_ranks_have_bases_of_their_own(self, kineto, made):
        """Case 35."""
        base = 1720000000000000000
        events = [made.event("cpu_op", "step", 90, 100), made.call(103.0, 6.0, "cudaLaunchKernel", 1)]
        paths = [
            kineto([*events, made.kernel(100.0 + n / 1000, 10.0, 1)], f"rank{n}.json",
                   baseTimeNanoseconds=base + n * 1_600_000, distributedInfo={"rank": n, "world_size": 2})
            for n in (0, 1)
        ]  # fmt: skip
        capture = read_capture(paths)
        rows = [row for row in capture.tables["spans"].to_pylist() if row["kind"] == "kernel"]
        assert [(row["rank"], row["start_ns"] - base) for row in rows] == [(0, 100_000), (1, 1_700_001)]

    def test_what_was_left_out_is_counted_over_all_ranks(self, kineto, made):
        # GIVEN two ranks, the second with the worse damages, and another base
        broken = [made.kernel(1, -1), made.kernel(2, -1)]
        whole = [made.call(0, 1, "cudaLaunchKernel", 1), made.kernel(5, 1, 1)]
        paths = [
            kineto(whole + broken[: 1 + n] + [made.event("cpu_op", "op", 3, -1)], f"{n}.json",
                   distributedInfo={"rank": n}, baseTimeNanoseconds=10**18 + n)
            for n in (0, 1)
        ]  # fmt: skip
        paths[1].write_bytes(paths[1].read_bytes()[: -len("}]}")])
        capture = read_capture(paths, SALVAGE)
        told = capture.meta.configuration
        assert (told["invalid_rows"], told["truncated"]) == ({"kernel": 3, "cpu_op": 1}, True)
        assert "base_time_ns" not in told
        reasons = [note.reason for note in capture.meta.diagnostics if "left out" in note.reason]
        assert reasons == [
            "1 events of category cpu_op without usable times were left out",
            "1 events of category kernel without usable times were left out",
            "2 events of category kernel without usable times were left out",
        ]

    def test_the_gpu_of_one_rank_is_not_told_of_all(self, kineto, made):
        events = [made.call(0, 1, "cudaLaunchKernel", 1), made.kernel(5, 1, 1)]
        paths = [
            kineto(events, f"{name}.json", deviceProperties=[{"id": 0, "name": name, "totalGlobalMem": 80}])
            for name in ("A100", "H200")
        ]  # fmt: skip
        assert read_capture(paths).meta.environment == {"gpu_memory_bytes": 80, "gpu_count": 1}

    def test_a_damage_that_ranks_share_is_told_of_all(self, kineto, made):
        events = [made.call(0, 1, "cudaLaunchKernel", 1), made.kernel(5, 1, 1), made.kernel(1, -1)]
        capture = read_capture([kineto(events, f"{n}.json", distributedInfo={"rank": n}) for n in (0, 1, 2)])
        assert capture.meta.configuration["invalid_rows"] == {"kernel": 3}
        assert "1 events of category kernel without usable times were left out, in each of 3 files" in [
            note.reason for note in capture.meta.diagnostics
        ]

    def test_files_that_do_not_say_their_rank_stay_apart(self, kineto, made):
        call = made.call(0, 1, "cudaLaunchKernel", 1)
        paths = [kineto([call, made.kernel(5, 1 + n, 1)], f"{n}.json") for n in (0, 1)]
        hosts = [row["host"] for row in read_capture(paths).tables["spans"].to_pylist() if row["kind"] == "kernel"]
        assert hosts == ["file 1", "file 2"]


class TestCategories:
    def test_only_work_of_the_device_is_work(self, kineto, made):
        path = kineto([
            made.kernel(0, 10), made.event("cuda_sync", "Stream Sync", 0, 500, pid=0, tid=7, stream=7),
            made.event("gpu_user_annotation", "step", 0, 500, pid=0, tid=7),
            made.event("cpu_op", "triton_", 0, 500, device=0, stream=7), made.event("python_function", "f", 0, 500),
            made.event("Trace", "PyTorch Profiler (0)", 0, 500, pid="Spans", tid="PyTorch Profiler"),
            {"ph": "f", "cat": "ac2g", "id": 1, "pid": 0, "tid": 7, "ts": 1, "name": "ac2g", "bp": "e"},
        ])  # fmt: skip
        rows = read_capture(path).tables["spans"].to_pylist()
        assert [(row["kind"], row["name"]) for row in rows] == [("op", "triton_"), ("kernel", "gemm")]

    def test_the_dialect_of_2021(self, kineto, made):
        path = kineto([
            made.event("Operator", "ProfilerStep#1", 0, 90, tid="4242"),
            made.event("Runtime", "cudaLaunchKernel", 5, 5, correlation=3, **{"external id": 2}),
            made.event("Kernel", "gemm", 20, 10, pid=0, tid="stream 7", device=0, correlation=3),
            made.event("Memcpy", "Memcpy HtoD (Pageable -> Device)", 40, 5, pid=0, tid="stream 7", bytes=8),
        ])  # fmt: skip
        capture = read_capture(path)
        (kernel,) = [row for row in capture.tables["spans"].to_pylist() if row["kind"] == "kernel"]
        assert (kernel["lane"], kernel["device"], kernel["step"]) == ("gpu:7", "0", 0)
        (copy,) = capture.tables["copies"].to_pylist()
        assert (copy["direction"], copy["src_kind"], copy["lane"]) == ("h2d", "pageable", "gpu:7")

    @pytest.mark.parametrize(
        ("name", "wanted"),
        [
            ("Memcpy HtoD (Pinned -> Device)", ("h2d", "pinned", "device")),
            ("Memcpy DtoH (Device -> Pageable)", ("d2h", "device", "pageable")),
            ("memcpy htod (PINNED -> DEVICE)", ("h2d", "pinned", "device")),
            ("Memcpy HtoD (Host -> Device)", ("h2d", "unknown", "device")),
            ("Memcpy DtoD (Device Static -> Managed Static)", ("d2d", "device_static", "managed_static")),
            ("Memcpy PtoP (Device -> Device)", ("p2p", "device", "device")),
            ("Memcpy", ("unknown", "unknown", "unknown")),
        ],
    )
    def test_kinds_of_memory_stand_in_the_name(self, name, wanted):
        direction, source, target = copy_kinds(name)
        assert (DIRECTIONS[direction], MEMORIES[source], MEMORIES[target]) == wanted

    def test_a_trace_of_the_host_alone_has_no_device(self, kineto, made):
        with pytest.raises(MeasurementError, match="no GPU kernels"):
            read_capture(kineto([made.call(0, 5, "cudaLaunchKernel", 1)]))
        capture = read_capture(kineto([made.event("cpu_op", "aten::mm", 0, 5)]))
        assert (len(capture.tables["spans"]), capture.meta.device) == (1, "cpu")
        assert "not applicable on device cpu" in {own.reason for own in capture.meta.diagnostics}
        # a file that names a GPU, or has calls, is of a run on one
        named = kineto([made.event("cpu_op", "aten::mm", 0, 5)], deviceProperties=[{"id": 0, "name": "H200"}])
        called = kineto([made.kernel(0, 5), made.event("cpu_op", "aten::mm", 0, 5)], name="called.json")
        assert [read_capture(path).meta.device for path in (named, called)] == ["cuda", "cuda"]


class TestFiles:
    def test_what_it_is_the_content_says(self, kineto, made, tmp_path):
        packed = kineto([made.kernel(0, 10)], packed=True)
        packed = packed.rename(tmp_path / "trace.txt")
        assert len(spans(packed)) == 1

    def test_a_bare_list_is_a_trace(self, tmp_path, made):
        path = tmp_path / "t.json"
        path.write_text("\n[" + json.dumps(made.kernel(0, 10)) + " ]\n")
        assert len(spans(path)) == 1

    def test_metadata_may_stand_behind_the_events(self, tmp_path, made):
        path = tmp_path / "t.json"
        tail = '"deviceProperties": [{"id": 0, "name": "H200"}, {"id": 1}], "baseTimeNanoseconds": 5000}'
        path.write_text('{"traceEvents": [' + json.dumps(made.kernel(1, 10)) + "], " + tail)
        capture = read_capture(path)
        assert capture.tables["spans"]["start_ns"].to_pylist() == [6000]
        assert capture.meta.environment["gpu_name"] == "H200"

    def test_members_of_a_packed_file_follow_one_another(self, tmp_path, made):
        text = json.dumps({"traceEvents": [made.kernel(0, 10)]}).encode()
        path = tmp_path / "t.json.gz"
        path.write_bytes(gzip.compress(text[:20]) + gzip.compress(text[20:]) + b"\0" * 64)
        assert len(spans(path)) == 1

    def test_small_pieces_give_what_one_gives(self, kineto, made, monkeypatch):
        # GIVEN events with lists and objects inside, and the words that a cut looks for inside their strings
        events = []
        for n in range(300):
            nested = {"occupancy": [{"a": 1}, {"b": [2, {"c": 3}]}], "text": '}, {"ph": "X", "traceEvents": [', "n": n}
            events.append(made.kernel(10 * n, 5, n, name=f'k{n % 7} }}, {{"ph"', **nested))
        whole = spans(kineto(events))
        monkeypatch.setattr(cutting, "_MIN_BYTES", 512)
        assert spans(kineto(events, "again.json")) == whole
        assert len(whole) == 300

    def test_the_key_may_occur_before_the_events(self, tmp_path, made):
        path = tmp_path / "t.json"
        path.write_text('{"note": "\\"traceEvents\\": [", "x": {"traceEvents": [1]}, "traceEvents": ['
                        + json.dumps(made.kernel(0, 10)) + "]}")  # fmt: skip
        assert len(spans(path)) == 1

    def test_strange_types_do_not_stop_the_import(self, tmp_path, made):
        odd = [
            7, None, [], "text", {}, {"ph": 3, "cat": "kernel"}, {**made.kernel(1, 1), "name": {"a": 1}},
            {**made.kernel(2, 1), "args": [1, 2]}, {**made.kernel(3, 1), "args": {"stream": "7", "correlation": 2.0}},
            {**made.kernel(4, 1), "ts": "4.5"}, {**made.kernel(5, 1), "ts": None}, {**made.kernel(6, 1), "pid": [0]},
            {**made.kernel(7, 1), "dur": True},
        ]  # fmt: skip
        path = tmp_path / "t.json"
        path.write_text(json.dumps({"traceEvents": odd}))
        assert [row["start_ns"] for row in spans(path)] == [1000, 2000, 3000, 4500, 6000]


class TestDamage:
    """Case 30."""

    def text(self, made, *names):
        events = [made.kernel(1000 + 110 * n, 100, n + 1, name=name) for n, name in enumerate(names)]
        return json.dumps({"schemaVersion": 1, "traceEvents": events}, indent=1).encode()

    def test_a_cut_file_names_the_byte(self, made, tmp_path):
        path = tmp_path / "t.json"
        path.write_bytes(self.text(made, "gemm", "norm", "attn")[:-60])
        with pytest.raises(UsageError, match=r"not valid JSON at byte \d+") as raised:
            read_capture(path)
        assert str(path) in str(raised.value)
        capture = read_capture(path, SALVAGE)
        assert len(capture.tables["spans"]) == 2
        assert "truncated" in capture.meta.reason("spans", "end_ns")
        assert capture.meta.configuration["truncated"] is True

    def test_a_quote_that_nobody_escaped(self, made, tmp_path):
        text = self.text(made, "LIB", "norm", "attn").replace(b"LIB", b'_lib = Library("_inductor_test", "IMPL")(1)')
        path = tmp_path / "t.json"
        path.write_bytes(text)
        with pytest.raises(UsageError, match=r"byte \d+.*_lib = Library"):
            read_capture(path)
        capture = read_capture(path, SALVAGE)
        assert capture.tables["spans"]["name"].to_pylist() == ["norm", "attn"]
        assert capture.meta.configuration["lost_events"] == 1
        assert capture.meta.configuration["truncated"] is False

    def test_backslashes_are_mended(self, made, tmp_path):
        text = self.text(made, "gemm", "PATH", "attn").replace(b"PATH", rb"torch\cuda\__init__.py")
        path = tmp_path / "t.json"
        path.write_bytes(text)
        with pytest.raises(UsageError, match="invalid escape"):
            read_capture(path)
        capture = read_capture(path, SALVAGE)
        assert capture.tables["spans"]["name"].to_pylist() == ["gemm", r"torch\cuda\__init__.py", "attn"]
        assert capture.meta.configuration["repaired_events"] == 1

    def test_integers_beyond_64_bits_are_none_of_our_fields(self, kineto, made):
        path = kineto([made.kernel(0, 10, 1, **{"Comms Id": 18446744073709551615}), made.kernel(20, 10, 2**70)])
        assert [row["correlation"] for row in spans(path)] == [1, None]

    def test_control_characters_and_foreign_bytes_are_accepted(self, made, tmp_path):
        path = tmp_path / "t.json"
        path.write_bytes(self.text(made, "A", "B").replace(b'"A"', b'"a\tb"').replace(b'"B"', b'"b\xff"'))
        assert [row["name"] for row in spans(path)] == ["a\tb", "b?"]

    @pytest.mark.parametrize("word", [b"NaN", b"-Infinity", b"nan", b"-nan", b"inf", b"-inf"])
    def test_numbers_that_are_none_break_nothing(self, made, tmp_path, word):
        # GIVEN such a number in the head, in an event and behind the events, and its letters inside a name
        text = self.text(made, "inf: nan", "norm").replace(b'"stream": 7', b'"stream": 7, "GB/s": ' + word)
        path = tmp_path / "t.json"
        path.write_bytes(b'{"x": ' + word + b", " + text[1:-1] + b', "y": [' + word + b"]}")
        for options in (None, SALVAGE):
            capture = read_capture(path, options)
            assert capture.tables["spans"]["name"].to_pylist() == ["inf: nan", "norm"]
            assert capture.tables["spans"]["correlation"].to_pylist() == [1, 2]
            assert not capture.meta.configuration["lost_events"]

    def test_empty_values_commas_and_half_characters_break_nothing(self, made, tmp_path, monkeypatch):
        # GIVEN a value left empty before and behind the events, a comma behind the last one, and half an emoji
        monkeypatch.setattr(cutting, "_MIN_BYTES", 700)
        text = self.text(made, *(f"k{n}" for n in range(9)), "E").replace(b'"E"', b'"a\\ud83d"')
        tail = b', "baseTimeNanoseconds": "1000000000000000000", "deviceProperties": [{"id": 0}, {"id": 1}], "cupti": }'
        path = tmp_path / "t.json"
        path.write_bytes(b'{"rocm": ,' + text[1:-1].rstrip().removesuffix(b"]") + b" ,\n]" + tail)
        rows = spans(path)
        assert [row["name"] for row in rows] == [*(f"k{n}" for n in range(9)), "a?"]
        assert rows[0]["start_ns"] == 10**18 + 1_000_000

    @pytest.mark.parametrize("packed", [False, True])
    def test_salvage_gives_exactly_the_prefix(self, made, tmp_path, packed, monkeypatch):
        monkeypatch.setattr(cutting, "_MIN_BYTES", 700)
        events = [made.kernel(10 * n, 5, n, name=f"k{n}") for n in range(40)]
        text = json.dumps({"schemaVersion": 1, "traceEvents": events}).encode()
        ends = [text.index(json.dumps(own).encode()) + len(json.dumps(own)) for own in events]
        path = tmp_path / "t.json"
        for cut in range(60, len(text) - 1, 97):
            path.write_bytes(gzip.compress(text[:cut])[:-4] if packed else text[:cut])
            whole = sum(end <= cut for end in ends)
            if not whole:
                continue
            assert len(spans(path, options=SALVAGE)) == whole
            with pytest.raises(UsageError):
                read_capture(path)

    def test_a_file_cut_behind_its_events_is_not_whole(self, made, tmp_path):
        # GIVEN what torch writes behind the events, the base of all times among it, and a cut right before that
        text = self.text(made, "gemm", "norm").rstrip()
        path = tmp_path / "t.json"
        path.write_bytes(text.removesuffix(b"}").rstrip())
        with pytest.raises(UsageError, match="not valid JSON behind byte"):
            read_capture(path)
        capture = read_capture(path, SALVAGE)
        assert len(capture.tables["spans"]) == 2
        assert capture.meta.configuration["truncated"] is True

    def test_log_lines_between_events(self, made, tmp_path):
        text = self.text(made, "gemm", "norm", "attn").replace(b'  {\n   "ph"', b'INFO: flush\n  {\n   "ph"', 2)
        path = tmp_path / "t.json"
        path.write_bytes(text)
        assert len(spans(path, options=SALVAGE)) >= 1

    def test_an_error_has_one_line_and_no_traceback(self, made, tmp_path):
        path = tmp_path / "t.json"
        for content in (b"{", b"{}", b'{"traceEvents": 5}', b"[", b'[{"a": ]', b"{" * 100_000, b"[" * 100_000):
            path.write_bytes(content)
            for options in (None, SALVAGE):
                with pytest.raises(UsageError) as raised:
                    read_capture(path, options)
                assert "\n" not in str(raised.value)


def test_decoding_never_makes_a_float(kineto, made, monkeypatch):
    # GIVEN a decoder that would tell if a number of ours became a float64
    from stepscope.instrumentation.sources.kineto import events

    (event,) = events.decode(b'[{"ph": "X", "ts": 1712195495519689.047, "dur": 0.125}]')
    assert (event.ts, event.dur) == ("1712195495519689.047", "0.125")
