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


@given(tensors(), st.randoms(use_true_random=False))
def test_fill_gives_room_in_order_as_far_as_there_is_any(case, random):
    free, first, last, size = case
    order = random.sample(range(len(size)), random.randint(1, len(size)))
    if random.random() < 0.5:
        order.sort()  # those that are alike follow each other
    placed = fill(free.copy(), np.array(order), first, last, size)
    for tensor in order:
        held = free[first[tensor] : last[tensor] + 1]
        assert placed[tensor] == (held.min() >= size[tensor])
        held -= size[tensor] * placed[tensor]
    assert not placed[[tensor for tensor in range(len(size)) if tensor not in order]].any()
