"""Who takes a signal inside the blocks that notice Ctrl-C and the end of a job, and behind them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from stepscope.experiments import interrupt as interrupt_module
from stepscope.experiments.interrupt import AGAIN_NS, Interrupt, terminable

SIGNALS = (signal.SIGINT, signal.SIGTERM)


def handlers() -> list[object]:
    return [signal.getsignal(number) for number in SIGNALS]


def test_behind_the_block_signals_go_where_they_went() -> None:
    before = handlers()
    with Interrupt(signal.SIGTERM):
        assert not any(now is then for now, then in zip(handlers(), before, strict=True))
    with terminable():
        assert signal.getsignal(signal.SIGTERM) is not before[1]
    assert handlers() == before


@pytest.mark.parametrize("first", SIGNALS)
def test_what_timeout_sends_twice_is_one_request(monkeypatch: pytest.MonkeyPatch, first: signal.Signals) -> None:
    # GIVEN a signal that comes to the process, and as one of its group a moment later again
    now = [10**15]
    monkeypatch.setattr(interrupt_module, "monotonic_ns", lambda: now[0])
    with Interrupt(signal.SIGTERM) as interrupt:
        os.kill(os.getpid(), first)
        now[0] += AGAIN_NS - 1
        os.kill(os.getpid(), first)
        assert interrupt.requested
        # WHEN one comes later than that, THEN somebody has lost patience
        now[0] += 1
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    with terminable():
        for _ in range(2):
            with pytest.raises(KeyboardInterrupt):
                os.kill(os.getpid(), signal.SIGTERM)
            os.kill(os.getpid(), signal.SIGTERM)  # while everything is taken down
            now[0] += AGAIN_NS


TAKES_SIGTERM = """
#include <signal.h>
static void take(int number) {}
__attribute__((constructor)) static void loaded(void) { signal(SIGTERM, take); }
"""
BLOCKS = """
import os, signal
from stepscope.experiments import interrupt as interrupt_module
from stepscope.experiments.interrupt import AGAIN_NS, Interrupt, terminable
assert signal.getsignal(signal.SIGTERM) is None
for block in (Interrupt(signal.SIGTERM), terminable()):
    with block:
        os.kill(os.getpid(), signal.SIGTERM)
    print(getattr(block, "requested", "none"))
"""


def test_a_signal_that_a_library_takes_in_c_stays_with_it(tmp_path: Path) -> None:
    """A profiler's that was loaded before Python: Python knows no handler that it could give back."""
    source, library = tmp_path / "takes.c", tmp_path / "takes.so"
    source.write_text(TAKES_SIGTERM)
    try:
        subprocess.run(["cc", "-shared", "-fPIC", source, "-o", library], check=True)
    except FileNotFoundError:
        pytest.skip("no C compiler")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "LD_PRELOAD": str(library)}
    ended = subprocess.run([sys.executable, "-c", BLOCKS], env=environment, capture_output=True, text=True)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "False\nnone\n", "")
