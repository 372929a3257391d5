"""Points whose requests bring embeddings: as wide as the model's, and refused where nobody could take them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from stepscope.errors import UsageError
from stepscope.experiments.resolve import resolve, workload_of
from stepscope.experiments.sizing.run import _spec
from stepscope.experiments.sizing.source import _dry
from stepscope.experiments.sizing.watch import UNWATCHED
from stepscope.experiments.spec import PointSpec


def point(share: float = 0.5, model: str = "tiny", **runner: Any) -> PointSpec:
    workload = {"regime": "churn", "settings": {"num_reqs": 8}, "embeds_share": share}
    return resolve({"workload": workload, "runner": {"model": model, **runner}, "device": "cpu"})


@pytest.mark.parametrize(("model", "hidden"), [("tiny", 64), ("micro", 32)])
def test_requests_bring_what_the_model_takes(model: str, hidden: int) -> None:
    requests = workload_of(point(model=model, prompt_embeds="sparse")).requests
    widths = {one.prompt_embeds.values.shape[1] for one in requests if one.prompt_embeds is not None}
    assert widths == {hidden}
    assert any(one.prompt_embeds is None for one in requests)


def test_both_arms_serve_the_same_requests() -> None:
    arms = [workload_of(point(prompt_embeds=arm)).requests for arm in ("sparse", "dense_table")]
    brought = [[one.prompt_embeds and one.prompt_embeds.values.tobytes() for one in requests] for requests in arms]
    assert brought[0] == brought[1]


@pytest.mark.parametrize(
    ("share", "runner", "message"),
    [
        (1.5, {}, "workload.embeds_share: 1.5 is no share; use 0 to 1"),
        (float("nan"), {}, "workload.embeds_share: nan is no share"),
        (0.5, {}, "workload.embeds_share: is 0.5, and runner.prompt_embeds is off; use sparse or dense_table"),
        (
            0.5, {"prompt_embeds": "sparse", "speculative": 2, "acceptance": "synthetic:all"},
            "workload.embeds_share: is 0.5, and runner.acceptance synthetic:all takes drafts from answers that are",
        ),
        (
            0.5, {"prompt_embeds": "sparse", "graph_mode": "full", "capture_sizes": "optimal"},
            "workload.embeds_share: is 0.5, and runner.capture_sizes optimal takes every step for one that may run",
        ),
    ],
)  # fmt: skip
def test_what_means_nothing_is_refused(share: float, runner: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        point(share, **runner)
    assert str(caught.value).startswith(message)


def test_sizes_are_not_found_for_steps_that_run_in_no_graph() -> None:
    # GIVEN a spec with embeddings, WHEN sizes are looked for in its steps, or both lists are to run on them
    workload = {"regime": "churn", "settings": {"num_reqs": 8}, "embeds_share": 0.5}
    tree = {"workload": workload, "runner": {"prompt_embeds": "sparse"}, "device": "cpu"}
    lasting = SimpleNamespace(lasts_steps=10)
    for look in (lambda: _dry(tree, "spec", UNWATCHED, "cpu"), lambda: _spec(lasting, tree, (8,), "cpu")):
        # THEN both are refused
        with pytest.raises(UsageError, match=r"workload\.embeds_share: is 0\.5; steps with embeddings run in no graph"):
            look()
