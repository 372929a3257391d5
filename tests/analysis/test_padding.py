"""Token waste and time waste on a staircase that goes down as well as up."""

from __future__ import annotations

import pytest
from stepscope.analysis.curves import curve
from stepscope.analysis.padding import padding
from stepscope.analysis.tables import plain

CURVE = {1: 400, 128: 600, 192: 645, 256: 644, 257: 709, 512: 720}


def calibration(name: str = "graph_ns", curve: dict[int, int] = CURVE, model: str = "m/", kernels: bool = True):
    return [{"name": name, "key": f"{model}{size}", "value": float(time), "unit": "ns",
             "kernel_hash": ("a" if size < 257 else "b") if kernels else None} for size, time in curve.items()]


def decided(*steps: tuple[int, int | None, str]):
    """(tokens, captured size, mode) of each step."""
    return {
        "steps": [{"step": n, "complete": True, "num_tokens": tokens, "padded_tokens": size or tokens}
                  for n, (tokens, size, _) in enumerate(steps)],
        "dispatch": [{"step": n, "num_tokens": tokens, "size": size, "mode": mode,
                      "reason": "hit" if size else "above_max"} for n, (tokens, size, mode) in enumerate(steps)],
    }


def test_waste_by_size_may_be_negative_and_is_not_interpolated(source) -> None:
    # GIVEN 130 tokens: the next measured size above is 192 (645), not the line between 128 and 192
    made = decided((130, 256, "full"), (250, 256, "full"), (200, 512, "full"), (600, None, "none"))
    found = padding(source(**made, calibration=calibration()))
    rows = [{name: plain(value) for name, value in row.items()} for row in found.sizes.to_dict("records")]
    assert [row["size"] for row in rows] == [256, 512]
    counts = ("steps", "tokens", "padded_tokens", "wasted_tokens")
    assert [rows[0][name] for name in counts] == [2, 380, 512, 132]
    assert rows[0]["token_share"] == 132 / 512
    assert rows[0]["time_waste_ns"] == (644 - 645) + (644 - 644)
    assert rows[0]["envelope_waste_ns"] == 0  # the envelope at 192 is 644
    assert rows[0]["other_kernels"] == 0
    assert rows[1]["time_waste_ns"] == 720 - 644
    assert rows[1]["time_share"] == 76 / 720
    assert rows[1]["other_kernels"] == 1
    assert (found.replayed_steps, found.eager_steps) == (3, 1)
    assert found.time_waste_ns == 75
    assert found.time_waste_mean_ns == 25
    assert found.token_share == (132 + 312) / (512 + 512)
    assert found.replay_saving_ns is None
    assert rows[0]["reason"] == "no curve eager_span_ns in the table calibration"


def test_saving_against_eager(source) -> None:
    eager = calibration("eager_span_ns", {128: 690, 256: 700})
    found = padding(source(**decided((100, 128, "piecewise")), calibration=calibration() + eager))
    assert found.replay_saving_ns == 690 - 600
    assert found.reason is None


def test_dispatch_shares_over_counted_steps(source) -> None:
    made = decided((8, 8, "full"), (8, 8, "full"), (9, None, "none"), (8, 8, "full"))
    made["steps"][0]["warmup"] = True
    table = padding(source(**made)).dispatch
    assert table[["mode", "reason", "steps"]].values.tolist() == [["full", "hit", 2], ["none", "above_max", 1]]
    assert table["share"].tolist() == [2 / 3, 1 / 3]


@pytest.mark.parametrize(("rows", "reason"), [
    ([], "no curve graph_ns in the table calibration"),
    (calibration(model="a/") + calibration(model="b/"),
     "curves graph_ns of several models in the table calibration: a, b"),
    (calibration(curve={1: 5, 100: 6}), "size 256 lies above the largest measured size 100"),
])
def test_time_is_null_with_the_reason(source, rows: list, reason: str) -> None:
    found = padding(source(**decided((130, 256, "full")), calibration=rows))
    assert found.time_waste_ns is None
    assert found.reason == reason
    assert found.sizes.iloc[0]["reason"] == reason
    assert found.sizes[["time_waste_ns", "envelope_waste_ns", "time_share"]].isna().all(axis=None)
    assert found.token_share == 126 / 256


