"""Who takes a signal inside the blocks that notice Ctrl-C and the end of a job, and behind them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from stepscope.experiments.interrupt import Interrupt, terminable

SIGNALS = (signal.SIGINT, signal.SIGTERM)


def handlers() -> list[object]:
    return [signal.getsignal(number) for number in SIGNALS]


def test_behind_the_block_signals_go_where_they_went() -> None:
    before = handlers()
    with Interrupt(signal.SIGTERM) as interrupt:
        assert not any(now is then for now, then in zip(handlers(), before, strict=True))
        os.kill(os.getpid(), signal.SIGTERM)
        assert interrupt.requested
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    with terminable():
        assert signal.getsignal(signal.SIGTERM) is not before[1]
    assert handlers() == before


TAKES_SIGTERM = """
#include <signal.h>
static void take(int number) {}
__attribute__((constructor)) static void loaded(void) { signal(SIGTERM, take); }
"""
BLOCKS = """
import os, signal
from stepscope.experiments.interrupt import Interrupt, terminable
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
