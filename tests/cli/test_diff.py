"""`perf diff`: what it prints and how it ends."""

import json
from pathlib import Path

import pytest
from stepscope.instrumentation.recording import Recording
from stepscope.instrumentation.recording.storage import META_FILE

DATA = Path(__file__).resolve().parents[1] / "data" / "captures" / "h200"
OWN, CAPTURE = DATA / "recordings" / "node", DATA / "node.sqlite"


def test_a_recording_and_the_capture_of_its_run(perf):
    ended = perf("diff", OWN, CAPTURE, "--agree")
    assert (ended.code, ended.err) == (0, "")
    assert "Two views of one run: 10 of 10 figures agree within err." in ended.out
    assert "44 pairs of steps, matched in order, by their lengths. None is without a partner." in ended.out


def test_json_says_whether_they_agree(perf, tmp_path):
    target = tmp_path / "diff.json"
    assert perf("diff", OWN, CAPTURE, "--format", "json", "-o", target).out == f"{target}\n"
    told = json.loads(target.read_text())
    assert (told["kind"], told["content"]["agrees"]) == ("comparison", True)
    assert {own["name"] for own in told["content"]["comparison"]["device_work"]} == {"preprocess", "forward", "sample"}


@pytest.mark.parametrize("format_", ["md", "html"])
def test_other_formats(perf, format_):
    assert "agree within err" in perf("diff", OWN, CAPTURE, "--format", format_).out


def test_unmatched_steps_are_named_and_a_difference_ends_with_one_if_asked(perf, tmp_path):
    # GIVEN the recording without its last two steps and with one copy less in step 3
    own = Recording.load(OWN)
    tables = {name: frame[~(frame["step"] >= 42).fillna(False)] for name, frame in own.tables.items()}
    tables["copies"] = tables["copies"].drop(tables["copies"].index[tables["copies"]["step"] == 3][0])
    cut = Recording(own.meta, tables).save(tmp_path / "cut")
    # WHEN it is compared with the whole capture
    asked, plain = perf("diff", cut, CAPTURE, "--agree"), perf("diff", cut, CAPTURE)
    # THEN the steps without a partner and the kind of copy are named
    assert (asked.code, plain.code) == (1, 0)
    assert "Without a partner in A: B's steps 42, 43." in plain.out
    assert "Two views of one run, and they differ" in plain.out
    assert "differs: count or bytes differ in 1 steps" in plain.out


def test_what_must_not_be_compared_ends_with_five(perf, tmp_path):
    meta = json.loads((OWN / META_FILE).read_text())
    modelled = Recording.load(OWN).save(tmp_path / "modelled")
    meta |= {"modelled": True, "calibration": "h200", "schema_version": 2}
    (modelled / META_FILE).write_text(json.dumps(meta))
    ended = perf("diff", modelled, CAPTURE)
    assert (ended.code, ended.out) == (5, "")
    assert str(CAPTURE) in ended.err
    assert "modelled" in ended.err
    other = perf("diff", OWN, DATA / "graph.sqlite")
    assert (other.code, "did not see the same run" in other.err) == (5, True)
    assert perf("diff", OWN, DATA / "torch.json.gz").code == 5


def test_runs_of_different_work_are_told_before_their_times(perf):
    # GIVEN two runs that differ in rows, staging and graph mode
    runs = Path(__file__).resolve().parents[2] / "examples" / "recordings" / "h200"
    # WHEN they are laid side by side
    told = perf("diff", runs / "decode", runs / "pageable-staging").out
    # THEN a warning and the parameters come before the first time
    before = told[: told.index("Pair by pair")]
    assert "Warning: A and B did different work" in before
    rows = {tuple(line.split()) for line in before.splitlines()}
    assert ("rows", "a", "step", "(median)", "64", "256") in rows
    assert ("runner.staging", "pinned_ring", "pageable") in rows
    assert ("runner.graph_mode", "full_and_piecewise", "full") in rows
    # AND two views of one run have no such warning
    assert "Warning" not in perf("diff", OWN, CAPTURE).out


def test_what_is_no_recording_ends_with_two(perf, tmp_path):
    assert perf("diff", OWN, tmp_path / "nothing").code == 2
    assert perf("diff", OWN, tmp_path).code == 2


def test_two_runs_do_not_agree_because_nobody_judged_them(perf):
    asked, plain = perf("diff", OWN, OWN, "--agree"), perf("diff", OWN, OWN)
    assert (asked.code, plain.code) == (5, 0)
    assert "--agree: nothing was judged" in asked.err
    assert asked.out == plain.out