def test_envelope_never_rises_to_the_left(source) -> None:
    found, _ = curve(source(calibration=calibration()).table("calibration"), "graph_ns")
    assert found.envelope_ns().tolist() == [400, 600, 644, 644, 709, 720]


def test_no_hashes_no_word_on_kernels(source) -> None:
    made = source(**decided((130, 256, "full")), calibration=calibration(kernels=False))
    assert padding(made).sizes["other_kernels"].isna().all()


def test_nothing_replayed(source) -> None:
    found = padding(source(**decided((8, None, "none"))))
    assert (found.replayed_steps, found.eager_steps, found.token_share) == (0, 1, None)
    assert found.reason == "no graph was replayed in a counted step"
    assert padding(source()).replayed_steps == 0


OWN = {"full/512/300": 900, "full/300/300": 850, "full/8/8": 400, "full/512/400": 880, "full/400/400": 890}
EAGER = {"full/512/300": 1700, "full/8/8": 1500, "full/512/400": 1800}


def own(times: dict[str, int] = OWN, eager: dict[str, int] = EAGER):
    """Rows that a run on a GPU measured itself; the actual size of 300 chose other kernels."""
    hashes = {key: ("a" if key.startswith("full/300") else "b") for key in times}
    rows = [("replay_ns", key, time, hashes[key]) for key, time in times.items()]
    rows += [("eager_ns", key, time, None) for key, time in eager.items()]
    return [{"name": name, "key": key, "value": float(time), "unit": "ns", "kernel_hash": kernels}
            for name, key, time, kernels in rows]


def test_what_the_run_measured_itself_goes_before_a_calibration(source) -> None:
    # GIVEN 300 and 400 tokens at 512 (50 ns lost, 10 ns won), an exact hit, and a curve that says something else
    made = decided((300, 512, "full"), (300, 512, "full"), (400, 512, "full"), (8, 8, "full"))
    found = padding(source(**made, calibration=own() + calibration()))
    assert found.origin == "measured in the run"
    assert (found.time_waste_ns, found.timed_steps) == (2 * 50 - 10, 4)
    assert found.time_waste_mean_ns == 22.5
    assert found.envelope_waste_ns == 2 * 50  # the padded size is the better one for 400 tokens
    assert found.replay_saving_ns == 2 * 800 + 920 + 1100
    assert found.reason is None
    rows = found.sizes.to_dict("records")
    assert [row["time_waste_ns"] for row in rows] == [0, 90]
    assert [row["other_kernels"] for row in rows] == [0, 2]
    assert rows[1]["time_share"] == 90 / (900 + 900 + 880)


def test_a_shape_that_was_not_measured_is_left_out_and_said(source) -> None:
    # 301 tokens lie between measured sizes: nothing is interpolated
    made = decided((300, 512, "full"), (301, 512, "full"), (8, 8, "full"))
    found = padding(source(**made, calibration=own()))
    assert (found.time_waste_ns, found.timed_steps, found.replayed_steps) == (50, 2, 3)
    assert found.reason == "1 of 3 steps have token counts that carry less than 1 % of the run each: not timed"
    assert found.sizes["timed_steps"].tolist() == [1, 1]


def test_a_mode_of_its_own_is_no_measurement_of_another(source) -> None:
    found = padding(source(**decided((300, 512, "piecewise")), calibration=own()))
    assert (found.time_waste_ns, found.timed_steps) == (None, 0)
    assert found.time_waste_mean_ns is None
    assert found.reason.startswith("1 of 1 steps")


def test_saving_needs_every_timed_step_eager(source) -> None:
    made = decided((300, 512, "full"), (8, 8, "full"))
    found = padding(source(**made, calibration=own(eager={"full/8/8": 1500})))
    assert (found.time_waste_ns, found.replay_saving_ns) == (50, None)
    assert found.reason == "no eager time of every shape in this run"
    assert found.sizes["replay_saving_ns"].tolist()[0] == 1100
