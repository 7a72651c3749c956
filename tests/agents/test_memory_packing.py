"""Addresses for blocks of any toolchain: found where they exist, refuted where they do not, and never wrong."""

import subprocess
import sys
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.experiments.packing import instance
from memplace_env import pack
from memplace_env._lib.errors import PlanError
from memplace_env.placement.addresses.address_search import Blocks, fit, packing_problem, tree_search
from tests.thorough import examples


def test_it_may_be_all_that_a_program_uses():
    code = "import memplace_env; assert memplace_env.pack([4, 4], [0, 1], [1, 2]).arena == 8"
    subprocess.run([sys.executable, "-c", code], check=True)


def check(offset, size, first, last, align, pin):
    assert (offset >= 0).all()
    assert (offset % align == 0).all()
    assert ((pin < 0) | (offset == pin)).all()
    for one, other in combinations(range(len(size)), 2):
        together = first[one] <= last[other] and last[one] >= first[other]
        apart = offset[one] + size[one] <= offset[other] or offset[other] + size[other] <= offset[one]
        assert apart or not together or not size[one] or not size[other]


def exists(below, size, first, last, align, pin):
    """Return whether any offsets are right, by trying all, pinned blocks first."""
    order, offset = np.argsort(pin < 0, kind="stable"), {}

    def place(rank):
        if rank == len(order):
            return True
        block = order[rank]
        highest = below[block] - size[block]
        for at in [pin[block]] if pin[block] >= 0 else range(0, highest + 1, align[block]):
            if at <= highest and all(
                at + size[block] <= low or low + size[other] <= at
                for other, low in offset.items()
                if first[block] <= last[other] and last[block] >= first[other]
            ):
                offset[block] = at
                if place(rank + 1):
                    return True
                del offset[block]
        return False

    return bool(place(0))


@st.composite
def blocks(draw):
    """Up to seven small blocks: size, first, last, align, pin."""
    rows = []
    for _ in range(draw(st.integers(1, 7))):
        align, first = draw(st.sampled_from([1, 1, 1, 2, 3])), draw(st.integers(0, 5))
        pin = align * draw(st.integers(0, 2)) if draw(st.integers(0, 4)) == 0 else -1
        rows.append((draw(st.integers(1, 5)), first, first + draw(st.integers(0, 3)), align, pin))
    return [np.array(column, dtype=np.int64) for column in zip(*rows, strict=True)]


@examples(400)
@given(blocks(), st.integers(-1, 2), st.lists(st.integers(0, 2), min_size=7, max_size=7))
def test_search_agrees_with_brute_force(columns, more, above):
    size, first, last, align, pin = columns
    load = max(size[(first <= op) & (last >= op)].sum() for op in first)
    below = load + more + np.array(above[: len(size)])
    there = exists(below, *columns)
    asked = Blocks(size, first, last, below, align, pin).take(np.argsort(first, kind="stable"))
    offset = np.empty(len(size), dtype=np.int64)
    assert tree_search(packing_problem(asked), 10**5, offset)[0] == there
    if there:
        check(offset, asked.size, asked.first, asked.last, asked.align, asked.pin)
        assert (offset + asked.size <= asked.below).all()
    assert fit(asked).outcome == there


@examples(120)
@given(blocks())
def test_the_smallest_arena_is_one(columns):
    size, first, last, align, pin = columns
    packed = pack(size, first, last, align=align, pin=pin)
    if packed.outcome == "impossible":
        assert not exists(np.full(len(size), 99), *columns)
        return
    assert packed.proven
    check(packed.offset, *columns)
    assert packed.arena == (packed.offset + size).max()
    for capacity, outcome in ((packed.arena, "found"), (packed.arena - 1, "impossible")):
        again = pack(size, first, last, capacity=capacity, align=align, pin=pin)
        assert again.outcome == outcome
        assert exists(np.full(len(size), capacity), *columns) == (outcome == "found")


@pytest.mark.parametrize("name", "AG")
@pytest.mark.parametrize("backward", [False, True])
def test_instances_of_minimalloc_fit(name, backward):
    size, first, last = instance(name)
    order = np.random.default_rng(1).permutation(len(size)) if backward else np.arange(len(size))
    size, first, last = size[order], first[order], last[order]
    if backward:
        first, last = last.max() - last, last.max() - first
    packed = pack(size, first, last)
    assert (packed.arena, packed.proven) == (2**20, True)
    check(packed.offset, size, first, last, np.ones_like(size), np.full_like(size, -1))


def test_what_is_not_decided_is_not_claimed():
    size, first, last = instance("A")
    packed = pack(size, first, last, capacity=2**20, work=1000)
    assert (packed.outcome, packed.proven, packed.bound) == ("unknown", False, 2**20)
    check(packed.offset, size, first, last, np.ones_like(size), np.full_like(size, -1))
    assert packed.arena == (packed.offset + size).max() > 2**20


def test_blocks_without_bytes_and_none():
    nothing = pack([], [], [])
    assert (nothing.outcome, len(nothing.offset), nothing.arena, nothing.proven) == ("found", 0, 0, True)
    assert pack([0, 0], 0, 1, capacity=0).outcome == "found"
    assert pack(3, [0, 0], 1, pin=[0, 2]).outcome == "impossible"


@pytest.mark.parametrize(
    "columns",
    [
        {"size": [1, 2]},
        {"size": [-1]},
        {"size": [0.5]},
        {"size": [2**61]},
        {"size": [2**62] * 4 + [5], "first": [0] * 5, "last": [1] * 5},
        {"capacity": "a", "last": [0]},
        {"size": [1, 1, 1]},
        {"last": [-1]},
        {"align": [0]},
        {"align": 4, "pin": 2},
        {"size": [1] * 5794, "first": 0, "last": 0},
    ],
)
def test_what_it_refuses(columns):
    with pytest.raises(PlanError):
        pack(
            **{"size": [1], "first": [0, 0] if len(columns.get("size", "")) == 2 else [0], "last": [0, 0, 0], **columns}
        )
