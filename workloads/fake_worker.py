"""What a worker would answer: which requests sample, and how many drafts are right. Token values are made up."""

from __future__ import annotations

from collections.abc import Sequence

from .acceptance import num_right, parse_acceptance
from .step import StepDelta, StepResult
from .workload import Workload

_TOKEN = (1,)


class FakeWorker:
    """Answers the steps of one workload in order. Where its parameters name no acceptance, no draft is right."""

    def __init__(self, workload: Workload) -> None:
        self._k = workload.scheduler.num_speculative_tokens
        self._acceptance = parse_acceptance(str(workload.parameters.get("acceptance", "synthetic:none")))
        self._turns: dict[str, int] = {}
        self._outputs: dict[str, int] = {}
        self._right: dict[str, int] = {}  # of the drafts proposed last

    def run(self, delta: StepDelta, covered: Sequence[str]) -> StepResult:
        """The result of a step whose `covered` requests sample."""
        if not self._k:
            return StepResult(delta.step, dict.fromkeys(covered, _TOKEN))
        sampled = {req_id: self._verify(req_id, delta) for req_id in covered}
        drafts = _TOKEN * self._k
        return StepResult(delta.step, sampled, dict.fromkeys(covered, drafts))

    def _verify(self, req_id: str, delta: StepDelta) -> tuple[int, ...]:
        num_drafts = len(delta.scheduled_spec_decode_tokens.get(req_id, ()))
        tokens = _TOKEN * (1 + min(self._right.get(req_id, 0), num_drafts))
        outputs = self._outputs[req_id] = self._outputs.get(req_id, 0) + len(tokens)
        turn = self._turns.get(req_id, 0)
        self._turns[req_id] = turn + 1
        if self._acceptance is not None:
            self._right[req_id] = num_right(self._acceptance, (req_id, outputs), turn, self._k)
        return tokens
