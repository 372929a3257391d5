"""Checks of the laboratory runner: arrangements that must answer alike, invariants, prompts cut into chunks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..minimal.faults import FAULTS
from ..minimal.run import run_minimal
from .answers import answers, random_requests
from .check import Check, Finding, Setting, exact, replaced

ARRANGEMENTS: tuple[dict[str, Any], ...] = (
    {"batch_state": "rebuild"},
    {"batch_state": "stable_slots", "block_table_commit": "staged"},
    {"block_table_commit": "dirty_rows", "commit_order": "last", "h2d_packing": "packed"},
    {"graph_mode": "full", "capture_sizes": (8, 24, 48)},
    {"graph_mode": "full_and_piecewise", "capture_sizes": (7, 23, 48), "dispatch_rules": "v1"},
    {"token_gather": "cat", "slot_mapping": "host", "staging": "pageable", "logits": "all_positions"},
    {"token_handoff": "async_auto"},
    {"reorder": "decode_first", "metadata_reuse": "per_layer"},
)
"""Each differs from the persistent batch in what it names."""


def _arrangements(setting: Setting) -> Sequence[Finding]:
    """Random requests under every arrangement of switches: the answers stay the same."""
    requests = random_requests(setting.random("arrangements"), setting.count(24, 8))
    device = "cuda" if setting.device == "cuda" else "sim"
    base, _ = answers(requests, device, batch_state="rebuild")
    tokens = sum(map(len, base.values()))
    findings = []
    for switches in ({}, *ARRANGEMENTS[1:]):
        found, _ = answers(requests, device, **switches)
        wrong = sum(found[req_id] != base[req_id] for req_id in base)
        said = ", ".join(f"{name} {value}" for name, value in switches.items()) or "persistent batch"
        findings.append(exact(f"{said}: of {len(base)} answers ({tokens} tokens) unlike rebuild's", 0, wrong))
    return findings


def _invariants(setting: Setting) -> Sequence[Finding]:
    """Stamped KV cells and all invariants hold in every step of crowded runs; planted faults are caught."""
    rng = setting.random("invariants")
    reads = steps = 0
    for _ in range(setting.count(12, 2)):
        requests = random_requests(rng, 9)
        _, runner = answers(requests, "cpu", check="every", num_blocks=32 + rng.randint(0, 40))
        report = runner.checks.report()
        reads, steps = reads + (report.kv_reads or 0), steps + report.steps_checked
    caught = [name for name in FAULTS if _caught(name)]
    return [
        Finding(
            planted="random requests, few blocks, all invariants in every step",
            found=f"0 broken in {steps} steps, {reads} KV reads with the right stamp", tolerance="0 broken",
            passed=steps > 0 and reads > 0,
        ),
        exact(f"{len(FAULTS)} planted faults: caught", sorted(FAULTS), sorted(caught)),
    ]  # fmt: skip


def _caught(fault: str) -> bool:
    """Whether an invariant names the fault: a runner that it makes stumble later has not been warned of it."""
    try:
        return run_minimal(None, "abc", plant=fault).broken is not None
    except (ValueError, IndexError):
        return False


def _chunks(setting: Setting) -> Sequence[Finding]:
    """Prompts computed in one piece, in two and in five give the same tokens, greedy and seeded."""
    requests = random_requests(setting.random("chunks"), setting.count(12, 4), 0.75)
    found = {
        budget: answers(requests, "cpu", max_num_batched_tokens=budget, max_num_seqs=1)[0] for budget in (64, 26, 10)
    }
    return [
        exact(f"prompts of up to 50 tokens in pieces of {budget}: answers unlike those in one piece", 0,
              sum(found[budget][req_id] != answer for req_id, answer in found[64].items()))
        for budget in (26, 10)
    ]  # fmt: skip


CHECKS = (
    Check(
        group="runner", name="arrangements", point=13, run=_arrangements,
        mutants={
            "row_left_behind": replaced(
                "runner.state.block_table", "BlockTable.move", lambda whole: lambda self, source, target: None
            ),
        },
    ),
    Check(
        group="runner", name="invariants", point=14, run=_invariants,
        mutants={
            "checks_off": replaced("runner.invariants.checker", "CHECKS", lambda whole: {}),
            "row_left_behind": replaced(
                "runner.state.block_table", "BlockTable.move", lambda whole: lambda self, source, target: None
            ),
        },
    ),
    Check(
        group="runner", name="chunks", point=15, run=_chunks,
        mutants={
            "drawn_by_step": replaced(
                "runner.sampling.uniforms", "_uniform",
                lambda whole: lambda row, inputs, sampling, seed: (inputs.step * 0.37 + 0.11) % 1.0,
            ),
        },
    ),
)  # fmt: skip
