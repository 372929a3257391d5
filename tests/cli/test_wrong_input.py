"""What is not there, or is something else: one line that names it and the mend, whatever verb it was given to."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

READERS = {
    "run": ["run"], "sweep": ["sweep"], "step": ["step"], "sizes": ["sizes"], "report": ["report"],
    "import": ["import"], "trace": ["run", "--trace"], "claims": ["claims"], "history": ["history"],
}  # fmt: skip


@pytest.fixture
def inputs(tmp_path: Path) -> Path:
    (tmp_path / "folder").mkdir()
    for name in ("empty.yaml", "empty.csv", "empty.json", "empty.sqlite"):
        (tmp_path / name).touch()
    (tmp_path / "noise.yaml").write_bytes(bytes(range(128, 256)) * 4)
    (tmp_path / "noise.json").write_bytes(bytes(range(128, 256)) * 4)
    (tmp_path / "list.yaml").write_text("- 1\n- 2\n")
    (tmp_path / "cut.json").write_text('{"a":')
    return tmp_path


@pytest.mark.parametrize("verb", READERS)
def test_one_line_without_a_traceback(perf: Callable[..., object], inputs: Path, verb: str) -> None:
    for path in (*sorted(inputs.iterdir()), inputs / "nowhere.yaml"):
        ended = perf(*READERS[verb], path)
        assert ended.code == 2, (path.name, ended.err)
        lines = ended.err.splitlines()
        assert len(lines) == 1, lines
        assert path.name in lines[0]
        # AND what to do about it stands behind what is wrong, unless what is wrong says it
        assert any(sign in lines[0] for sign in (";", "expected", "holds no")), lines[0]


def test_help_by_its_short_name(perf: Callable[..., object]) -> None:
    for verb in ((), ("sizes",), ("gate", "plan")):
        short, long = perf(*verb, "-h"), perf(*verb, "--help")
        assert (short.code, short.out) == (0, long.out)


def test_an_output_file_is_out_everywhere(perf: Callable[..., object], tmp_path: Path) -> None:
    folder = Path(__file__).resolve().parents[2] / "examples" / "recordings" / "h200" / "decode"
    ended = perf("report", folder, "--format", "text", "--out", tmp_path / "page.txt")
    assert ended.code == 0, ended.err
    assert (tmp_path / "page.txt").read_text().startswith("decode")


def test_a_package_that_is_not_there(perf: Callable[..., object], monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object) -> None:
        raise ModuleNotFoundError("No module named 'yaml'", name="yaml.nodes")

    monkeypatch.setattr("stepscope.experiments.reporting.write_report", missing)
    ended = perf("report", "anything")
    told = "perf: the package PyYAML is not installed here, and this needs it; pip install PyYAML\n"
    assert (ended.code, ended.err) == (2, told)


def test_a_gpu_that_is_not_there_is_said_before_any_check(perf: Callable[..., object]) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is one")
    ended = perf("verify", "overlap", "--device", "cuda")
    assert (ended.code, ended.out) == (2, "")
    assert "use --device sim or cpu" in ended.err
