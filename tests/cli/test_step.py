"""perf step: the article's examples in the article's form, the eight points, planted faults, cases of one's own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from stepscope.experiments.minimal.faults import FAULTS
from stepscope.runner.invariants.checker import CHECKS
from stepscope.runner.probe_points import POINT_NAMES

TWO_FIVE_THREE = """\
req_ids=['A','B','C']
scheduled=[2,5,3]
computed=[0,0,0]
query_start_loc=[0,2,7,10]
req_indices=[0,0,1,1,1,1,1,2,2,2]
query_pos=[0,1,0,1,2,3,4,0,1,2]
positions=[0,1,0,1,2,3,4,0,1,2]
seq_lens=[2,5,3]
block_rows={A:[1], B:[2,3], C:[4]}
slot_mapping=[4,5,8,9,10,11,12,16,17,18]
logits_indices=[1,6,9]
discard=[False,False,False]
"""

ABC = """\
req_ids=['A','B','C']
scheduled=[1,3,2]
computed=[5,0,8]
query_start_loc=[0,1,4,6]
positions=[5,0,1,2,8,9]
seq_lens=[6,3,10]
block_rows={A:[1,2], B:[5], C:[3,7,4]}
slot_mapping=[9,20,21,22,16,17]
logits_indices=[0,3,5]
discard=[False,True,False]
"""

MINIMAL = """\
req_ids=['A','B']
scheduled=[1,3]
computed=[8,0]
query_start_loc=[0,1,4]
positions=[8,0,1,2]
seq_lens=[9,3]
block_rows={A:[1,2,3], B:[4]}
slot_mapping=[12,16,17,18]
logits_indices=[0,3]
discard=[False,True]
"""

CONDENSED = """\
req_ids=['A','D','C']
scheduled=[1,1,1]
computed=[3,3,3]
query_start_loc=[0,1,2,3]
positions=[3,3,3]
seq_lens=[4,4,4]
block_rows={A:[1], D:[4], C:[3]}
slot_mapping=[7,19,15]
logits_indices=[0,1,2]
discard=[False,False,False]
"""


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--example", "2-5-3"], TWO_FIVE_THREE),
        (["--example", "abc"], ABC),
        (["--example", "minimal"], MINIMAL),
        ([], MINIMAL),
        (["--example", "condense"], CONDENSED),
    ],
)
def test_the_articles_examples_word_for_word(perf: Callable[..., object], arguments: list[str], text: str) -> None:
    ended = perf("step", *arguments)
    assert (ended.code, ended.out, ended.err) == (0, text, "")


STANDS = {
    "update_states": "scheduled={A:1, B:3}",
    "add_request": "block_ids=[4]",
    "condense": "row_of={A:0, B:1}",
    "cumsum": "query_start_loc=[0,1,4]",
    "gather": "positions=[8,0,1,2]",
    "slot_mapping": "slot_mapping=[12,16,17,18]",
    "attention_metadata": "is_prefilling=[False,True]",
    "logits": "logits_indices=[0,3]",
}


@pytest.mark.parametrize("point", POINT_NAMES)
def test_it_stops_at_each_of_the_eight_points(perf: Callable[..., object], point: str) -> None:
    ended = perf("step", "--at", point)
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith(f"step 2, at {point}\n")
    assert STANDS[point] in ended.out.splitlines()


def test_a_point_that_the_step_does_not_pass_is_said(perf: Callable[..., object]) -> None:
    ended = perf("step", "--example", "condense", "--at", "add_request")
    assert (ended.code, ended.out) == (0, "step 1 does not pass add_request: no request enters the batch in it\n")


def test_every_invariant_has_a_fault() -> None:
    assert [fault.breaks for fault in FAULTS.values()] == list(CHECKS)


@pytest.mark.parametrize("name", FAULTS)
@pytest.mark.parametrize("example", ["abc", "minimal"])
def test_a_planted_fault_breaks_its_invariant_first(perf: Callable[..., object], name: str, example: str) -> None:
    ended = perf("step", "--example", example, "--plant", name)
    assert ended.code == 1
    step = 0 if example == "abc" else 2
    assert ended.err.startswith(f"perf: invariant {FAULTS[name].breaks} broken in step {step}: ")
    assert ended.err.count("\n") == 1


def test_all_prints_every_step(perf: Callable[..., object]) -> None:
    ended = perf("step", "--example", "condense", "--all")
    assert ended.out.endswith("step 1\n" + CONDENSED)
    assert ended.out.startswith("step 0\nreq_ids=['A','B','C','D']\n")


def test_requests_of_ones_own(perf: Callable[..., object], tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("block_size: 2\nsteps: 2\nrequests:\n  - {id: q, prompt: 3, output: 2}\n")
    assert "positions=[3]" in perf("step", file).out
    file.write_text("requests:\n  - {id: q, prompt: 9, computed: 4, scheduled: 2, blocks: [3, 1]}\n")
    assert "slot_mapping=[4,5]" in perf("step", file).out


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("requests: []\n", "requests: the list is empty"),
        ("request: []\n", "unknown key 'request'; did you mean 'requests'?"),
        ("requests: [{id: a, prompt: 3}, {id: a, prompt: 3}]\n", "the id 'a' is empty or given twice"),
        ("requests: [{id: a, prompt: 3, scheduled: 1}]\n", "a step by hand needs `scheduled` and `blocks`"),
        ("requests: [{id: a, prompt: 3, scheduled: 4, blocks: [1]}]\n", "exceed its prompt"),
        ("requests: [{id: a, prompt: 3, scheduled: 3, blocks: [99]}]\n", "block 99"),
        ("requests: [{id: a, prompt: 9, scheduled: 9, blocks: [1]}]\n", "its blocks hold 4 tokens"),
        ("block_size: 0\nrequests: [{id: a, prompt: 3}]\n", "block_size"),
        ("requests: [{id: a, prompt: 64}]\n", "its prompt of 64 tokens leaves no room"),
        ("finish: [z]\nrequests: [{id: a, prompt: 3, scheduled: 3, blocks: [1]}]\n", "no request is named 'z'"),
    ],
)
def test_a_bad_case_is_one_line_that_names_the_file(
    perf: Callable[..., object], tmp_path: Path, text: str, words: str
) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(text)
    ended = perf("step", file)
    assert ended.code == 2
    assert words in ended.err
    assert str(file) in ended.err
    assert ended.err.count("\n") == 1


HUGE = str(2**70)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"prompt": -1}, "requests[A].prompt: -1 is too small; at least 1"),
        ({"prompt": 0, "scheduled": 0}, "requests[A].prompt: 0 is too small"),
        ({"prompt": 2**40}, "tokens; max_model_len is 64, raise it"),
        ({"prompt": HUGE}, "requests[0].prompt: the number has more than 64 bits"),
        ({"computed": -1}, "requests[A].computed: -1 is too small"),
        ({"scheduled": -1}, "requests[A].scheduled: -1 is too small"),
        ({"output": 0}, "requests[A].output: 0 is too small"),
        ({"temperature": -0.5}, "requests[A].temperature: -0.5 is too small"),
    ],
)
def test_a_request_beyond_all_sense_is_one_line(
    perf: Callable[..., object], tmp_path: Path, change: dict[str, object], words: str
) -> None:
    request = {"id": "A", "prompt": 5, "scheduled": 3, "blocks": [1, 2], **change}
    file = tmp_path / "mine.yaml"
    file.write_text(f"requests: [{{{', '.join(f'{key}: {value}' for key, value in request.items())}}}]")
    ended = perf("step", file)
    assert (ended.code, ended.err.count("\n")) == (2, 1)
    assert words in ended.err


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("requests: [{id: A, prompt: 5, computed: 2}]", "requests[A].computed: belongs to a step by hand"),
        ("requests: [{id: A, prompt: 5, blocks: [3]}]", "requests[A].blocks: belongs to a step by hand"),
        ("requests: [{id: A, prompt: 5}]\nfinish: [A]", "finish: belongs to a step by hand"),
        ("requests: [{id: A, prompt: 5, scheduled: 5, blocks: [1, 2]}]\nsteps: 3", "steps: 3, but the requests give"),
    ],
)
def test_what_would_change_nothing_is_refused(
    perf: Callable[..., object], tmp_path: Path, text: str, words: str
) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(text)
    ended = perf("step", file)
    assert (ended.code, ended.err.count("\n")) == (2, 1)
    assert words in ended.err


def test_a_case_that_ends_before_its_step_says_so(perf: Callable[..., object], tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("requests: [{id: A, prompt: 5, output: 2}]\nsteps: 50")
    ended = perf("step", file)
    assert (ended.code, ended.out) == (0, "step 49 is not reached: the case ends with step 2\n")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--example", "abd"], "unknown example 'abd'; did you mean 'abc'?"),
        (["--at", "cumsun"], "--at: unknown point 'cumsun'; did you mean 'cumsum'?"),
        (["--plant", "x"], "--plant: unknown fault 'x'; known: discard_off"),
        (["nowhere.yaml"], "nowhere.yaml: no such file"),
        (["nowhere.yaml", "--example", "abc"], "give a file or --example, not both"),
    ],
)
def test_a_bad_name_is_one_line(perf: Callable[..., object], arguments: list[str], words: str) -> None:
    ended = perf("step", *arguments)
    assert (ended.code, ended.err.count("\n")) == (2, 1)
    assert words in ended.err


def test_the_faults_are_listed(perf: Callable[..., object]) -> None:
    ended = perf("step", "--plant", "list")
    assert [line.split()[0] for line in ended.out.splitlines()] == list(FAULTS)
