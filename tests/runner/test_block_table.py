import numpy as np
import pytest
from stepscope.errors import UsageError
from stepscope.runner.state.block_table import aligned_width


def apply(table, operations):
    verbs = {
        "add": table.add_row,
        "append": table.append_row,
        "clear": table.clear,
        "move": table.move,
        "swap": table.swap,
    }
    for verb, *arguments in operations:
        verbs[verb](*arguments)


@pytest.mark.parametrize(
    ("max_blocks", "block_size", "width"), [(1, 16, 8), (257, 16, 264), (100, 1, 128), (3, 128, 3), (5, 24, 16)]
)
def test_width_makes_rows_multiples_of_128_tokens(max_blocks, block_size, width):
    assert aligned_width(max_blocks, block_size) == width
    assert width * block_size % 128 == 0


def test_width_oracle(runner_oracle):
    for case in runner_oracle("block_table_width"):
        assert aligned_width(case["in"]["max_num_blocks"], case["in"]["block_size"]) == case["out"]


def test_operations_oracle(runner_oracle, memory_table):
    for case in runner_oracle("block_table_ops"):
        table = memory_table(case["in"]["rows"], case["in"]["width"])
        apply(table, case["in"]["ops"])
        assert table.num_blocks.tolist() == case["out"]["num_blocks_per_row"]
        assert table.values.tolist() == case["out"]["rows_full_width"]


def test_move_oracle(runner_oracle, memory_table):
    (case,) = runner_oracle("block_table_move_asserted")
    table = memory_table(4, 8)
    apply(table, case["in"]["ops"])
    assert table.values[0, :2].tolist() == case["out"]["row0_prefix"]
    assert {str(row): int(table.num_blocks[row]) for row in (0, 1)} == case["out"]["num_blocks"]
    assert not table.values[1].any()


def test_move_onto_a_longer_row_nulls_the_old_tail(memory_table):
    # GIVEN a row of 54 blocks whose request is gone, and one of 43 behind it
    table = memory_table(2, 64)
    table.add_row(0, np.arange(1, 55))
    table.add_row(1, np.arange(55, 98))
    # WHEN the second takes the first one's place
    table.move(1, 0)
    # THEN a consumer of the full width sees its 43 blocks and nothing else
    assert table.num_blocks.tolist() == [43, 0]
    assert table.values[0].tolist() == [*range(55, 98), *[0] * 21]
    assert not table.values[1].any()


def test_case_3_no_stale_entry_is_exposed(shared_case, memory_table):
    case, expected = shared_case(3)
    table = memory_table(2, case["consumed_width"])
    table.add_row(0, case["row0"])
    table.add_row(1, case["row1"])
    table.move(1, 0)
    assert table.num_blocks[0] == expected["num_blocks_row0"]
    assert table.values[0, : table.num_blocks[0]].tolist() == expected["effective_row0"]
    exposed = np.isin(table.values[0], expected["wrong_full_width_row0_tail"]).sum()
    assert exposed == expected["stale_entries_exposed_allowed"]


def test_swap_exchanges_rows_of_different_length(memory_table):
    table = memory_table(2, 4)
    table.add_row(0, [3, 4])
    table.add_row(1, [9])
    table.swap(0, 1)
    assert table.values.tolist() == [[9, 0, 0, 0], [3, 4, 0, 0]]
    assert table.num_blocks.tolist() == [1, 2]


def test_whoever_stages_the_table_hears_of_every_row(memory_table):
    table = memory_table(3, 4)
    table.append_row(0, [5])
    assert table.staging.touched == {0}
    table.move(0, 2)
    assert table.staging.touched == {0, 2}


def test_one_block_each_equals_single_appends(memory_table):
    one, other = memory_table(4, 4), memory_table(4, 4)
    for table in (one, other):
        table.add_row(0, [3, 4])
        table.add_row(2, [9])
    one.append_each(np.array([2, 0, 3]), [7, 8, 5])
    for row, block in ((2, 7), (0, 8), (3, 5)):
        other.append_row(row, [block])
    assert one.values.tolist() == other.values.tolist()
    assert one.num_blocks.tolist() == other.num_blocks.tolist() == [3, 0, 2, 1]
    assert one.columns_used == other.columns_used == 3
    assert one.staging.touched == {0, 2, 3}
    one.move(0, 1)
    assert one.values[:2].tolist() == [[0] * 4, [3, 4, 8, 0]]
    one.append_each(np.array([1]), [6])
    with pytest.raises(UsageError, match="5 blocks for one request, but a row holds 4"):
        one.append_each(np.array([1]), [6])


def test_too_many_blocks_are_refused_with_the_mend(memory_table):
    with pytest.raises(UsageError, match="5 blocks for one request, but a row holds 4; raise max_model_len"):
        memory_table(1, 4).add_row(0, [1, 2, 3, 4, 5])
