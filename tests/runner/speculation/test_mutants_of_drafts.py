"""Planted faults of speculation: each is found by the check of its name, or changes the text."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from stepscope.errors import BrokenInvariant, UsageError
from stepscope.runner.handoff.history import SingleTokens
from stepscope.runner.sampling import rejection, rejection_sampler
from stepscope.runner.sampling.rejection import Verified
from stepscope.runner.speculation import device_correction, verification
from stepscope.runner.speculation.correction import HostCorrection
from stepscope.runner.speculation.device_correction import CorrectingHandoff
from stepscope.runner.speculation.device_drafts import DeviceDrafter
from stepscope.runner.speculation.flight_map import FlightMap, FlownStep
from stepscope.runner.speculation.runs import TokenRuns
from stepscope.runner.speculation.verification import HostDrafts
from stepscope.runner.state.columns import PrefixColumn
from stepscope.workloads.scheduler import intake
from stepscope.workloads.scheduler import scheduler as scheduling

SYNC = {"speculative": 3, "acceptance": "synthetic:0.6"}
HOST = SYNC | {"token_handoff": "async_auto", "correction": "host"}
DEVICE = SYNC | {"token_handoff": "async_auto", "correction": "device"}


def wrap(patch, owner, name, change):
    """Replace `name` by what `change` makes of the original."""
    patch.setattr(owner, name, change(getattr(owner, name)))


def bonus_dropped(patch):
    def change(verify):
        def without_bonus(*args):
            verified = verify(*args)
            tokens = verified.tokens.clone()
            full = tokens[:, -1] >= 0
            tokens[full, -1] = -1
            return Verified(tokens, verified.num_accepted)
        return without_bonus
    wrap(patch, rejection_sampler, "verify_greedy", change)


def one_accepted_too_few(patch):
    wrap(patch, rejection, "_leading", lambda leading: lambda kept: (leading(kept) - 1).clamp(min=0))


def one_accepted_too_many(patch):
    wrap(patch, rejection, "_leading", lambda leading: lambda kept: (leading(kept) + 1).clamp(max=kept.shape[1]))


def residual_of_the_wrong_place(patch):
    """The token behind the accepted drafts is another place's."""
    def change(verify):
        def earlier(targets, first, drafts):
            verified = verify(targets, first, drafts)
            rows = torch.arange(drafts.shape[0])
            tokens = verified.tokens.clone()
            tokens[rows, verified.num_accepted] = targets[first.long()]
            return Verified(tokens, verified.num_accepted)
        return earlier
    wrap(patch, rejection_sampler, "verify_greedy", change)


def rejected_tokens_shown(patch):
    patch.setattr(rejection, "_cut", lambda tokens, accepted: tokens)


def counts_not_rolled_back(patch):
    def stale(state, num_drafts, num_sampled):
        state.num_placeholders -= 1 + num_drafts
        state.num_drafts_in_flight -= num_drafts
    patch.setattr(intake, "settle", stale)


def counts_rolled_back_one_too_far(patch):
    def change(settle):
        def further(state, num_drafts, num_sampled):
            settle(state, num_drafts, num_sampled)
            state.num_computed -= num_drafts > 0
        return further
    wrap(patch, intake, "settle", change)


def drafts_one_place_early(patch):
    def change(place):
        def early(self, drafts, req_ids, scheduled, input_ids):
            place(self, drafts, req_ids, scheduled, input_ids)
            if drafts:
                places = np.cumsum(scheduled)[[req_id in drafts for req_id in req_ids]] - 1
                input_ids[places - 1] = input_ids[places]
        return early
    wrap(patch, HostDrafts, "place", change)


def drafts_of_the_neighbour(patch):
    def change(place):
        def swapped(self, drafts, req_ids, scheduled, input_ids):
            names = list(drafts)
            place(self, dict(zip(names, [drafts[n] for n in names[1:] + names[:1]], strict=True)), req_ids, scheduled,
                  input_ids)  # fmt: skip
        return swapped
    wrap(patch, HostDrafts, "place", change)


def logits_of_the_draft_itself(patch):
    def change(publish):
        def shifted(self):
            if self._now is not None:
                expansion = self._now.expansion
                places = expansion.logits_indices.copy()
                places[expansion.target_logits_indices] += 1
                self._now = replace(self._now, expansion=replace(expansion, logits_indices=places))
            publish(self)
        return shifted
    wrap(patch, HostDrafts, "publish", change)


def first_places_without_the_bonus(patch):
    def change(expand):
        def closer(*args):
            expansion = expand(*args)
            return replace(expansion, first_logits_indices=expansion.first_logits_indices - (
                np.arange(expansion.first_logits_indices.size)
            ).clip(max=1))  # fmt: skip
        return closer
    wrap(patch, verification, "expand", change)


def drafts_enter_the_history(patch):
    def change(take):
        def kept(self, inputs):
            reserved = take(self, inputs)
            spec = inputs.speculation
            if spec is not None:
                for row, request in zip(reserved.rows.tolist(), reserved.states, strict=True):
                    own = [draft for draft in spec.draft_token_ids[row].tolist() if draft >= 0]
                    if own:
                        request.output_token_ids[-len(own) :] = type(request.output_token_ids)("i", own)
            return reserved
        return kept
    wrap(patch, TokenRuns, "reserve", change)


def one_place_a_step(patch):
    patch.setattr(TokenRuns, "reserve", SingleTokens.reserve)
    patch.setattr(TokenRuns, "take", SingleTokens.take)


def rejected_places_stay(patch):
    patch.setattr(PrefixColumn, "shorten", lambda self, row, count: None)


def host_forgets_to_lower(patch):
    patch.setattr(HostCorrection, "_computed", lambda self, delta: delta.cached.num_computed_tokens)


