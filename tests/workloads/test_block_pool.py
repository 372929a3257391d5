from __future__ import annotations

from stepscope.workloads.scheduler.block_pool import NULL_BLOCK, BlockPool


def test_fresh_blocks_ascend_and_the_null_block_is_never_handed_out() -> None:
    pool = BlockPool(5)
    assert pool.num_free == 4
    assert pool.take(4) == [1, 2, 3, 4]
    assert NULL_BLOCK not in pool.take(0)
    assert pool.num_free == 0


def test_blocks_without_hash_come_back_first_tail_of_the_last_row_foremost() -> None:
    pool = BlockPool(10)
    first, second = pool.take(2), pool.take(2)
    pool.give_back(first)
    pool.give_back(second)
    assert pool.take(5) == [4, 3, 2, 1, 5]


def test_hashed_blocks_come_last_and_least_recently_freed_first() -> None:
    # GIVEN two rows of hashed blocks, freed one after the other
    pool = BlockPool(6)
    old, young = pool.take(2), pool.take(2)
    for block in old + young:
        pool.cache(block, b"%d" % block)
    pool.give_back(old)
    pool.give_back(young)
    # WHEN blocks run short, THEN the unused one goes first, then tails before heads, the older row before the younger
    assert pool.take(3) == [5, 2, 1]
    # AND what was taken is not found any more, what was not still is
    assert pool.find([b"1"]) == []
    assert pool.find([b"3", b"4"]) == [3, 4]


def test_a_hit_takes_a_block_out_of_the_free_ones_and_counts_its_owners() -> None:
    pool = BlockPool(4)
    (block,) = pool.take(1)
    pool.cache(block, b"k")
    pool.give_back([block])
    assert (pool.num_free, pool.num_unowned([block])) == (3, 1)
    pool.share([block])
    pool.share([block])
    assert (pool.num_free, pool.num_unowned([block])) == (2, 0)
    pool.give_back([block])
    assert pool.num_free == 2
    pool.give_back([block])
    assert pool.num_free == 3


def test_of_equal_blocks_the_first_cached_is_found_and_the_next_when_it_is_gone() -> None:
    pool = BlockPool(4)
    blocks = pool.take(3)
    for block in blocks:
        pool.cache(block, b"same")
    pool.give_back([1])
    assert pool.find([b"same"]) == [1]
    assert pool.take(1) == [1]
    assert pool.find([b"same"]) == [2]
    pool.give_back([3])
    assert pool.take(1) == [3]
    assert pool.find([b"same"]) == [2]
    pool.give_back([2])
    assert pool.take(1) == [2]
    assert pool.find([b"same"]) == []


def test_find_stops_at_the_first_gap() -> None:
    pool = BlockPool(5)
    for block, key in zip(pool.take(3), (b"a", b"b", b"d"), strict=True):
        pool.cache(block, key)
    assert pool.find([b"a", b"b", b"c", b"d"]) == [1, 2]


def test_forgetting_everything_keeps_the_order_of_reuse() -> None:
    pool = BlockPool(4)
    row = pool.take(3)
    for block in row:
        pool.cache(block, b"%d" % block)
    pool.give_back(row)
    pool.forget_all()
    assert pool.find([b"1"]) == []
    assert pool.take(3) == [3, 2, 1]
