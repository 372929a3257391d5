"""The process of one arm: it builds points and runs blocks of them when told, and times nothing but its own steps.

The gate runs its own copy of this file inside the package of the arm (another commit, another interpreter): all that is
imported here is the arm's. So that older commits can be arms it asks little of them: `Session` with `block`, `finish`.

    {"do": "open", "tree": {...}, "folder": DIR}      -> {"ok": true, "parameters": ..., "environment": ..., ...}
    {"do": "block", "settle": 3, "steps": 50}         -> {"ok": true, "first": number of the first counted step}
    {"do": "close"}                                   -> {"ok": true}; the recording is in DIR
    {"do": "end"}, or the end of the input            -> the process ends
    any failure                                       -> {"ok": false, "kind": "oom" | "usage" | "error", "reason": ...}
"""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

import msgspec

from ...errors import UsageError
from ...runner.models.weights import shared_weights
from ..loop import LoopLimits
from ..resolve import resolve
from ..session import Session

Reply = dict[str, Any]


class Worker:
    """At most one point at a time; weights are kept from point to point."""

    def __init__(self) -> None:
        self._session: Session | None = None

    def answer(self, request: Mapping[str, Any]) -> Reply:
        """Do what `request` asks; a failure is an answer, too."""
        try:
            return {"ok": True, **getattr(self, f"_{request['do']}")(request)}
        except Exception as error:  # noqa: BLE001 - whatever the arm's code does is the gate's finding
            return {"ok": False, "kind": _kind(error), "reason": _line(error)}

    def _open(self, request: Mapping[str, Any]) -> Reply:
        spec = resolve(request["tree"])
        session = self._session = Session(spec, Path(request["folder"]))
        session.activate()
        session.run(LoopLimits(warmup_steps=session.warmup_steps, steps=0))
        session.hand_over()
        meta = session.meta_of(spec, None)
        return {
            "parameters": msgspec.to_builtins(spec), "environment": dict(meta.environment), "device": meta.device,
            "modelled": meta.modelled, "calibration": meta.calibration,
        }  # fmt: skip

    def _block(self, request: Mapping[str, Any]) -> Reply:
        session = self._opened()
        first = session.loop.num_steps + int(request["settle"])
        session.block(int(request["settle"]), int(request["steps"]))
        return {"first": first, "ran": session.loop.num_steps - first - 1}

    def _close(self, request: Mapping[str, Any]) -> Reply:
        session = self._opened()
        session.finish(own_costs=False)
        session.close()
        self._session = None
        del session
        gc.collect()
        return {}

    def _opened(self) -> Session:
        if self._session is None:
            raise UsageError("gate worker: no point is open")
        return self._session


def _kind(error: Exception) -> str:
    if isinstance(error, MemoryError) or "out of memory" in str(error).lower():
        return "oom"
    return "usage" if isinstance(error, UsageError) else "error"


def _line(error: Exception) -> str:
    text = " ".join(str(error).split())
    return text if isinstance(error, UsageError) else f"{type(error).__name__}: {text}"


def serve(requests: TextIO, replies: TextIO) -> None:
    """Greet, then answer line by line until the input ends or "end" comes."""
    worker = Worker()
    package = Path(sys.modules[Session.__module__].__file__ or "").resolve().parents[1]
    _say(replies, {"ok": True, "package": str(package), "python": sys.version.split()[0]})
    with shared_weights():
        for line in requests:
            request = json.loads(line)
            if request["do"] == "end":
                break
            _say(replies, worker.answer(request))


def _say(replies: TextIO, reply: Reply) -> None:
    replies.write(json.dumps(reply) + "\n")
    replies.flush()


def main() -> int:
    """Serve on the standard streams; what the arm's code prints goes to stderr. Ctrl-C is the gate's to answer."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    replies = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    serve(sys.stdin, replies)
    return 0
