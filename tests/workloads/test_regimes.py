"""Each regime forces the steps that it is named after; published parameters give the published figures."""

from __future__ import annotations

from itertools import pairwise

import pytest
from stepscope.errors import UsageError
from stepscope.workloads.driver import StepShape, deltas, dry_run
from stepscope.workloads.regimes import REGIMES, build
from stepscope.workloads.workload import ForcedReset, Workload

from .published_regimes import PUBLISHED

SLUGS = (
    "steady", "alternating", "condense_storm", "mass_preempt", "forced_reset", "ping_pong", "thrash", "chunked",
    "short_extend", "spec_rollback", "hybrid", "kernel_blocks", "prefix_storm", "churn", "graph_edge", "long_row",
)  # fmt: skip


def made(slug: str, **parameters: object) -> Workload:
    return build(slug, seed=0, vocab_size=256, **parameters)


def published(slug: str, **changes: object) -> list[StepShape]:
    return dry_run(made(slug, **{**PUBLISHED[slug], **changes}))


def test_the_slugs() -> None:
    assert tuple(REGIMES) == SLUGS
    assert set(PUBLISHED) == set(SLUGS)


@pytest.mark.parametrize("slug", SLUGS)
def test_defaults_answer_every_request_and_cost_few_tokens(slug: str) -> None:
    workload = made(slug)
    shapes = dry_run(workload)
    assert sum(shape.num_finished for shape in shapes) == len(workload.requests)
    assert sum(shape.num_tokens for shape in shapes) < 200_000
    assert len({request.req_id for request in workload.requests}) == len(workload.requests)
    assert workload.parameters["max_model_len"] == workload.scheduler.max_model_len


@pytest.mark.parametrize("slug", SLUGS)
def test_the_same_seed_gives_the_same_workload(slug: str) -> None:
    assert made(slug) == made(slug)


def test_steady_published() -> None:
    shapes = published("steady")
    assert [shape.num_new for shape in shapes[:17]] == [4] * 16 + [0]
    assert shapes[17].num_tokens == 64
    overlaps = [shape.overlap for shape in shapes if shape.overlap is not None]
    assert sum(overlaps) / len(overlaps) == pytest.approx(0.98, abs=0.01)


@pytest.mark.parametrize("rows", [1, 8, 64, 256])
@pytest.mark.parametrize("width", [8192, 131_072])
def test_steady_lasts_as_long_as_asked_for(rows: int, width: int) -> None:
    workload = made("steady", num_reqs=rows, max_model_len=width, steps=40, reserve_output=True)
    inside = dry_run(workload)[workload.settle_steps :][: workload.regime_steps]
    assert len(inside) >= 40
    assert all(shape.num_reqs == shape.num_tokens == rows for shape in inside)
    assert all(shape.overlap == 1.0 for shape in inside[1:])
    # AND with reserved output not one block travels: the table may stay as it is
    assert sum(shape.blocks_installed for shape in inside) == 0
    assert workload.scheduler.max_model_len == width


@pytest.mark.parametrize("rows", [1, 8, 64, 256])
def test_chunked_lasts_as_long_as_asked_for(rows: int) -> None:
    workload = made("chunked", num_reqs=rows, steps=40, max_num_batched_tokens=512)
    assert workload.settle_steps is not None
    inside = dry_run(workload)[workload.settle_steps :][: workload.regime_steps]
    assert len(inside) >= 40
    assert all(shape.num_reqs == rows and shape.num_tokens > rows for shape in inside)
    assert sum(shape.num_tokens == 512 for shape in inside) > 0.8 * len(inside)


@pytest.mark.parametrize("rows", [8, 64, 256])
def test_churn_keeps_all_rows_taken(rows: int) -> None:
    workload = made("churn", num_reqs=rows, steps=40)
    inside = dry_run(workload)[workload.settle_steps :][: workload.regime_steps]
    assert len(inside) >= 40
    assert sum(shape.num_reqs == rows for shape in inside) > 0.9 * len(inside)
    changed = sum(bool(shape.num_new or shape.num_finished) for shape in inside)
    assert changed > (0.4 if rows == 8 else 0.9) * len(inside)


def test_churn_published() -> None:
    shapes = published("churn")
    assert sum(bool(s.num_new or s.num_finished) for s in shapes) / len(shapes) == pytest.approx(0.9, abs=0.05)
    assert sum(shape.blocks_installed for shape in shapes) / len(shapes) == pytest.approx(373, rel=0.05)


