import numpy as np
import torch
from stepscope.runner.state.columns import MaskColumn, ObjectColumn, PrefixColumn, ScalarColumn


def test_prefix_swap_resets_the_shorter_rows_tail():
    column = PrefixColumn(2, 8, torch.bool)
    column.write(0, np.ones(5, dtype=bool))
    column.write(1, np.zeros(3, dtype=bool))
    column.swap(0, 1)
    assert column.values[0].tolist() == [False] * 8
    assert column.values[1].tolist() == [True] * 5 + [False] * 3
    assert column.lengths.tolist() == [3, 5]


def test_prefix_move_resets_target_tail_and_source():
    column = PrefixColumn(2, 6, torch.int32)
    column.write(0, [1, 2, 3, 4, 5])
    column.write(1, [7], [8, 9])
    column.move(1, 0)
    assert column.values.tolist() == [[7, 8, 9, 0, 0, 0], [0] * 6]
    assert column.lengths.tolist() == [3, 0]


def test_mask_swap_goes_through_copies():
    # The rows of the public report: a swap of views leaves both rows equal.
    column = MaskColumn(2)
    column.allow_only(0, [3, 4, 5, 6, 7], 8)
    column.allow_only(1, [0, 1, 2], 8)
    column.swap(0, 1)
    assert column.values.astype(int).tolist() == [[0, 0, 0, 1, 1, 1, 1, 1], [1, 1, 1, 0, 0, 0, 0, 0]]


def test_mask_is_not_allocated_until_a_row_needs_it():
    column = MaskColumn(2)
    column.swap(0, 1)
    column.move(0, 1)
    column.clear(0)
    assert column.values is None
    assert not column.in_use


def test_mask_moves_and_lifts():
    column = MaskColumn(3)
    column.allow_only(2, [13], 1024)
    assert column.values[2].sum() == 1023
    column.move(2, 0)
    assert (column.values[0].sum(), column.values[2].sum()) == (1023, 0)
    assert column.in_use
    column.swap(0, 1)
    column.clear(0)  # nobody's mask lies there any more
    assert (column.values[1].sum(), column.in_use) == (1023, True)
    column.clear(1)
    assert (column.values.any(), column.in_use) == (False, False)


def test_scalar_and_object_columns_forget_on_clear_and_move():
    numbers, objects = ScalarColumn(2, np.float32, empty=1.0), ObjectColumn(2)
    numbers.values[1], objects.values[1] = 0.25, "b"
    for column in (numbers, objects):
        column.move(1, 0)
    assert numbers.values.tolist() == [0.25, 1.0]
    assert objects.values == ["b", None]
    objects.swap(0, 1)
    objects.clear(1)
    assert objects.values == [None, None]


def test_case_1_every_kind_of_column(shared_case, memory_table):
    case, expected = shared_case(1)
    rows = case["rows_before"]
    mask, flags, table = MaskColumn(2), PrefixColumn(2, 8, torch.bool), memory_table(2, 4)
    for number in (0, 1):
        row = rows[str(number)]
        mask.allow_only(number, np.flatnonzero(np.asarray(row["mask"]) == 0), 8)
        flags.write(number, np.asarray(row["is_token_ids"][: row["num_tokens"]], dtype=bool))
        table.add_row(number, row["blocks"])
    for column in (mask, flags, table):
        column.swap(0, 1)
    for number in (0, 1):
        assert mask.values[number].astype(int).tolist() == expected[f"row{number}_mask_after"]
        assert flags.values[number].astype(int).tolist() == expected[f"row{number}_is_token_ids_after"]
        assert table.values[number, : table.num_blocks[number]].tolist() == expected[f"row{number}_blocks_after"]
