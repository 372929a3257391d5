"""When prompts are computed, where they leave decodes alone for some steps (vLLM 0.33: prefill_schedule_interval)."""

from __future__ import annotations

from collections.abc import Iterable

from .state import RequestState


class PrefillCadence:
    """Holds prompts back until `interval` steps have run since the last one that computed a part of one.

    Nothing is held while no request of the batch decodes, nor while the queue is backed up: a step that admitted could
    not empty it, and holding would make it grow without bound. Steps that schedule nothing do not count.

    prefill    set by the scheduler: this step computes a part of a prompt, or of a history that is computed anew
    backed_up  set by the scheduler at the end of an admission that was not held
    """

    __slots__ = ("_interval", "_last", "_steps", "backed_up", "prefill")

    def __init__(self, interval: int) -> None:
        self._interval = interval
        self._steps = 0
        self._last = -interval
        self.prefill = False
        self.backed_up = False

    def holds(self, running: Iterable[RequestState]) -> bool:
        """Whether the step that is about to be scheduled leaves prompts alone."""
        self.prefill = False
        if self._interval == 1 or self.backed_up or self._steps + 1 - self._last >= self._interval:
            return False
        return any(not state.partial for state in running)

    def note(self, scheduled: bool) -> None:
        """The step has been put together."""
        self._steps += scheduled
        if self.prefill:
            self._last = self._steps