def device_forgets(*fields):
    """A correction that leaves some of its tensors alone."""
    def plant(patch):
        def change(correct):
            def partial(tensors, count):
                kept = {field: getattr(tensors, field).clone() for field in fields}
                correct(tensors, count)
                for field, before in kept.items():
                    getattr(tensors, field).copy_(before)
            return partial
        wrap(patch, device_correction, "correct_on_host", change)
    return plant


def device_takes_the_first_token(patch):
    def change(correct):
        def first(tensors, count):
            correct(tensors, count)
            table = tensors.map[: 5 * count].view(5, count)
            tensors.input_ids[table[1].long()] = tensors.sampled[table[2].long(), 0]
        return first
    wrap(patch, device_correction, "correct_on_host", change)


def a_neighbours_row_of_the_step_before(patch):
    def change(write):
        def turned(self, table):
            return write(replace(self, sources=np.roll(self.sources, 1)), table)
        return turned
    wrap(patch, FlightMap, "write", change)


def this_steps_drafts_for_the_last_ones(patch):
    def change(write):
        def now(self, table):
            return write(replace(self, verified=self.drafts), table)
        return now
    wrap(patch, FlightMap, "write", change)


def verified_counts_of_an_older_step(patch):
    def stale(self, previous, collect):
        verified = self._before.verified if self._before is not None else self._drafts
        self._before = FlownStep(previous, np.resize(verified, len(previous.req_ids)))
    patch.setattr(CorrectingHandoff, "submitted", stale)


def corrected_twice(patch):
    def change(arrived):
        def again(self):
            flight = self._map
            arrived(self)
            self._map = flight
            arrived(self)
        return again
    wrap(patch, CorrectingHandoff, "arrived", change)


def drafts_one_text_place_late(patch):
    def change(write):
        @torch.inference_mode()
        def late(self, slot, inputs):
            write(self, slot, inputs)
            slot.drafts[: inputs.num_reqs] = slot.drafts[: inputs.num_reqs].roll(-1, dims=1)
        return late
    wrap(patch, DeviceDrafter, "_write", change)


def drafts_beyond_the_longest_sequence(patch):
    patch.setattr(scheduling, "within_model_len", lambda state, count, max_model_len: count)


MUTANTS = [
    (bonus_dropped, SYNC, "accepted_drafts"),
    (one_accepted_too_few, SYNC, "accepted_drafts"),
    (one_accepted_too_many, SYNC, "accepted_drafts"),
    (residual_of_the_wrong_place, SYNC, "text"),
    (rejected_tokens_shown, SYNC, "accepted_drafts"),
    (counts_not_rolled_back, SYNC, "rollback"),
    (counts_rolled_back_one_too_far, SYNC, "rollback"),
    (drafts_one_place_early, SYNC, "positions"),
    (drafts_of_the_neighbour, SYNC, "positions"),
    (logits_of_the_draft_itself, SYNC, "draft_places"),
    (first_places_without_the_bonus, SYNC, "draft_places"),
    (counts_not_rolled_back, HOST, "rollback"),
    (host_forgets_to_lower, HOST, "rollback"),
    (one_place_a_step, HOST, "refused"),
    (rejected_places_stay, HOST, "row_ownership"),
    (drafts_enter_the_history, HOST, "refused"),
    (device_forgets("positions"), DEVICE, "positions"),
    (device_forgets("seq_lens"), DEVICE, "seq_lens_capacity"),
    (device_forgets("input_ids"), DEVICE, "positions"),
    (device_forgets("drafts"), DEVICE, "draft_places"),
    (device_takes_the_first_token, DEVICE, "positions"),
    (a_neighbours_row_of_the_step_before, DEVICE, "positions"),
    (this_steps_drafts_for_the_last_ones, DEVICE, "positions"),
    (verified_counts_of_an_older_step, DEVICE, "positions"),
    (corrected_twice, DEVICE, "positions"),
    (drafts_beyond_the_longest_sequence, DEVICE, "refused"),
]


def outcome(run_all, asked, known, switches) -> tuple[str, dict]:
    """(what found a fault, or nothing; the texts)."""
    try:
        return "nothing", run_all(asked, known, check="every", **switches)
    except BrokenInvariant as broken:
        return broken.name, {}
    except (IndexError, UsageError) as error:
        return f"refused: {error}", {}


@pytest.fixture(scope="module")
def unharmed() -> dict[tuple, tuple[str, dict]]:
    """What each set of switches gives without a fault."""
    return {}


@pytest.mark.parametrize(
    ("plant", "switches", "killer"), MUTANTS,
    ids=[f"{plant.__qualname__.split('.')[0]}-{index}" for index, (plant, *_) in enumerate(MUTANTS)],
)  # fmt: skip
def test_planted_fault(run_all, requests, known, unharmed, monkeypatch, plant, switches, killer) -> None:
    # GIVEN a run whose requests end at different times, the last one at the longest sequence
    asked = [replace(request, output_len=5 + 4 * index) for index, request in enumerate(requests(4))]
    asked.append(replace(requests(5)[4], output_len=60))
    switches = {"max_model_len": 36} | switches
    key = tuple(sorted(switches.items()))
    if key not in unharmed:
        unharmed[key] = outcome(run_all, asked, known, switches)
    found, right = unharmed[key]
    assert found == "nothing"
    # WHEN the fault is planted
    plant(monkeypatch)
    found, texts = outcome(run_all, asked, known, switches)
    # THEN its check finds it; where only the text can tell, the text does
    if killer == "text":
        assert found == "nothing"
        assert texts != right
    elif killer == "refused":
        assert found.startswith("refused")
    else:
        assert found == killer
