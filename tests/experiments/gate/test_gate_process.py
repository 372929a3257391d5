"""An arm's process: what it answers, and every way in which it may end instead."""

from __future__ import annotations

import os
import signal

import pytest
from stepscope.experiments.gate import process
from stepscope.experiments.gate.arms import parse_arm, program
from stepscope.experiments.gate.process import ArmFailed, ArmProcess

ECHO = """
import json, os, sys, time
def main():
    print(json.dumps({"ok": True, "package": "p"}), flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        if request["do"] == "end":
            return 0
        exec(request["do"])
"""


@pytest.fixture
def arm(tmp_path, monkeypatch):
    worker = tmp_path / "worker.py"
    worker.write_text(ECHO)
    monkeypatch.setattr(process, "WORKER", worker)
    started = ArmProcess("head", program(parse_arm("head", []), tmp_path), tmp_path / "log.txt")
    assert started.receive(60) == {"ok": True, "package": "p"}
    yield started
    started.close()


def failure(arm, do, timeout_s=60.0):
    with pytest.raises(ArmFailed) as failed:
        arm.ask({"do": do}, timeout_s)
    return failed.value.kind, str(failed.value)


def test_it_answers_and_somebody_may_watch_meanwhile(arm):
    looks = []
    reply = arm.ask({"do": "time.sleep(0.1); print(json.dumps({'ok': True, 'n': 3}), flush=True)"}, 60,
                    lambda: looks.append(1))  # fmt: skip
    assert reply["n"] == 3
    assert looks


def test_a_failure_is_told_with_its_kind(arm):
    do = "print(json.dumps({'ok': False, 'kind': 'oom', 'reason': 'no memory'}), flush=True)"
    assert failure(arm, do) == ("oom", "oom: no memory")


def test_an_end_is_told_with_the_last_words(arm):
    assert failure(arm, "sys.exit('a last word')") == ("ended", "ended: with exit code 1; a last word")
    assert failure(arm, "0")[0] == "ended"  # nobody is there any more


def test_a_kill_is_told(arm):
    os.kill(arm.pid, signal.SIGKILL)
    assert failure(arm, "0") == ("killed", "killed: by signal 9; it said nothing")


def test_garbage_is_no_answer(arm):
    assert failure(arm, "print('[1, 2]', flush=True)")[0] == "garbage"
    assert failure(arm, "print('{}', flush=True)")[0] == "garbage"


def test_who_does_not_answer_in_time_is_ended(arm, monkeypatch):
    monkeypatch.setattr(process, "_GRACE_S", 0.1)
    assert failure(arm, "time.sleep(60)", 0.2) == ("timeout", "timeout: no answer within 0.2 s")
    arm.close()
    with pytest.raises(ProcessLookupError):
        os.kill(arm.pid, 0)


def test_code_that_cannot_be_imported_is_told(tmp_path):
    broken = tmp_path / "checkout"
    (broken / "experiments").mkdir(parents=True)
    (broken / "experiments" / "session.py").write_text("")
    (broken / "__init__.py").write_text("raise RuntimeError('a broken commit')")
    started = ArmProcess("base", program(parse_arm("base", [f"checkout:{broken}"]), tmp_path), tmp_path / "log.txt")
    with pytest.raises(ArmFailed, match="ended: with exit code 1; RuntimeError: a broken commit"):
        started.receive(60)
    started.close()
