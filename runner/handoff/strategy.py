"""The switch `token_handoff`: how far the host runs ahead of the device, and how a token gets from step to step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import torch

from ...errors import UsageError
from ..buffers.ports import InputBuffer
from ..config import TokenHandoff
from ..devices.base import Device
from ..inputs.flat_indices import FlatIndices
from ..inputs.step_inputs import IntArray
from .plan import PreviousStep, TokensWanted, tokens_wanted
from .roads import HandoffRoad, ScatterRoad, SliceRoad

Refill = Callable[[], None]
"""Gathers the step's input ids from the history once more."""


class Handoff(Protocol):
    """Fills the input ids that the host does not have.

    depth  steps that may be in flight
    """

    depth: int

    def plan(
        self, req_ids: tuple[str, ...], scheduled: IntArray, flat: FlatIndices, input_ids: IntArray, refill: Refill
    ) -> bool:
        """Look for placeholders in the gathered `input_ids` [Q]. True when the host's copy has a token to send."""
        ...

    def prepare(self) -> None:
        """Send what `apply` needs; called while the step's copies to the device are enqueued."""
        ...

    def apply(self, input_ids: torch.Tensor) -> None:
        """Called behind the copies and before the forward: put the tokens into the step's `input_ids` on the device."""
        ...

    def submitted(self, previous: PreviousStep, collect: Callable[[], None]) -> None:
        """The step was enqueued: the next one takes its tokens from it, or has `collect` wait for them."""
        ...


class SyncHandoff:
    """Every token comes back to the host before the next step begins: nothing is ever missing."""

    depth = 1

    def plan(
        self, req_ids: tuple[str, ...], scheduled: IntArray, flat: FlatIndices, input_ids: IntArray, refill: Refill
    ) -> bool:
        """The host has everything."""
        return True

    def prepare(self) -> None:
        """Nothing."""

    def apply(self, input_ids: torch.Tensor) -> None:
        """Nothing."""

    def submitted(self, previous: PreviousStep, collect: Callable[[], None]) -> None:
        """Nothing to remember."""


class DeviceHandoff:
    """Tokens of the step before are moved on the device, by one of two roads; either may be absent.

    `in_place` is taken where every row stands where it stood in the step before, `anywhere` otherwise. Where the road
    that is needed is absent, the host waits for the step before: so does a hand-off by slices alone when rows move.
    """

    depth = 2

    def __init__(self, in_place: HandoffRoad | None, anywhere: HandoffRoad | None) -> None:
        self._in_place = in_place
        self._anywhere = anywhere
        self._previous: PreviousStep | None = None
        self._collect: Callable[[], None] | None = None
        self._wanted: TokensWanted | None = None
        self._road: HandoffRoad | None = None

    def plan(
        self, req_ids: tuple[str, ...], scheduled: IntArray, flat: FlatIndices, input_ids: IntArray, refill: Refill
    ) -> bool:
        """Choose the road of this step."""
        wanted = tokens_wanted(req_ids, scheduled, flat, input_ids, self._previous)
        self._wanted = self._road = None
        if wanted is None:
            return True
        road = self._in_place if wanted.in_place and self._in_place is not None else self._anywhere
        if road is None:
            assert self._collect is not None, "a step that has a token to give was submitted"
            self._collect()
            refill()
            return True
        self._wanted, self._road = wanted, road
        return wanted.count < flat.num_tokens

    def prepare(self) -> None:
        """Enqueue what the road needs."""
        if self._road is not None and self._wanted is not None:
            self._road.prepare(self._wanted)

    def apply(self, input_ids: torch.Tensor) -> None:
        """Take the road."""
        if self._road is not None and self._wanted is not None and self._previous is not None:
            self._road.apply(self._wanted, self._previous.slot.sampled, input_ids)

    def submitted(self, previous: PreviousStep, collect: Callable[[], None]) -> None:
        """Remember the step for the next one."""
        self._previous, self._collect = previous, collect


def make_handoff(kind: TokenHandoff, device: Device, pairs: Callable[[], InputBuffer]) -> Handoff:
    """The strategy named by the switch; `pairs` makes the buffer of the map where one is needed."""
    if kind == "sync":
        return SyncHandoff()
    if kind == "async_slice":
        return DeviceHandoff(SliceRoad(device), None)
    if kind == "async_scatter":
        return DeviceHandoff(None, ScatterRoad(device, pairs()))
    if kind == "async_auto":
        return DeviceHandoff(SliceRoad(device), ScatterRoad(device, pairs()))
    raise UsageError(
        f"token_handoff: unknown value {kind!r}; known are sync, async_slice, async_scatter, async_auto"
    )
