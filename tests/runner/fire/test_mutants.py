"""The register of mutants: each is planted alone, lives through the same random operations as a sound runner, and is
found by the check that is named, or by a token that is another. `make mutants` prints the table.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from stepscope.errors import BrokenInvariant
from stepscope.runner import wiring
from stepscope.runner.executor import Executor
from stepscope.runner.inputs.slot_mapping import KernelStandIn
from stepscope.runner.invariants.kv_stamps import KVStamps
from stepscope.workloads.step import NewRequest, StepDelta

from ..models.test_equality_groups import MUTANTS as OF_GROUPS
from ..models.test_handoff_mutants import MUTANTS as OF_HANDOFF
from ..models.test_prompt_embeds import MUTANTS as OF_EMBEDS
from ..speculation.test_mutants_of_drafts import MUTANTS as OF_DRAFTS
from .harness import Fire, make, random_operations
from .mutants_of_rows import MUTANTS as OF_ROWS
from .mutants_of_shards import MUTANTS as OF_SHARDS
from .mutants_of_steps import MUTANTS as OF_STEPS
from .mutants_of_tables import MUTANTS as OF_TABLES

SEEDS = {
    "move without forbidden": 2, "swap without forbidden": 2, "metadata not refreshed by swaps": 7,
    "single blocks not told": 1,
}  # fmt: skip
"""Where an accident is rare; all others meet it in the life of seed 0."""
NUM_STEPS = 32


@dataclass(frozen=True)
class Mutant:
    name: str
    plant: object
    switches: dict
    killer: str

    @property
    def seed(self) -> int:
        return SEEDS.get(self.name, 0)

    @property
    def control(self) -> tuple:
        """What a sound runner has to survive for this mutant's death to mean something."""
        return (self.seed, *sorted((name, str(value)) for name, value in self.switches.items()))


MUTANTS = [Mutant(*entry) for entry in (*OF_ROWS, *OF_STEPS, *OF_TABLES, *OF_SHARDS)]
CONTROLS = {mutant.control: mutant for mutant in MUTANTS}


def live(mutant: Mutant) -> str:
    """What found a fault: a check's name, "text", the batch's own "an empty row", or nothing."""
    fire = Fire(compare=False, **mutant.switches)
    try:
        for operation in random_operations(mutant.seed, NUM_STEPS):
            fire.do(*operation)
    except BrokenInvariant as broken:
        return broken.name
    except AssertionError as failed:
        for part, killer in (("shows", "text"), ("is empty", "an empty row")):
            if part in str(failed):
                return killer
        raise
    return "nothing"


@pytest.mark.parametrize("mutant", CONTROLS.values(), ids=lambda mutant: f"as for {mutant.name}")
def test_without_a_mutant_nothing_is_found(mutant) -> None:
    assert live(mutant) == "nothing"


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_dies_of_what_is_named(mutant, monkeypatch) -> None:
    mutant.plant(monkeypatch)
    assert live(mutant) == mutant.killer


def slots_in_32_bits(patch) -> None:
    """Slot = block * size is computed in the table's type."""
    right = KernelStandIn._compute

    def narrow(self, num_reqs, num_tokens):
        right(self, num_reqs, num_tokens)
        self._slots[:num_tokens] = self._slots[:num_tokens].astype(np.int32)

    patch.setattr(KernelStandIn, "_compute", narrow)


@pytest.mark.parametrize("planted", [False, True], ids=["sound", "planted"])
def test_slots_behind_32_bits(planted, monkeypatch) -> None:
    # GIVEN blocks of a pool that no test has memory for: nobody computes or writes anything here
    allocate = wiring.allocate_group_caches
    few = lambda device, config, _, *rest: allocate(device, config, 4, *rest)  # noqa: E731
    monkeypatch.setattr(wiring, "allocate_group_caches", few)
    monkeypatch.setattr(KVStamps, "check", lambda self, view: None)
    runner, config = make(num_blocks=2**30)
    hidden = runner.device.empty((config.max_num_batched_tokens, 32), runner.sampler._logits._model.config.torch_dtype)
    monkeypatch.setattr(Executor, "run", lambda *_: hidden)
    new = NewRequest("far", np.arange(6, dtype=np.int32), ((2**29 + 5, 2**30 - 1),))
    delta = StepDelta(0, (new,), num_scheduled_tokens={"far": 6})
    # WHEN slots are computed in 32 bits, THEN they are somebody else's
    if planted:
        slots_in_32_bits(monkeypatch)
        with pytest.raises(BrokenInvariant, match="slot_ownership broken in step 0"):
            runner.execute(delta)
    else:
        runner.execute(delta)


def register() -> list[tuple[str, str, str]]:
    """(mutant, killer, where it is planted), those of other files included."""
    rows = [(mutant.name, mutant.killer, "fire") for mutant in MUTANTS]
    rows += [(slots_in_32_bits.__name__, "slot_ownership", "fire")]
    rows += [(plant.__name__, check, "hand-off") for plant, check in OF_HANDOFF]
    rows += [(plant.__name__, check or "text", "groups") for plant, check in OF_GROUPS]
    rows += [(plant.__name__, "text", "embeddings") for plant, _ in OF_EMBEDS]
    rows += [(plant.__qualname__.split(".")[0], killer, "drafts") for plant, _, killer in OF_DRAFTS]
    return [(name.replace("_", " "), killer, where) for name, killer, where in rows]


def test_the_register_of_mutants() -> None:
    rows = register()
    print(f"\n{'mutant':52}{'killed by':20}planted in")  # noqa: T201  # read with -s
    for row in rows:
        print(f"{row[0]:52}{row[1]:20}{row[2]}")  # noqa: T201
    found = [killer for _, killer, where in rows if where == "fire"]
    assert len(found) - found.count("an empty row") >= 40
    names = {"row_bijection", "row_ownership", "query_boundaries", "positions", "seq_lens_capacity", "slot_ownership"}
    assert set(found) == names | {"discard", "text", "an empty row"}
