"""The calibration file: what loads, what it costs, and how a wrong one is refused."""

import json
from pathlib import Path

import pytest
from stepscope.errors import UsageError
from stepscope.instrumentation.recording.schema import CALIBRATION
from stepscope.runner.devices.base import Work
from stepscope.runner.devices.calibration import bundled_calibrations, load_calibration, parse_calibration, stair
from stepscope.runner.devices.calibration_rows import calibration_rows
from stepscope.runner.devices.costs import Cost, CostModel, split

ROUND = Path(__file__).parent / "data" / "round.json"


@pytest.fixture
def costs():
    return CostModel(load_calibration(str(ROUND)), "round")


def broken(change):
    """The round calibration with one thing changed in its decoded form."""
    document = json.loads(ROUND.read_text())
    change(document)
    return json.dumps(document)


@pytest.mark.parametrize(("n", "expected"), [(0, 10), (1, 10), (8, 10), (9, 20), (64, 20), (65, None)])
def test_a_staircase_takes_the_next_size_and_nothing_above_the_largest(n, expected):
    assert stair((8, 64), (10, 20), n) == expected


@pytest.mark.parametrize(("total", "parts"), [(0, 3), (11, 3), (240_002, 4), (5, 7)])
def test_splitting_loses_nothing(total, parts):
    shares = split(total, parts)
    assert sum(shares) == total
    assert len(shares) == parts
    assert max(shares) - min(shares) <= 1


@pytest.mark.parametrize(
    ("curve", "size", "cost"),
    [
        ("h2d_pinned", 4, Cost(4000, 3000, 1000)),  # below the first point: its constant
        ("h2d_pinned", 1000, Cost(4000, 3000, 1000)),
        ("h2d_pinned", 501_000, Cost(4000, 3000, 51_000)),  # halfway
        ("d2h_pinned", 501_000, Cost(3000, 3000, 102_000)),
        # The call takes 131 us, the transfer 101 us of them: its last byte lands 3 us after the call.
        ("h2d_pageable", 501_000, Cost(131_000, 3000 - 101_000, 101_000)),
    ],
)
def test_copies_lie_on_the_line_between_measured_points(costs, curve, size, cost):
    assert costs.copy(curve, size) == cost


def test_the_forward_costs_its_stair_and_what_attention_reads(costs):
    # G(9 tokens) is that of 64; A = 4000 + 0.5 x 1000 KV + 2000 + 0.25 x 40 pairs
    work = Work("forward", tokens=9, kv_tokens=1000, prefill_pairs=40)

    assert costs.full_graph(9, work) == Cost(10_000, 6000, 110_000 + 4500 + 2010)
    layers = costs.eager_layers(work)
    assert sum(cost.device_ns for cost in layers) == 110_000 + 4500 + 2010
    assert [cost.host_ns for cost in layers] == [60_001, 60_001, 60_000, 60_000]
    pieces = costs.piecewise_layers(9, work)
    assert [piece.device_ns for piece, _ in pieces] == [27_500] * 4
    assert sum(attention.device_ns for _, attention in pieces) == 6510
    assert {(piece.host_ns, attention.host_ns) for piece, attention in pieces} == {(4000, 5000)}


def test_the_lm_head_costs_the_product_over_its_places_and_the_gather_of_its_rows(costs):
    product, gather = (costs.calibration.models["round"].operations[kind].ns for kind in ("lm_head", "gather_hidden"))
    assert costs.operation(Work("lm_head", tokens=256, rows=1)).device_ns == product[-1] + gather[0]


def test_without_context_attention_adds_nothing(costs):
    assert costs.attention_ns(Work("forward", tokens=8)) == 0


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda c: c.stack_ns(257), "uncalibrated shape: 257 tokens for round .* the largest calibrated is 256"),
        (lambda c: c.eager_layers(Work("forward", tokens=300)), "uncalibrated shape: 300 eager tokens"),
        (lambda c: c.operation(Work("sample", rows=257)), "257 rows of sample"),
        (lambda c: c.operation(Work("fly")), "operation kind 'fly' is not calibrated.*known: fill, gather_hidden"),
        (lambda c: c.copy("h2d_pinned", 2_000_000), "h2d_pinned copy of 2000000 bytes .* is 1001000"),
        (lambda c: CostModel(c.calibration, "llama-9t"), "'llama-9t' is not calibrated on .*calibrated: round"),
    ],
)
def test_what_was_not_measured_is_refused_by_name(costs, ask, message):
    with pytest.raises(UsageError, match=message):
        ask(costs)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.pop("driver"), "missing required field `driver`"),
        (lambda d: d.update(colour="red"), "unknown field `colour`"),
        (lambda d: d["host_cost_ns"].update(launch=-1), r"Expected `int` >= 0 - at `\$.host_cost_ns.launch`"),
        (lambda d: d["host_cost_ns"].update(launch=1.5), r"Expected `int`, got `float` - at `\$.host_cost_ns.launch`"),
        (lambda d: d["models"]["round"]["graph_ns"].pop(), "models.round.graph_ns has 2 values for 3 sizes"),
        (lambda d: d["models"]["round"]["kernel_hash"].pop(), "models.round.kernel_hash has 2 values for 3 sizes"),
        (lambda d: d["models"]["round"]["sizes"].reverse(), "the sizes of models.round.graph_ns must ascend"),
        (lambda d: d["copy_curves"].update(d2h_pinned=[]), "copy_curves.d2h_pinned has 0 values for 0 sizes"),
    ],
)
def test_a_wrong_file_is_refused_with_its_name_and_field(change, message):
    with pytest.raises(UsageError, match=message) as caught:
        parse_calibration(broken(change), where="mine.json")
    assert str(caught.value).startswith("calibration mine.json: ")
    assert "\n" not in str(caught.value)


def test_files_that_are_not_there_or_not_json_are_refused(tmp_path):
    (tmp_path / "bad.json").write_bytes(b"\xff{")
    for name, message in (
        ("h9000", "'h9000' is not bundled"), (str(tmp_path / "none.json"), "No such file"),
        (str(tmp_path / "bad.json"), "bad.json"),
    ):
        with pytest.raises(UsageError, match=message):
            load_calibration(name)


def test_every_bundled_file_loads_and_names_its_machine():
    for name in bundled_calibrations():
        calibration = load_calibration(name)
        assert calibration.gpu
        assert calibration.models


def test_rows_carry_every_figure_in_the_schemas_order(costs):
    rows = calibration_rows(costs.calibration, "round")

    assert {len(row) for row in rows} == {len(CALIBRATION)}
    table = {row[:2]: row for row in rows}
    assert len(table) == len(rows)
    origin = ("Round Numbers 1", "1.2", "2026-01-02", "written by hand")
    assert table["graph_ns", "round/256"] == ("graph_ns", "round/256", 200_000.0, "ns", *origin, "b")
    assert table["launch_latency_ns", "graph"][2] == 6000.0
    assert table["host_cost_ns", "launch/slot_mapping"][2] == 12_000.0
    assert table["copy_device_ns", "h2d_pageable/1001000"][2] == 201_000.0
    assert table["decode_ns_per_kv_token", "round"][2:4] == (0.5, "ns each")
    assert calibration_rows(costs.calibration, "other") != rows
