from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest
from stepscope.errors import UsageError
from stepscope.workloads.lengths import Empirical, LengthConfig, LogNormal, Normal, Uniform, Zipf
from stepscope.workloads.seeds import generator

COUNT = 20_000


def drawn(config: LengthConfig) -> np.ndarray:
    return config.draw(COUNT, generator(0, "lengths"))


@pytest.mark.parametrize(
    ("spec", "low", "high"),
    [
        ({"kind": "fixed", "value": 7}, 7, 7),
        ({"kind": "uniform", "low": 3, "high": 9}, 3, 9),
        ({"kind": "normal", "mean": 50.0, "stddev": 40.0, "min": 10, "max": 80}, 10, 80),
        ({"kind": "lognormal", "median": 100.0, "sigma": 2.0, "min": 5, "max": 900}, 5, 900),
        ({"kind": "zipf", "theta": 0.6, "min": 4, "max": 40}, 4, 40),
    ],
    ids=lambda value: value["kind"] if isinstance(value, dict) else None,
)
def test_draws_are_integers_that_reach_but_do_not_pass_the_limits(spec: dict, low: int, high: int) -> None:
    config = msgspec.convert(spec, LengthConfig)
    lengths = drawn(config)
    assert lengths.dtype == np.int64
    assert (lengths.min(), lengths.max()) == (low, high)
    assert np.array_equal(lengths, drawn(config))
    assert len(config.draw(0, generator(0, "none"))) == 0


def test_uniform_has_both_ends_and_its_mean() -> None:
    lengths = drawn(Uniform(low=1, high=4))
    assert np.bincount(lengths)[1:].min() > 0.24 * COUNT
    assert lengths.mean() == pytest.approx(2.5, abs=0.03)


def test_normal_has_its_moments_where_it_is_not_clipped() -> None:
    lengths = drawn(Normal(mean=1000.0, stddev=50.0))
    assert lengths.mean() == pytest.approx(1000, abs=1.5)
    assert lengths.std() == pytest.approx(50, rel=0.02)


def test_lognormal_has_its_median_and_the_spread_of_its_logarithm() -> None:
    lengths = drawn(LogNormal(median=1000.0, sigma=0.7))
    assert np.median(lengths) == pytest.approx(1000, rel=0.02)
    assert np.log(lengths).std() == pytest.approx(0.7, rel=0.02)


def test_zipf_weighs_ranks_by_their_power() -> None:
    # GIVEN theta 1 over three lengths: weights 1, 1/2, 1/3
    shares = np.bincount(drawn(Zipf(theta=1.0, min=10, max=12)))[10:] / COUNT
    assert shares == pytest.approx([6 / 11, 3 / 11, 2 / 11], abs=0.012)


def test_zipf_with_theta_0_is_even() -> None:
    assert np.bincount(drawn(Zipf(theta=0.0, min=1, max=4)))[1:] / COUNT == pytest.approx([0.25] * 4, abs=0.012)


def test_empirical_draws_what_the_file_holds(tmp_path: Path) -> None:
    (tmp_path / "plain.txt").write_text("3\n5\n\n900\n")
    (tmp_path / "named.csv").write_text("id,prompt tokens\na,3\nb,5\nc,900\n")
    for config in (
        Empirical(path=str(tmp_path / "plain.txt"), max=100),
        Empirical(path=str(tmp_path / "named.csv"), column="prompt tokens", max=100),
    ):
        assert np.unique(drawn(config)).tolist() == [3, 5, 100]


@pytest.mark.parametrize(
    ("text", "column", "words"),
    [
        ("3\nx\n", None, "line 2: 'x' is no length"),
        ("3\n0\n", None, "line 2: '0' is no length"),
        ("3\n99999999999999999999\n", None, "line 2: '99999999999999999999' is no length"),
        ('3\n"' + "x" * 200_000, None, "no text file of lengths"),
        ("", None, "no lengths in it"),
        ("a,b\n1,2\n", "c", "no column 'c'; it has a, b"),
        ("a,b\n1\n", "b", "line 2: '1' is no length"),
        ("12\n1,087\n", None, "line 2: '1,087' is no length"),
        ("a,b\nx,12\nx,1,087\n", "b", "line 3: 'x,1,087' is no length"),
    ],
)
def test_an_unfit_file_is_named_with_its_line(tmp_path: Path, text: str, column: str | None, words: str) -> None:
    (tmp_path / "lengths.csv").write_text(text)
    with pytest.raises(UsageError, match=f"lengths.csv.*{words}"):
        drawn(Empirical(path=str(tmp_path / "lengths.csv"), column=column))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"none\.csv: No such file"):
        drawn(Empirical(path=str(tmp_path / "none.csv")))


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"kind": "fixed", "value": 0}, "fixed: value is 0"),
        ({"kind": "uniform", "low": 0, "high": 3}, "uniform: low is 0"),
        ({"kind": "uniform", "low": 4, "high": 3}, "uniform: high 3 lies below low 4"),
        ({"kind": "normal", "mean": 1.0, "stddev": -1.0}, "normal: stddev is -1"),
        ({"kind": "lognormal", "median": 0.0, "sigma": 1.0}, "lognormal: median is 0"),
        ({"kind": "zipf", "theta": float("nan"), "min": 1, "max": 2}, "zipf: theta is nan"),
        ({"kind": "fixed", "value": 2**70}, "fixed: 1180591620717411303424 is more than 2147483647 tokens"),
        ({"kind": "uniform", "low": 1, "high": 2**63}, "uniform: 9223372036854775808 is more than"),
        ({"kind": "zipf", "theta": 1.0, "min": 1, "max": 2**62}, "zipf: .* is more than"),
        ({"kind": "empirical", "path": "x", "min": 5, "max": 4}, "empirical: max 4 lies below min 5"),
    ],
)
def test_unfit_settings_are_refused(spec: dict, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        msgspec.convert(spec, LengthConfig)


def test_unknown_keys_are_errors() -> None:
    with pytest.raises(msgspec.ValidationError, match="unknown field `range_ratio`"):
        msgspec.convert({"kind": "uniform", "low": 1, "high": 2, "range_ratio": 0.5}, LengthConfig)
