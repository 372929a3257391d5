"""Trace events of a recording: what a viewer needs of them to show everything."""

import json
from collections import defaultdict
from pathlib import Path

import pandas as pd
import pytest
from stepscope.instrumentation.recording.meta import ClockInfo, RecordingMeta
from stepscope.instrumentation.recording.reader import Recording
from stepscope.instrumentation.recording.schema import KEYS, TABLES
from stepscope.instrumentation.sources import read_capture
from stepscope.reports.perfetto import perfetto_json

CAPTURES = Path(__file__).resolve().parents[4] / "shared" / "captures"
DATA = Path(__file__).resolve().parents[2] / "data" / "captures" / "h200"
PANDAS = {"int64": "Int64", "float64": "Float64", "string": "string", "bool": "boolean"}
BASE = 1_796_025_144_710_040_001


def recording(**tables):
    """A recording of rows given as dicts."""
    frames = {}
    for name, rows in tables.items():
        columns = (*KEYS, *TABLES[name])
        frames[name] = pd.DataFrame({
            c.name: pd.array([{"pid": 7, **row}.get(c.name) for row in rows], dtype=PANDAS[c.type]) for c in columns
        })  # fmt: skip
    meta = RecordingMeta(source="lab", device="cuda", clocks=(ClockInfo(clock_id="hand", kind="declared"),))
    return Recording.from_frames(frames, meta)


def span(start, end, name, kind="kernel", lane="gpu:7", **more):
    return {"start_ns": BASE + start, "end_ns": BASE + end, "name": name, "kind": kind, "lane": lane, **more}


def ns(number):
    """Microseconds as the text says them → nanoseconds."""
    whole, _, part = number.partition(".")
    return int(whole) * 1000 + int(part.ljust(3, "0"))


class Trace:
    """A parsed export, checked by the rules of the trace event format."""

    def __init__(self, text):
        self.whole = json.loads(text, parse_float=ns)
        self.events = self.whole["traceEvents"]
        named = [event for event in self.events if event["ph"] == "M"]
        self.tracks = {(e["pid"], e["tid"]): e["args"]["name"] for e in named if e["name"] == "thread_name"}
        self.groups = {e["pid"]: e["args"]["name"] for e in named if e["name"] == "process_name"}
        self.slices = [event for event in self.events if event["ph"] == "X"]
        self.check_fields()
        self.check_nesting()
        self.check_flows()

    def check_fields(self):
        timed = [event for event in self.events if event["ph"] != "M"]
        assert self.events[: len(self.events) - len(timed)] == [e for e in self.events if e["ph"] == "M"]
        assert {event["ph"] for event in timed} <= {"X", "s", "t", "f", "C"}
        assert [event["ts"] for event in timed] == sorted(event["ts"] for event in timed)
        assert all(isinstance(event["ts"], int) and event["ts"] >= 0 for event in timed)
        assert all(event["dur"] >= 0 and event["name"] and event["cat"] for event in self.slices)
        assert all((event["pid"], event["tid"]) in self.tracks for event in timed if event["ph"] != "C")
        assert {event["pid"] for event in timed} <= set(self.groups)
        assert all(type(v) is int for e in timed if e["ph"] == "C" for v in e["args"].values())

    def check_nesting(self):
        """On every track a slice lies inside the one that is open, or behind it."""
        open_ends = defaultdict(list)
        for event in self.slices:
            ends = open_ends[event["pid"], event["tid"]]
            while ends and ends[-1] <= event["ts"]:
                ends.pop()
            assert not ends or event["ts"] + event["dur"] <= ends[-1], event
            ends.append(event["ts"] + event["dur"])

    def check_flows(self):
        """One begin, then steps, then one end for each id, and every point lies on a slice of its track."""
        reach, kinds = {}, defaultdict(str)
        for event in self.events:
            where = event["pid"], event.get("tid")
            if event["ph"] == "X":
                reach[where] = max(reach.get(where, -1), event["ts"] + event["dur"])
            elif event["ph"] in "stf":
                kinds[event["id"], event["cat"]] += event["ph"]
                assert event["ts"] <= reach[where]
        assert all(kind == "s" + "t" * (len(kind) - 2) + "f" for kind in kinds.values())

    def at(self, name):
        """(track, start, length) of the slices of one name."""
        return [(self.tracks[e["pid"], e["tid"]], e["ts"], e["dur"]) for e in self.slices if e["name"] == name]

    def arrow(self, cat):
        """Names of the slices that each arrow of a category passes."""
        found = defaultdict(list)
        for event in self.events:
            if event["ph"] in "stf" and event["cat"] == cat:
                here = [
                    e for e in self.slices
                    if (e["pid"], e["tid"]) == (event["pid"], event["tid"])
                    and e["ts"] <= event["ts"] <= e["ts"] + e["dur"]
                ]  # fmt: skip
                found[event["id"]].append(here[-1]["name"])
        return list(found.values())


