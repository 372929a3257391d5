"""The first section of a recording's page: what binds the step, what to mend first, what to try."""

from __future__ import annotations

import dataclasses
import json

import msgspec
import pandas as pd
import pytest
from stepscope.analysis.advice import Advice
from stepscope.instrumentation.recording.reader import Recording
from stepscope.reports import render
from stepscope.reports.pages.verdict import verdict_section
from stepscope.reports.views.recording import gather_recording


def words(recording) -> str:
    return " ".join(render(recording, "text", name="x").split())


def test_it_stands_first_and_names_what_binds(recordings) -> None:
    text = words(recordings(6))
    assert text.index("Why a step takes so long, and what to try") < text.index("Four questions")
    assert "A step takes 1.00 ms; the host's largest part, waits included, is sample, 500 µs" in text


@pytest.mark.parametrize(("hazard", "said"), [
    ("observed", "slots of block_table were overwritten"), ("possible", "slots of block_table could be overwritten"),
])
def test_wrong_data_comes_before_any_time(recordings, hazard: str, said: str) -> None:
    recording = recordings(6)
    buffers = recording.tables["buffers"]
    buffers.loc[(buffers["step"] == 5) & (buffers["buffer"] == "block_table"), "hazard"] = hazard
    assert f"First mend what is wrong: {said} while their copy was in flight." in words(recording)


def test_pageable_staging_is_told_to_be_pinned(recordings) -> None:
    recording = recordings(6)
    recording.tables["buffers"]["memory"] = "pageable"
    assert "it is pageable, so the host waits inside each copy's call (staging: pinned_ring)." in words(recording)


def test_each_change_has_the_command_that_measures_it(recordings) -> None:
    # GIVEN a synchronous run of our runner whose host waits 300 of 1,000 us in each step
    made = recordings(6)
    configuration = {**made.meta.configuration, "runner": {"token_handoff": "sync"}}
    recording = Recording(msgspec.structs.replace(made.meta, configuration=configuration), made.tables)
    recording.tables["steps"]["host_wait_ns"] = 300_000
    section = verdict_section(gather_recording(recording, "x"))
    # THEN two steps in flight are worth that at most, and the page says how to find out
    table = next(block for block in section.blocks if type(block).__name__ == "Table")
    row = next(row.cells for row in table.rows if "two steps in flight" in str(row.cells[0]))
    assert (row[1].value, row[2].value, row[3]) == (300_000, 0.3, "at most")
    facts = next(block for block in section.blocks if type(block).__name__ == "Facts")
    assert dict(facts.items)["two steps in flight"].startswith("perf sweep RECORDING --param token_handoff=sync,async")
    found = json.loads(render(recording, "json", name="x"))["content"]["advice"]
    assert [own["change"] for own in found if own["basis"] == "at most"] == ["two steps in flight"]


def test_without_a_device_nothing_is_told_to_be_pinned(recordings) -> None:
    made = recordings(6)
    meta = msgspec.structs.replace(made.meta, device="cpu", modelled=False, calibration=None)
    recording = Recording(meta, made.tables)
    recording.tables["buffers"]["memory"] = "pageable"
    text = words(recording)
    assert "staging: pinned_ring" not in text
    assert "There is no device to copy to, so nothing is pinned" in text


@pytest.mark.parametrize(("source", "said"), [("lab", "--device sim models"), ("my engine", "device times take marks")])
def test_on_a_cpu_the_way_to_a_device_is_that_of_whoever_recorded(recordings, source, said) -> None:
    made = recordings(6)
    meta = msgspec.structs.replace(made.meta, source=source, device="cpu", modelled=False, calibration=None)
    text = words(Recording(meta, made.tables))
    assert said in text
    assert ("--device" in text) == (source == "lab")


@pytest.mark.parametrize(("busy_us", "said"), [
    (250, "Host-bound: in 100 % of 5 counted steps the device ran dry before the forward and waited for the host;"
          " device work fills 25.0 % of a step."),
    (800, "Mostly device work, 80.0 % of a step; in 100 % of 5 counted steps the device ran dry before the forward and"
          " waited for the host."),
    (None, "Host-bound: in 100 % of 5 counted steps the device ran dry before the forward and waited for the host;"
           " how much of a step device work fills was not measured (nobody profiled the device). A"),
])  # fmt: skip
def test_a_step_that_device_work_fills_is_not_called_host_bound(recordings, busy_us, said) -> None:
    # GIVEN synchronous steps of 1,000 us: before each forward the device waits for the host, however long it works
    recording = recordings(6)
    phases = recording.tables["phases"]
    device = phases["name"] != "between_steps"
    phases.loc[device, "busy_ns"] = pd.NA if busy_us is None else 0
    phases.loc[phases["name"] == "forward", "busy_ns"] = pd.NA if busy_us is None else 1_000 * busy_us
    assert said in words(recording)


@pytest.mark.parametrize("change", ["preprocess -30%", "graphs on"])
def test_a_faster_host_gains_little_only_where_none_is_advised(recordings, change) -> None:
    view = gather_recording(recordings(6), "x")
    bound = dataclasses.replace(view.gaps, bound="device", shares={"device": 0.75, "host": 0.25})
    advice = (Advice(change, 1, 0.1, "predicted", 5, ""),)
    told = verdict_section(dataclasses.replace(view, gaps=bound, advice=advice)).blocks[0].text
    assert told.startswith("Device-bound: in 75.0 % of 5 counted steps the device had work at all times")
    assert ("a faster host gains little" in told) == (change == "graphs on")
