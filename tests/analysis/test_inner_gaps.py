"""Idle time inside eager forwards and before sampling, with what it waited for."""

from stepscope.analysis.gaps import gaps


def eager(made, count, launches, between_ns, kernel_ns, before_sample_ns=0):
    for number in range(count):
        with made.step(number):
            with made.span("preprocess", "phase"):
                made.copy("block_table", 10)
                made.host(50)
            with made.span("forward", "phase"):
                for _ in range(launches):
                    made.host(between_ns)
                    made.launch("layer", kernel_ns)
            with made.span("sample", "phase"):
                made.host(before_sample_ns)
                made.wait(made.launch("sample", 20))
    return gaps(made.recording()).steps.iloc[-1]


def test_a_host_that_launches_slower_than_the_device_computes(lab):
    # GIVEN 5 layers of 10, launched every 40 + 4: the device idles 34 between two of them
    row = eager(lab(), 6, 5, 40, 10)
    assert (row["forward_ops"], row["forward_gaps"], row["forward_idle_ns"]) == (5, 4, 4 * 34)
    assert row["forward_waits_for"] == "host"


def test_a_device_that_never_waits(lab):
    row = eager(lab(), 6, 5, 0, 100)
    assert (row["forward_gaps"], row["forward_idle_ns"]) == (0, 0)
    assert row.isna()["forward_waits_for"]
    assert (row["sample_idle_ns"], row.isna()["sample_waits_for"]) == (0, True)


def test_idle_before_sampling(lab):
    # GIVEN a host that thinks for 300 between a forward of 5 x 10 and the launch of sampling
    row = eager(lab(), 6, 1, 0, 10, before_sample_ns=300)
    assert row["sample_idle_ns"] == 300 + 4 - 10
    assert row["sample_waits_for"] == "host"
    assert row["forward_gaps"] == 0


def test_one_replay_has_no_inside(lab, steps):
    row = gaps(steps(lab(), 8).recording()).steps.iloc[-1]
    assert (row["forward_ops"], row["forward_gaps"], row["forward_idle_ns"]) == (1, 0, 0)
