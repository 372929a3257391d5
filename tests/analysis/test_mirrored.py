"""Arms whose periods grow, and a copy whose call is dearer where it is the first of its step."""

from stepscope.analysis.blocks import Block, launch_difference
from stepscope.analysis.mirrored import mirrored_difference, mirrored_differences

STEPS, SETTLE = 20, 4
WORTH_NS = {"first": 160_000, "skip": 0}


def arms_of(rounds, grown_ns):
    """Blocks of first, last, skip in rounds and mirrored rounds; step n takes 2 ms, `grown_ns(n)` and its arm's."""
    found, step = {"first": [], "last": [], "skip": []}, 0
    for number in range(rounds):
        names = list(found) if number % 2 == 0 else list(found)[::-1]
        for place, arm in enumerate(names):
            step += SETTLE
            periods = tuple(2_000_000 + grown_ns(at) + WORTH_NS.get(arm, 0) for at in range(step, step + STEPS))
            found[arm].append(Block(number * 3 + place, periods))
            step += STEPS
    return found


def test_what_grows_evenly_is_cancelled_whatever_the_rounds():
    # GIVEN periods that grow by 0.4 us a step, and by 40 us more in the first 50 steps of the launch
    def grown(step):
        return 400 * step + (40_000 if step < 50 else 0)

    for rounds in (4, 6, 7, 16):
        found = arms_of(rounds, grown)
        assert mirrored_difference(found["first"], found["skip"]) == 160_000
    # AND each of its differences is the whole of it, while those of single rounds lie 19 us to either side
    assert set(mirrored_differences(found["first"], found["skip"])) == {320_000}
    assert {launch_difference(found["first"][n : n + 1], found["skip"][n : n + 1]) for n in (3, 4)} == {
        160_000 - 400 * 48, 160_000 + 400 * 48
    }


def test_rounds_without_an_image_and_launches_that_never_settled_say_nothing():
    found = arms_of(4, lambda step: 0)
    assert mirrored_difference(found["first"][:3], found["skip"][:3]) is None
    assert mirrored_difference(found["first"], found["skip"], left_out=0) == 160_000
    assert mirrored_difference([], []) is None
