"""Builds what carries tokens from step to step: hand-off, output slots, drafts, and who corrects the counts."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ..instrumentation.probe.api import ProbeLike
from ..instrumentation.probe.ledger import Ledger
from ..workloads.acceptance import parse_acceptance
from .buffers.factory import BufferFactory
from .buffers.road import Road
from .buffers.small_inputs import Field, SmallInputs
from .config import Correction, RunnerConfig
from .devices.base import Device
from .handoff.outputs import OutputRing
from .handoff.strategy import Handoff, make_handoff
from .models.config import resolve_config
from .speculation.device_correction import CorrectedBuffers, CorrectingHandoff
from .speculation.device_drafts import FIELDS as DRAFT_FIELDS
from .speculation.device_drafts import DeviceDrafter, KnownTexts
from .speculation.drafter import Drafter, known_continuations, make_host_drafter
from .speculation.flight_map import FIELDS as MAP_FIELDS
from .speculation.synthetic import Continuations
from .speculation.verification import DraftPlacement, HostDrafts, NoDrafts, buffer_size


@dataclass(frozen=True, slots=True)
class FlightSite:
    """What these parts are built on. `road` is that of the step's input buffers `small`."""

    config: RunnerConfig
    device: Device
    probe: ProbeLike
    ledger: Ledger
    small: SmallInputs
    road: Road
    continuations: Continuations | None


@dataclass(frozen=True, slots=True)
class TokenFlight:
    """The parts."""

    handoff: Handoff
    drafts: DraftPlacement
    drafter: Drafter
    correction: Correction
    ring: OutputRing


def flight_fields(config: RunnerConfig, rows: int) -> list[Field]:
    """Small inputs that these parts add to a step's."""
    fields = []
    if config.token_handoff != "sync":
        per_row = MAP_FIELDS if config.correction == "device" else 2
        fields.append(Field("handoff_rows", per_row * rows, torch.int32))
    if config.num_drafts:
        fields.append(Field("drafts", buffer_size(config.max_num_seqs, config.num_drafts), torch.int32))
    return fields


def build_flight(site: FlightSite) -> TokenFlight:
    """The parts for the switches `token_handoff`, `speculative`, `acceptance` and `correction`."""
    config, small = site.config, site.small
    vocab_size = resolve_config(config.model).vocab_size
    handoff: Handoff
    if config.correction == "device":
        placement = HostDrafts(small["drafts"], config.num_drafts)
        handoff = _correcting(site, placement)
        return TokenFlight(
            handoff, placement, _device_drafter(site, vocab_size), config.correction, _ring(site, handoff, drafts=True)
        )
    handoff = make_handoff(config.token_handoff, site.device, lambda: small["handoff_rows"])
    drafts = HostDrafts(small["drafts"], config.num_drafts) if config.num_drafts else NoDrafts()
    drafter = make_host_drafter(config, site.probe, site.continuations, vocab_size)
    return TokenFlight(handoff, drafts, drafter, config.correction, _ring(site, handoff))


def _correcting(site: FlightSite, placement: HostDrafts) -> CorrectingHandoff:
    small = site.small
    buffers = CorrectedBuffers(
        small["handoff_rows"], small["input_ids"], small["positions"], small["seq_lens"], small["drafts"]
    )
    handoff = CorrectingHandoff(site.device, buffers, placement)
    site.road.arrivals.append(handoff.arrived)
    return handoff


def _device_drafter(site: FlightSite, vocab_size: int) -> DeviceDrafter:
    config, device = site.config, site.device
    acceptance = parse_acceptance(config.acceptance)
    assert acceptance is not None, "refused by validity: lookup needs the tokens on the host"
    texts = KnownTexts(known_continuations(config, site.continuations), acceptance, config.num_drafts, device)
    # Buffers of its own: they are copied behind the forward, when the guard of the step's copies is sealed long since.
    buffers = BufferFactory(device, site.ledger, config.staging, ring_slots=config.ring_slots)
    rows = buffers.buffer("draft_rows", DRAFT_FIELDS * config.max_num_seqs, torch.int32)
    return DeviceDrafter(device, site.probe, texts, acceptance, (config.num_drafts, vocab_size), rows)


def _ring(site: FlightSite, handoff: Handoff, *, drafts: bool = False) -> OutputRing:
    """Slots for the tokens of the steps in flight."""
    config = site.config
    return OutputRing(
        site.device, config.max_num_seqs, handoff.depth, pinned=config.staging != "pageable",
        width=config.decode_query_len, num_drafts=config.num_drafts if drafts else 0,
    )  # fmt: skip
