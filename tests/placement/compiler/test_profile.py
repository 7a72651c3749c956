"""The tree of free bytes against a plain array."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from memplace_env.placement.compiler.free_bytes import fewest_free, fill, new_profile, take


@st.composite
def tensors(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Free bytes of each op, and first op, last op and bytes of tensors, some of them alike as slices are."""
    free = np.array(draw(st.lists(st.integers(-5, 30), min_size=1, max_size=40)))
    op = st.integers(0, len(free) - 1)
    rows = draw(st.lists(st.tuples(op, op, st.integers(1, 12)), min_size=1, max_size=30))
    copies = draw(st.lists(st.integers(1, 5), min_size=len(rows), max_size=len(rows)))
    rows = [row for row, count in zip(rows, copies, strict=True) for _ in range(count)]
    first, last, size = np.array([(min(a, b), max(a, b), bytes_) for a, b, bytes_ in rows]).T
    return free, first.copy(), last.copy(), size.copy()


@given(tensors())
def test_a_profile_is_an_array_of_free_bytes(case):
    free, first, last, size = case
    profile = new_profile(free)
    for begin, end, taken in zip(first, last, size, strict=True):
        assert fewest_free(profile, begin, end) == free[begin : end + 1].min()
        take(profile, begin, end, taken)
        free[begin : end + 1] -= taken
    assert fewest_free(profile, 0, len(free) - 1) == free.min()


@given(tensors(), st.randoms(use_true_random=False), st.sampled_from([0, 0.7]))
def test_fill_gives_room_in_order_as_far_as_there_is_any(case, random, paired):
    free, first, last, size = case
    order = random.sample(range(len(size)), random.randint(1, len(size)))
    if random.random() < 0.5:
        order.sort()  # those that are alike follow each other
    # Of the same bytes, tensors that begin where others end may take their place.
    met = [(k, r) for k in range(len(size)) for r in range(len(size)) if first[k] < last[k] == first[r] < last[r]]
    some = [(k, r, first[r]) for k, r in met if size[k] == size[r] and random.random() < paired]
    handovers = np.array(some, dtype=np.int64).reshape(-1, 3)
    nodes = [row for k in range(len(size)) for row, pair in enumerate(some) if k in pair[:2]]
    ptr = np.cumsum([0, *(sum(k in pair[:2] for pair in some) for k in range(len(size)))])
    pairs = handovers, ptr, np.array(nodes, dtype=np.int64)
    placed = fill(free.copy(), np.array(order), first, last, size, pairs)
    there, gave, took = set(), set(), set()
    for tensor in order:
        giver = next((k for k, r, _ in some if r == tensor and k in there - gave), None)
        taker = next((r for k, r, _ in some if k == tensor and r in there - took), None)
        held = free[first[tensor] + (giver is not None) : last[tensor] + 1 - (taker is not None)]
        assert placed[tensor] == (held.min(initial=2**62) >= size[tensor])
        held -= size[tensor] * placed[tensor]
        if placed[tensor]:
            there.add(tensor)
            gave |= {giver} | ({tensor} if taker is not None else set())
            took |= {taker} | ({tensor} if giver is not None else set())
    assert not placed[[tensor for tensor in range(len(size)) if tensor not in order]].any()