def test_times_count_from_the_first_and_lose_no_nanosecond():
    trace = Trace(perfetto_json(recording(spans=[span(0, 5, "a"), span(1_000_000_001, 1_000_000_004, "b")])))
    assert trace.at("b") == [("gpu:7", 1_000_000_001, 3)]
    assert trace.whole["otherData"]["origin_ns"] == str(BASE)


def test_slices_that_overlap_on_one_stream_get_a_track_of_their_own():
    rows = [span(0, 10, "long"), span(2, 6, "inside"), span(8, 12, "crossing"), span(9, 14, "third"), span(12, 13, "x")]
    trace = Trace(perfetto_json(recording(spans=rows)))
    assert trace.at("inside") == [("gpu:7", 2, 4)]
    assert trace.at("crossing") == [("gpu:7 (overlapping)", 8, 4)]
    assert trace.at("third") == [("gpu:7 (overlapping 2)", 9, 5)]
    assert trace.at("x") == [("gpu:7", 12, 1)]


def a_step(step, at, tie):
    """A delta, its launch, the kernel, the token's copy and the wait for it."""
    return {
        "steps": {"step": step, "start_ns": BASE + at, "end_ns": BASE + at + 90, "num_tokens": 8, "num_reqs": 2,
                  "kv_tokens_sum": 64},
        "spans": [
            span(at + 10, at + 20, "launch graph", "launch", "host:main", step=step, correlation=tie),
            span(at + 25, at + 50, "graph.8", "graph", step=step, correlation=tie, device="0"),
        ],
        "copies": {
            "step": step, "lane": "gpu:7", "device": "0", "direction": "d2h", "buffer": "sampled_tokens",
            "start_ns": BASE + at + 52, "end_ns": BASE + at + 55, "enqueue_start_ns": BASE + at + 21,
            "enqueue_end_ns": BASE + at + 24, "correlation": tie + 1,
        },
        "waits": {"step": step, "lane": "host:main", "reason": "tokens", "start_ns": BASE + at + 30,
                  "end_ns": BASE + at + 60},
    }  # fmt: skip


def two_steps():
    found = [a_step(0, 0, 1), a_step(1, 100, 3)]
    return recording(
        steps=[one["steps"] for one in found], spans=[row for one in found for row in one["spans"]],
        copies=[one["copies"] for one in found], waits=[one["waits"] for one in found],
        telemetry=[{"time_ns": BASE + 5, "power_mw": 120_000}],
    )  # fmt: skip


def test_arrows_lead_from_the_delta_to_the_token():
    trace = Trace(perfetto_json(two_steps()))
    assert trace.arrow("step") == [
        ["step 0", "launch graph", "graph.8", "d2h sampled_tokens", "wait: tokens"],
        ["step 1", "launch graph", "graph.8", "d2h sampled_tokens", "wait: tokens"],
    ]
    assert sorted(trace.arrow("launch")) == 2 * [["enqueue sampled_tokens", "d2h sampled_tokens"]] + 2 * [
        ["launch graph", "graph.8"]
    ]


