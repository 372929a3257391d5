"""How long a sweep will take, and what makes two engines the same."""

from __future__ import annotations

import pytest
from stepscope.experiments import identity as identity_module
from stepscope.experiments.estimate import RATES, SLOWEST, START_S, duration, estimate
from stepscope.experiments.identity import ENGINE, MACHINE, differences, identity, source_digest
from stepscope.experiments.launches import num_resident, tasks
from stepscope.experiments.plan import Plan, make_plan


def plan_of(**spec: object) -> Plan:
    return make_plan([("t", {"workload": {"regime": "steady"}, "device": "sim", **spec})], {})


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.2, "1 s"), (89.0, "89 s"), (91, "2 min"), (3600, "60 min"), (7500, "2 h 5 min")]
)
def test_durations_are_for_people(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_points_that_were_measured_are_expected_to_take_as_long_again() -> None:
    plan = plan_of(grid={"seed": [1, 2]})
    known = estimate(plan.points, {point.key: 30.0 for point in plan.points})
    assert known.seconds == START_S + 60.0
    assert known.text() == "about 64 s: each of these points was measured before"
    half = estimate(plan.points, {plan.points[0].key: 30.0})
    assert "1 of 2 points as measured before" in half.text().replace("1 of 2 as", "1 of 2 points as")
    assert START_S + 30.0 < half.seconds < known.seconds


def test_others_are_guessed_from_their_steps_and_tokens() -> None:
    few, many = (plan_of(measure={"steps": steps}) for steps in (10, 40))
    more_s = estimate(many.points, {}).seconds - estimate(few.points, {}).seconds
    assert more_s == pytest.approx(30 * (RATES["sim"].step_s + 64 * RATES["sim"].token_s), rel=0.05)
    text = estimate(few.points, {}).text()
    assert text.startswith("about ")
    assert "by the number of steps and tokens" in text
    assert estimate(few.points, {}).seconds / SLOWEST < estimate(few.points, {}).seconds


def test_arms_side_by_side_cost_a_process_each_launch() -> None:
    measure = {"interleave": "commit_order", "blocks": 2, "block_steps": 4, "repeats": 3}
    plan = plan_of(
        workload={"regime": "steady", "scheduler": {"reserve_output": True}}, measure=measure,
        grid={"commit_order": ["first", "skip"]},
    )  # fmt: skip
    found = tasks(plan.points)
    assert [len(task.points) for task in found] == [2, 2, 2]
    assert all(task.fresh for task in found)
    assert estimate(plan.points, {point.key: 5.0 for point in plan.points}).seconds == 3 * (START_S + 5.0)
    assert num_resident(plan.points) == 0
    resident = plan_of(
        workload={"regime": "steady", "scheduler": {"reserve_output": True}},
        measure={**measure, "resident": True}, grid={"commit_order": ["first", "skip"]},
    )  # fmt: skip
    assert num_resident(resident.points) == 3
    assert [(task.key, task.fresh) for task in tasks(resident.points)] == [(f"launch-{n}", False) for n in range(3)]


def test_launches_of_a_point_never_share_a_process_and_points_of_a_model_do() -> None:
    first, second = tasks(plan_of(measure={"repeats": 2}).points)
    assert first.key != second.key
    one, other = tasks(plan_of(grid={"block_size": [4, 16]}).points)
    assert one.key == other.key
    tiny, micro = tasks(plan_of(grid={"model": ["tiny", "micro"]}).points)
    assert tiny.key != micro.key


def test_a_task_survives_its_wire() -> None:
    (task,) = tasks(plan_of().points, timeout_s=3.5)
    assert type(task).from_json(task.to_json()) == task
    assert task.limit_s == 3.5


def test_an_identity_names_what_runs_and_what_it_runs_on() -> None:
    here = identity({})
    assert set(here) == {*ENGINE, *MACHINE}
    assert here["probe"] in ("C", "Python")
    assert here["engine"] == source_digest()
    assert here["torch"]
    assert differences(here, here) == []
    assert differences(here, {**here, "torch": "0.1"}) == [f"torch {here['torch']} -> 0.1"]
    assert differences({}, here, ("python",)) == [f"python None -> {here['python']}"]


def test_an_edit_of_our_source_is_another_engine(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    root = tmp_path / "stepscope"
    (root / "runner").mkdir(parents=True)
    (root / "reports").mkdir()
    (root / "experiments").mkdir()
    source = root / "runner" / "step.py"
    source.write_text("x = 1\n")
    monkeypatch.setattr(identity_module, "__file__", str(root / "experiments" / "identity.py"))

    def digest() -> str:
        source_digest.cache_clear()
        return source_digest()

    before = digest()
    (root / "reports" / "page.py").write_text("a report measures nothing\n")
    assert digest() == before
    source.write_text("x = 2\n")
    assert digest() != before
    source.write_text("x = 1\n")
    assert digest() == before
    (root / "runner" / "notes.h").write_text("int x;\n")  # compiled where it runs
    assert digest() != before
    (root / "runner" / "notes.h").unlink()
    source.rename(root / "runner" / "stop.py")
    assert digest() != before
    source_digest.cache_clear()


def test_nothing_left_takes_no_time() -> None:
    assert estimate((), {}).text() == "nothing is left to measure"