@pytest.mark.parametrize("pattern", ["first_half", "every_second"])
@pytest.mark.parametrize("refill", [False, True])
def test_half_of_the_rows_end_in_one_step(pattern: str, refill: bool) -> None:
    workload = made("condense_storm", num_reqs=64, pattern=pattern, refill=refill)
    (storm,) = [delta for delta in deltas(workload) if delta.step == 8]
    gone = {int(name[1:]) for name in storm.finished_req_ids}
    assert gone == (set(range(32)) if pattern == "first_half" else set(range(0, 64, 2)))
    # THEN with a refill as many enter in the step that tells of the end: no hole is left
    assert len(storm.new_requests) == (32 if refill else 0)
    assert len(storm.num_scheduled_tokens) == (64 if refill else 32)


def test_mass_preempt_published() -> None:
    shapes = published("mass_preempt")
    preempted = {shape.step: shape.num_preempted for shape in shapes if shape.num_preempted}
    assert {step: preempted[step] for step in (1, 17, 33, 49)} == {1: 107, 17: 50, 33: 25, 49: 15}
    assert shapes[64].num_resumed == 81


def test_mass_preempt_with_48_tokens_resumes_128_at_once() -> None:
    shapes = published("mass_preempt", prompt_len=48, num_blocks=900)
    assert [shape.num_preempted for shape in shapes if shape.num_preempted][:4] == [32, 45, 30, 21]
    assert next(shape.num_resumed for shape in shapes if shape.num_resumed) == 128


def test_large_victims_are_preempted_one_a_step() -> None:
    shapes = published(
        "mass_preempt", num_reqs=128, prompt_len=512, output_len=512, num_blocks=4600, max_num_batched_tokens=8192
    )
    assert max(shape.num_preempted for shape in shapes) == 1
    assert sum(shape.num_preempted for shape in shapes) == 57
    assert max(shape.num_resumed for shape in shapes) == 13


def test_forced_reset_published() -> None:
    workload = made("forced_reset", **PUBLISHED["forced_reset"])
    assert workload.events == (ForcedReset(60), ForcedReset(120), ForcedReset(180))
    shapes = dry_run(workload)
    assert {shape.step: shape.num_preempted for shape in shapes if shape.num_preempted} == {60: 128, 120: 128, 180: 128}
    back = [shape for shape in shapes if shape.num_resumed and shape.step < 120]
    assert [shape.num_resumed for shape in back] == [15, 14, 14, 15, 14, 14, 15, 14, 13]
    assert all(7900 < shape.resent_tokens < 8600 for shape in back[:-1])


@pytest.mark.parametrize(
    ("parameters", "watermark"), [({}, 0.05), (PUBLISHED["thrash"], 0.02)], ids=["default", "published"]
)
def test_thrash_hangs_on_one_knob(parameters: dict, watermark: float) -> None:
    def preemptions(**knob: object) -> int:
        return sum(shape.num_preempted for shape in dry_run(made("thrash", **parameters, **knob)))

    careful, default, greedy = preemptions(watermark=watermark), preemptions(), preemptions(reserve_full_input=False)
    assert careful < default
    assert greedy >= 10 * default > 0


def chunks(**changes: object) -> list[int]:
    workload = made("chunked", **{**PUBLISHED["chunked"], "long_output_len": 1, **changes})
    counts = (delta.num_scheduled_tokens.get("L0", 0) for delta in deltas(workload))
    scheduled = list(counts)
    first = next(step for step, count in enumerate(scheduled) if count)
    return scheduled[first:]


def trimmed(counts: list[int]) -> list[int]:
    while counts[-1] == 0:
        counts = counts[:-1]
    return counts


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"num_reqs": 1}, [2048] * 4 + [1808]),
        ({"num_reqs": 65}, [1953, *[1984] * 4, 111]),
        ({"num_reqs": 1, "long_prefill_token_threshold": 512}, [2048] * 4 + [1808]),
    ],
    ids=["alone", "beside 64", "threshold alone"],
)
def test_chunked_published(changes: dict, expected: list[int]) -> None:
    assert trimmed(chunks(**changes)) == expected


