"""Calibrations on disk: whose they are, and until when they hold."""

from __future__ import annotations

import json
from datetime import date

import pytest
from stepscope.analysis.gate.equal_arms import EqualArms
from stepscope.analysis.gate.limits import Limits
from stepscope.analysis.gate.verdict import Reason
from stepscope.errors import UsageError
from stepscope.experiments.gate.calibrations import Book, Entry, books, open_book, read_book, work_of

MACHINE = {"gpu": "NVIDIA H200", "driver": "550.54", "python": "3.12.1", "memory_bytes": 5, "sm_clock_mhz": 1980}
DAY = date(2026, 11, 30)


def entry(metric="period_p50_ns", sd=0.004, day=DAY, point="p", work="w"):
    return Entry(point, work, metric, sd, 20, 6, 50, day)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("STEPSCOPE_CACHE", str(tmp_path / "cache"))
    return tmp_path


def spread(book, machine=MACHINE, day=DAY, pairs=6, steps=50, point="p"):
    return book.spread(point, "w", "period_p50_ns", (machine, pairs, steps, day), Limits())


def test_a_machine_finds_its_own_again(cache):
    open_book(MACHINE).with_entries([entry()]).save()
    again = open_book({**MACHINE, "sm_clock_mhz": 1200, "memory_bytes": 6})  # a clock is no identity
    assert spread(again) == EqualArms(0.004, 20)
    assert again.machine == {"gpu": "NVIDIA H200", "driver": "550.54", "python": "3.12.1"}
    assert open_book({**MACHINE, "driver": "560"}).entries == ()


@pytest.mark.parametrize(("changed", "reason"), [
    ({"machine": {**MACHINE, "driver": "560"}}, Reason.CALIBRATION_OTHER_MACHINE),
    ({"day": date(2026, 12, 31)}, Reason.CALIBRATION_EXPIRED),
    ({"day": date(2026, 11, 29)}, Reason.CALIBRATION_EXPIRED),
    ({"pairs": 5}, Reason.CALIBRATION_OTHER_BLOCKS), ({"steps": 40}, Reason.CALIBRATION_OTHER_BLOCKS),
    ({"point": "q"}, Reason.NO_CALIBRATION),
])  # fmt: skip
def test_what_does_not_hold_is_refused_with_its_reason(tmp_path, changed, reason):
    book = Book(tmp_path / "aa.json", {"gpu": "NVIDIA H200", "driver": "550.54", "python": "3.12.1"}, (entry(),))
    assert spread(book) == EqualArms(0.004, 20)
    assert spread(book, **changed) is reason


def test_a_new_calibration_replaces_that_of_the_same_point_only(tmp_path):
    book = Book(tmp_path / "aa.json", {}, (entry(sd=0.1), entry("device_p50_ns"), entry(point="q")))
    again = book.with_entries([entry(sd=0.2)])
    assert [(one.point, one.metric, one.sd) for one in again.entries] == [
        ("q", "period_p50_ns", 0.004), ("p", "period_p50_ns", 0.2)
    ]


def test_the_same_work_is_the_same_whatever_its_switches():
    base = {"workload": {"regime": "steady"}, "device": "cuda", "runner": {"commit_order": "first"}}
    assert work_of(base) == work_of({**base, "runner": {"commit_order": "last"}})
    assert work_of(base) != work_of({**base, "workload": {"regime": "churn"}})
    for other in ({"model": "micro"}, {"model_seed": 1}, {"kv_groups": ["full", "state"]}, {"max_num_seqs": 8}):
        assert work_of(base) != work_of({**base, "runner": {**base["runner"], **other}})


@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema": 1}', '{"schema": 2, "machine": {}, "entries": []}',
                                  '{"schema": 1, "machine": {}, "entries": [{"point": 3}]}'])  # fmt: skip
def test_a_damaged_file_is_named(tmp_path, text):
    path = tmp_path / "aa.json"
    path.write_text(text)
    with pytest.raises(UsageError, match="aa"):
        read_book(path)


def test_all_books_are_found_and_a_damaged_one_is_passed_over(cache):
    assert books() == []
    open_book(MACHINE).with_entries([entry()]).save()
    (cache / "cache" / "stepscope" / "gate" / "damaged.json").write_text("{")
    assert [book.entries for book in books()] == [(entry(),)]
    assert books(cache / "none.json") == []
    with pytest.raises(UsageError, match="damaged"):  # one that is named is read before anything is measured
        books(cache / "cache" / "stepscope" / "gate" / "damaged.json")


def test_files_of_earlier_versions_do_not_say_what_a_launch_took(tmp_path):
    old = {"point": "p", "work": "w", "metric": "m", "sd": 0.1, "launches": 20, "pairs": 6, "block_steps": 50,
           "measured_on": "2026-11-30"}
    path = tmp_path / "aa.json"
    path.write_text(json.dumps({"schema": 1, "machine": {}, "entries": [old, {**old, "launch_s": 8.5}]}))
    assert [one.launch_s for one in read_book(path).entries] == [None, 8.5]
