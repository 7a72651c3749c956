"""Addresses: lists of blocks alive together, the routine against its plain form, and what it reaches."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memplace_env.placement.compiler import packing
from memplace_env.placement.compiler.block_neighbours import neighbours_of, no_lists
from memplace_env.placement.compiler.busy_addresses import lowest_gap, new_busy, occupy
from tests.references.reference_compiler import Block, PackedBlock, gaps, pack, pack_crowd
from tests.thorough import examples


@st.composite
def blocks(draw: st.DrawFn, most: int = 14, ops: int = 10) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Sizes, largest first, and lives."""
    count = draw(st.integers(1, most))
    size = sorted((draw(st.integers(1, 20)) for _ in range(count)), reverse=True)
    first = [draw(st.integers(0, ops - 1)) for _ in range(count)]
    last = [draw(st.integers(op, ops - 1)) for op in first]
    return np.array(size), np.array(first), np.array(last)


def alive_together(first, last, block):
    return {k for k in range(len(first)) if k != block and first[k] <= last[block] and last[k] >= first[block]}


@examples(300)
@given(blocks(), st.data())
def test_neighbours_are_those_alive_together(blocks, data):
    _, first, last = blocks
    here = np.array([data.draw(st.booleans()) for _ in first])
    ptr, middle, other = neighbours_of(first, last, here)
    for block in range(len(first)):
        wanted = {k for k in alive_together(first, last, block) if here[k]} if here[block] else set()
        smaller, larger = other[ptr[block] : middle[block]], other[middle[block] : ptr[block + 1]]
        assert sorted([*smaller, *larger]) == sorted(wanted)
        assert all(smaller < block)
        assert all(larger > block)


def pack_all(blocks, ceiling, near):
    size, first, _ = blocks
    offset, end = np.zeros_like(size), np.empty_like(size)
    members, space = np.arange(len(first), dtype=np.uint32), packing.packing_space(len(first))
    lost = packing.pack_level((*blocks, size[:0]), near, members, ceiling, offset, end, space)
    assert lost == size[end < 0].sum()
    return {int(block): int(offset[block]) for block in np.flatnonzero(end >= 0)}


@st.composite
def slices(draw: st.DrawFn, ops: int = 6) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Blocks of a few shapes, many of each, as slices of one tensor are."""
    rows = []
    for _ in range(draw(st.integers(1, 5))):
        first = draw(st.integers(0, ops - 1))
        shape = draw(st.integers(1, 4)), first, draw(st.integers(first, ops - 1))
        rows += [shape] * draw(st.integers(1, 40))
    # By rank, as the compiler numbers them; of equal size and start in any order.
    rows = sorted(draw(st.permutations(rows)), key=lambda row: (-row[0], row[1]))
    size, first, last = np.array(rows).T.copy()
    return size, first, last


@examples(300)
@given(slices(), st.integers(20, 150))
def test_alike_blocks_are_packed_as_the_reference_packs_them(blocks, most):
    size, first, last = blocks
    unplaced = [PackedBlock(k, k, *map(int, (size[k], first[k], last[k], most))) for k in range(len(size))]
    near = neighbours_of(first, last, np.ones(len(size), dtype=bool))
    assert pack_all(blocks, np.full(len(size), most), near) == pack(unplaced)
    assert pack_all(blocks, np.full(len(size), most), no_lists(len(size))) == pack_crowd(unplaced)


@examples(500)
@given(blocks(), st.data())
def test_packing_equals_the_reference_with_and_without_lists(blocks, data):
    size, first, last = blocks
    ceiling = np.array([data.draw(st.integers(15, 60)) for _ in size])
    unplaced = [PackedBlock(k, k, *map(int, (size[k], first[k], last[k], ceiling[k]))) for k in range(len(size))]
    near = neighbours_of(first, last, np.ones(len(size), dtype=bool))
    packed = pack_all(blocks, ceiling, near)
    assert packed == pack(unplaced)
    assert pack_all(blocks, ceiling, no_lists(len(size))) == pack_crowd(unplaced)
    for block, offset in packed.items():
        assert offset + size[block] <= ceiling[block]
        for other in alive_together(first, last, block) & packed.keys():
            assert offset + size[block] <= packed[other] or packed[other] + size[other] <= offset


@examples(300)
@given(st.integers(1, 40), st.data())
def test_gaps_in_ranges_of_ops_are_those_between_the_blocks_alive(ops, data):
    busy, placed = new_busy(ops), list[Block]()
    for _ in range(data.draw(st.integers(1, 30))):
        first = data.draw(st.integers(0, ops - 1))
        last, size, ceiling = (data.draw(st.integers(*range_)) for range_ in ((first, ops - 1), (1, 9), (1, 80)))
        wide_enough = [begin for begin, room in gaps(placed, 1000, first, last) if room >= size]
        found = int(lowest_gap(busy, first, last, size, ceiling))
        if min(wide_enough) + size <= ceiling:
            assert found == min(wide_enough)
            busy = occupy(busy, first, last, found, found + size)
            placed.append(Block(0, found, size, first, last))
        else:
            assert found + size > ceiling


def test_twenty_thousand_operands_of_one_op_are_stacked():
    """Each is alive with all others, and no two are alike; passing them all for each takes 200 million looks."""
    count = 20_000
    first, last, size = np.arange(count), np.full(count, count), np.full(count, 3)
    packed = pack_all((size, first, last), np.full(count, 3 * count - 30), neighbours_of(first, last, size > 0))
    assert packed == {block: 3 * block for block in range(count - 10)}


def test_lists_are_given_up_where_everything_lives_together():
    count = 6000
    first, last = np.zeros(count, dtype=np.int64), np.full(count, 9)
    ptr, _, other = neighbours_of(first, last, np.ones(count, dtype=bool))
    assert ptr[-1] == -1
    assert len(other) == 0
    size = np.full(count, 3)
    packed = pack_all((size, first, last), np.full(count, 3 * count), no_lists(count))
    assert sorted(packed.values()) == list(range(0, 3 * count, 3))


@pytest.mark.parametrize("seed", range(5))
def test_nearly_everything_that_fits_by_bytes_finds_an_address(seed):
    """Lives as results have them, a hundred blocks, a ceiling at the most bytes alive: 99 % of the bytes."""
    rng = np.random.default_rng(seed)
    size = np.sort(rng.integers(1, 30, 100))[::-1].copy() * 64
    first = rng.integers(0, 60, 100)
    last = np.minimum(first + rng.geometric(0.4, 100), 59)
    load = max(size[(first <= op) & (last >= op)].sum() for op in range(60))
    near = neighbours_of(first, last, np.ones(100, dtype=bool))
    packed = pack_all((size, first, last), np.full(100, load), near)
    assert sum(size[block] for block in packed) >= 0.99 * size.sum()


@pytest.mark.parametrize("count", [300, 1500])
def test_a_contended_level_with_many_blocks_alive_takes_no_time_to_speak_of(count):
    """Work is bounded by counts, not by a clock: where it was not, 1,500 blocks took a minute."""
    rng = np.random.default_rng(0)
    size = np.sort(rng.integers(1, 20_000, count))[::-1].copy()
    first = rng.integers(0, count, count)
    last = np.minimum(first + rng.integers(0, count, count), count - 1)
    near = neighbours_of(first, last, np.ones(count, dtype=bool))
    load = max(size[(first <= op) & (last >= op)].sum() for op in range(count))
    packed = pack_all((size, first, last), np.full(count, load * 19 // 20), near)
    assert sum(size[block] for block in packed) >= 0.8 * size.sum()