def test_short_extend_published() -> None:
    stream = list(deltas(made("short_extend", **PUBLISHED["short_extend"])))
    assert [delta.num_scheduled_tokens["L0"] for delta in stream[:4]] == [3333, 3333, 3333, 1]
    # THEN in the step of the last chunk all but the first of the others have one token left too, after a hit of 512
    hits = {new.req_id: new.num_computed_tokens for new in stream[3].new_requests}
    assert hits == {"r0": 0} | {f"r{i}": 512 for i in range(1, 16)}
    assert all(stream[3].num_scheduled_tokens[f"r{i}"] == 1 for i in range(1, 16))


def test_prefix_storm_published() -> None:
    shapes = published("prefix_storm")
    assert [(shape.num_reqs, shape.num_tokens) for shape in shapes[:3]] == [(4, 8192), (128, 8192), (254, 8192)]
    assert shapes[1].blocks_installed == 16_387


def test_graph_edge_steps_down_the_stairs() -> None:
    sizes = [shape.num_reqs for shape in published("graph_edge", hold=5)]
    stairs = [513, 512, 257, 256, 249, 248, 17, 16, 9, 8]
    assert sizes[1:-1] == [size for size in stairs for _ in range(5)]
    assert all(large >= small for large, small in pairwise(sizes))


def test_one_long_row_among_short_ones() -> None:
    workload = made("long_row", num_reqs=20, long_len=1000, short_len=70, output_len=30)
    assert [r.prompt_len + r.output_len for r in workload.requests] == [1000] + [70] * 19
    assert workload.scheduler.max_model_len == 131_072


@pytest.mark.parametrize(
    ("slug", "parameters", "words"),
    [
        ("stedy", {}, "regime 'stedy' is unknown; known ones are steady, alternating, condense_storm, mass_preempt"),
        ("steady", {"rows": 3}, "workload steady: Object contains unknown field `rows`; its parameters are"),
        ("steady", {"num_reqs": "many"}, "workload steady: Expected `int`, got `str` - at `\\$.num_reqs`"),
        ("steady", {"num_reqs": 3000}, "max_num_batched_tokens 2048 must exceed the 3000 rows.*; raise it, or"),
        ("steady", {"block_size": 0}, "regime steady: block_size is 0"),
        ("chunked", {"long_prompt_len": 9000}, "request L0: its prompt of 9000 tokens.*max_model_len 8192"),
        ("condense_storm", {"num_reqs": 200}, "one step must admit them all"),
        ("graph_edge", {"sizes": (8, 9)}, "sizes \\(8, 9\\) must descend"),
        ("graph_edge", {"sizes": (8, 0)}, "sizes is \\(8, 0\\)"),
        ("churn", {"output_lens": ()}, "regime churn: output_lens is \\(\\);.*no empty list"),
        ("prefix_storm", {"suffix_len": 300}, "suffix_len 300 exceeds prefix_len 256"),
        ("long_row", {"short_len": 40}, "must exceed output_len 40"),
        ("mass_preempt", {"num_blocks": 3}, "set num_blocks to at least 6"),
        ("steady", {"num_reqs": 0}, "regime steady: num_reqs is 0; use at least 1"),
        ("thrash", {"prompt_low": 600}, "regime thrash: prompt_high and output_high must not"),
    ],
)
def test_unfit_parameters_end_in_one_line(slug: str, parameters: dict, words: str) -> None:
    with pytest.raises(UsageError, match=words) as caught:
        made(slug, **parameters)
    assert "\n" not in str(caught.value)


def test_hybrid_published() -> None:
    # GIVEN the row with three groups: 16 requests that share 2048 tokens
    steps = list(deltas(made("hybrid", **PUBLISHED["hybrid"])))
    # THEN the second step admits 15 rows of 133 blocks a group, of which 120 and 64 are null below the windows
    rows = [new.block_ids for new in steps[1].new_requests]
    assert len(rows) == 15
    assert [len(group) for group in rows[0]] == [133, 133, 133]
    assert [group.count(0) for group in rows[0]] == [0, 120, 64]


def test_kernel_blocks_change_nothing_for_the_scheduler() -> None:
    shapes, plain = (dry_run(made("kernel_blocks", kernel_block_size=size)) for size in (8, 32))
    assert shapes == plain
    assert made("kernel_blocks").parameters["kernel_block_size"] == 16