def test_counters_of_steps_and_sensors():
    trace = Trace(perfetto_json(two_steps()))
    counted = [(e["name"], e["ts"], e["args"]) for e in trace.events if e["ph"] == "C"]
    assert ("tokens", 100, {"scheduled": 8}) in counted
    assert ("requests", 0, {"running": 2}) in counted
    assert ("KV tokens", 100, {"sum": 64}) in counted
    assert ("power [mW]", 5, {"gpu": 120_000}) in counted


def test_an_arrow_never_leads_back_in_time():
    rows = [span(50, 60, "launch", "launch", "host:main", correlation=1), span(40, 45, "early", correlation=1)]
    assert Trace(perfetto_json(recording(spans=rows))).arrow("launch") == []


def test_kernels_of_one_graph_launch_are_pointed_to_once():
    rows = [span(0, 5, "cudaGraphLaunch", "launch", "host:main", correlation=1)]
    rows += [span(10 + 10 * n, 19 + 10 * n, f"k{n}", correlation=1) for n in range(3)]
    assert Trace(perfetto_json(recording(spans=rows))).arrow("launch") == [["cudaGraphLaunch", "k0"]]


def test_what_has_no_times_is_counted_and_not_drawn():
    rows = [span(0, 5, "a"), {"name": "lost", "lane": "gpu:7", "kind": "kernel"}]
    trace = Trace(perfetto_json(recording(spans=rows, copies=[{"direction": "h2d", "lane": "gpu:7"}])))
    assert [event["name"] for event in trace.slices] == ["a"]
    assert trace.whole["otherData"]["rows_without_times"] == {"copies": 1, "spans": 1}


def test_processes_of_one_number_stay_apart():
    rows = [span(0, 5, "a", host="x"), span(0, 5, "a", host="y"), span(0, 5, "a", pid=8)]
    trace = Trace(perfetto_json(recording(spans=rows)))
    assert len({event["pid"] for event in trace.slices}) == 3


def test_an_empty_recording_is_an_empty_trace():
    assert Trace(perfetto_json(recording())).events == []


@pytest.mark.parametrize(
    "name", ["nsys-3.20.3_h200_vllm026_v1_graph.sqlite", "kineto_h200_vllm026_v2_graph_mixed.json.gz",
             "nsys-3.25.0_h100x2_fastvideo_1s.sqlite"],
)  # fmt: skip
def test_real_captures(name):
    if not (CAPTURES / name).exists():
        pytest.skip("the captures are not here")
    found = read_capture(CAPTURES / name).recording()
    trace = Trace(perfetto_json(found))
    timed = sum(len(found.table(table)) for table in ("spans", "copies", "steps"))
    assert sum(event["cat"] not in ("device_phase", "enqueue") for event in trace.slices) == timed
    assert sum(event["ph"] == "s" and event["cat"] == "launch" for event in trace.events) > 100


@pytest.mark.parametrize("mode", ["graph", "torch"])
def test_recordings_of_our_runner(mode):
    """Written by the probe on a GPU: launches and kernels with times, small copies without."""
    trace = Trace(perfetto_json(Recording.load(DATA / "recordings" / mode)))
    steps = sum(event["cat"] == "step" for event in trace.slices)
    chains = [names for names in trace.arrow("step") if len(names) == 4]
    assert len(chains) == steps
    assert {names[-1] for names in chains} == {"wait: tokens"}
    assert trace.whole["otherData"]["rows_without_times"] == {"copies": 6 * steps}
    assert {event["name"] for event in trace.events if event["ph"] == "C"} >= {"tokens", "requests", "KV tokens"}


def test_random_intervals_all_stay(subtests):
    """Whatever overlaps: every slice is drawn, on a track on which it nests."""
    import random

    for seed in range(30):
        with subtests.test(seed=seed):
            dice = random.Random(seed)
            rows = []
            for number in range(60):
                start = dice.randrange(100)
                rows.append(span(start, start + dice.choice([0, 1, 5, 40]), f"s{number}"))
            trace = Trace(perfetto_json(recording(spans=rows)))
            first = min(row["start_ns"] for row in rows)
            assert sorted((e["name"], e["ts"], e["dur"]) for e in trace.slices) == sorted(
                (row["name"], row["start_ns"] - first, row["end_ns"] - row["start_ns"]) for row in rows
            )
