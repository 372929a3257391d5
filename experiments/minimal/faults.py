"""Faults to plant into a step, one for each of the article's invariants: to see that its check fires."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ...runner.inputs.step_inputs import StepInputs
from ...runner.model_runner import ModelRunner
from ...runner.probe_points import PointName

Plant = Callable[[ModelRunner, dict[str, object]], None]


@dataclass(frozen=True, slots=True)
class Fault:
    """`plant` is called with the facts of `point`, which are live; the check called `breaks` must then fail."""

    doc: str
    breaks: str
    point: PointName
    plant: Plant


def _inputs(facts: dict[str, object]) -> StepInputs:
    inputs = facts["inputs"]
    assert isinstance(inputs, StepInputs)
    return inputs


def _wrong_row(runner: ModelRunner, facts: dict[str, object]) -> None:
    rows = runner.state.batch.row_of
    first = next(iter(rows))
    rows[first] += 1


def _wrong_history(runner: ModelRunner, facts: dict[str, object]) -> None:
    runner.state.batch.token_ids.values[0, 0] ^= 1


def _lost_token(runner: ModelRunner, facts: dict[str, object]) -> None:
    _inputs(facts).num_tokens -= 1


def _falling_boundary(runner: ModelRunner, facts: dict[str, object]) -> None:
    _inputs(facts).query_start_loc[-1] = 0


def _shifted_position(runner: ModelRunner, facts: dict[str, object]) -> None:
    _inputs(facts).positions[0] += 1


def _short_length(runner: ModelRunner, facts: dict[str, object]) -> None:
    _inputs(facts).seq_lens[0] -= 1


def _slot_plus_one(runner: ModelRunner, facts: dict[str, object]) -> None:
    inputs = _inputs(facts)
    inputs.slot_mapping[: inputs.num_tokens] += 1


def _discard_off(runner: ModelRunner, facts: dict[str, object]) -> None:
    discard = _inputs(facts).discard
    discard[:] = ~discard


FAULTS: dict[str, Fault] = {
    "wrong_row": Fault("the map from request to row is off by one", "row_bijection", "slot_mapping", _wrong_row),
    "wrong_history": Fault("a row holds another request's token", "row_ownership", "slot_mapping", _wrong_history),
    "lost_token": Fault("the flat stream is one token short", "token_total", "slot_mapping", _lost_token),
    "falling_boundary": Fault(
        "query_start_loc falls at its end", "query_boundaries", "slot_mapping", _falling_boundary
    ),
    "shifted_position": Fault(
        "the first token's position is off by one", "positions", "slot_mapping", _shifted_position
    ),
    "short_length": Fault("a sequence ends before its last token", "seq_lens_capacity", "slot_mapping", _short_length),
    "slot_plus_one": Fault("every KV write lands one slot further", "slot_ownership", "slot_mapping", _slot_plus_one),
    "discard_off": Fault("the discard mask is inverted", "discard", "slot_mapping", _discard_off),
}
