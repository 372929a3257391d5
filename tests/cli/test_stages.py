"""Progress of `perf sizes` where no terminal is."""

from types import SimpleNamespace

import pytest
from stepscope.cli.stages import LINE_EVERY_S, Stages


def test_lines_now_and_then_with_the_time_that_is_left(capsys: pytest.CaptureFixture[str]) -> None:
    now = SimpleNamespace(s=0.0)
    asked = SimpleNamespace(requested=False)
    with Stages(asked, lambda: now.s) as stages:  # type: ignore[arg-type]
        stages.note("two lists")
        stages.begin("steps run", 40)
        for done, at_s in ((0, 0.0), (4, 0.1), (10, LINE_EVERY_S), (11, LINE_EVERY_S + 0.1), (20, 2 * LINE_EVERY_S)):
            now.s = at_s
            stages.to(done)
        stages.end()
        stages.to(30)  # of no stage
        asked.requested = True
        assert stages.interrupted
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.splitlines() == ["two lists", "steps run: 10 of 40 (6 s left)", "steps run: 20 of 40 (4 s left)"]
