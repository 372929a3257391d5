"""What-ifs of graphs and of deeper rings on planted engines, and the command that checks each prediction."""

import pytest
from stepscope.analysis.what_if import Change, faster_phase, table_copies
from stepscope.analysis.what_if_checks import NO_SKIP, NO_SWITCH, NOT_OURS, check_command
from stepscope.analysis.what_if_more import DEEPER_RING, GRAPHS_ON, deeper_ring, graphs_on

LAUNCH = {"name": "host_cost_ns", "key": "graph_launch", "value": 5.0}


def eager(lab, launch_ns, graphs=False):
    """Two in flight, 10 kernels of 10 launched every `launch_ns` + 4: the host binds."""
    made, samples = lab(), []
    made.rows["calibration"].append(LAUNCH)
    for number in range(12):
        with made.step(number):
            with made.span("preprocess", "phase"):
                made.host(20)
            with made.span("forward", "phase"):
                for _ in range(10):
                    made.host(launch_ns)
                    made.launch("layer", 10)
            samples.append(made.launch("sample", 5))
            if len(samples) > 1:
                made.wait(samples[-2])
        made.add("dispatch", num_tokens=8, size=8 if graphs else None, mode="none", reason="disabled")
        made.rows["dispatch"][-1]["step"] = number
    return made.recording()


def test_graphs_spare_the_host_its_launches(lab):
    # GIVEN 440 of host work in the forward of a period of 464 + ..., and a replay that costs 5
    found = graphs_on(eager(lab, 40))
    assert found.reason is None
    # THEN launches shrink to about 5 in all, and the period to what the device needs and the enqueueing calls
    assert found.period_ns > 460
    assert found.saved_ns > 300
    assert found.change == GRAPHS_ON


def test_graphs_null_with_a_reason(lab, source, steps):
    assert graphs_on(source()).reason == "no device operation can be replayed"
    assert graphs_on(eager(lab, 40, graphs=True)).reason == "every counted step replays a graph already"
    assert graphs_on(steps(lab(), 9).recording()).reason == (
        "what the host pays for a replay is not in the table calibration"
    )


def ring(lab, reason):
    """The host waits for the copy of the step before it writes its slot again, and would have nothing else to wait for.
    """
    made, copy = lab(), 0
    for number in range(12):
        with made.step(number):
            with made.span("preprocess", "phase"):
                if copy:
                    made.wait(copy, reason=reason)
                copy = made.copy("block_table", 300)
                made.host(50)
            with made.span("forward", "phase"):
                made.launch("forward", 10, kind="graph")
    return made.recording()


def test_a_ring_that_is_waited_for(lab):
    found = deeper_ring(ring(lab, "buffer:block_table"))
    # THEN without its waits the host runs ahead: its period is its own work
    assert found.saved_ns > 200
    assert found.predicted_period_ns == 50 + 4 + 4


def test_other_waits_stay(lab):
    assert deeper_ring(ring(lab, "tokens")).saved_ns == 0


def test_a_check_for_each():
    ours = {
        "runner": {"graph_mode": "none", "ring_slots": 2, "commit_order": "first", "table_width": 512},
        "workload": {"regime": "steady"}, "scheduler": {"reserve_output": True},
    }  # fmt: skip
    changes = (table_copies(["block_table"], 0), GRAPHS_ON, DEEPER_RING)
    commands = {change.name: check_command(change, ours) for change in changes}
    assert commands == {
        "copy of block_table free":
            "perf sweep RECORDING --param commit_order=first,skip --param interleave=commit_order",
        "graphs on": "perf sweep RECORDING --param graph_mode=none,full --param interleave=graph_mode",
        "staging ring deeper": "perf sweep RECORDING --param ring_slots=2,4 --param interleave=ring_slots",
    }  # fmt: skip
    assert "--param h2d_packing=separate,packed" in check_command(faster_phase(), ours)
    twice = Change("twice", copies={"block_table": 2.0})
    assert "--param table_width=512,1024 " in check_command(twice, ours)
    assert check_command(Change("odd", phases={"sample": 0.5}), ours) == NO_SWITCH
    assert check_command(GRAPHS_ON, {}) == NOT_OURS


@pytest.mark.parametrize(("workload", "scheduler", "runner", "said"), [
    ({"regime": "steady"}, {"reserve_output": False}, {}, "reserve_output=true"),
    ({"case": "decode=32*1@8192,1@64"}, {"reserve_output": True}, {}, "interleave=commit_order"),
    # GIVEN what the arm without a copy is refused for: rows that come, go or grow, and rows written anew in each step
    ({"case": "mix=4096,32*1@8192"}, {"reserve_output": True}, {}, NO_SKIP),
    ({"regime": "churn"}, {"reserve_output": True}, {}, NO_SKIP),
    ({"trace": {"file": "a.csv"}}, {}, {}, NO_SKIP),
    ({"regime": "steady"}, {"reserve_output": True}, {"batch_state": "rebuild"}, NO_SKIP),
    ({"regime": "steady"}, {"reserve_output": True}, {"commit_order": "skip"}, NO_SWITCH),
])
def test_a_copy_is_left_out_only_where_its_table_stands_still(workload, scheduler, runner, said):
    ours = {"workload": workload, "scheduler": scheduler, "runner": runner}
    assert check_command(table_copies(["block_table"], 0), ours).endswith(said)


def test_no_command_names_one_value_twice():
    assert check_command(GRAPHS_ON, {"runner": {"graph_mode": "full"}}) == NO_SWITCH
