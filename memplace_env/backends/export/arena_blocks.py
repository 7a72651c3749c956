"""Blocks of TensorFlow Lite Micro's arena as the runtime itself sees them, and the arena that its own planner makes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import tflite

from memplace_env._lib.errors import PlanError, WorkloadError
from memplace_env._lib.units import round_up
from memplace_env.backends.export.tflite_offsets import (
    ALIGNMENT,
    AT_RUN_TIME,
    Life,
    OfflinePlan,
    checked_plan,
    lives_of,
    tensor_count,
)
from memplace_env.program.frontends.tflite.tflite_reader import parse

ELSEWHERE: Final = "in another graph"
"""Why the runtime places tensors that only control flow or CALL_ONCE uses."""


class ArenaBlock(NamedTuple):
    """Bytes of the arena at one address: of a tensor, and of views of it whose kernels work in place.

    Attributes:
        members: indices of the file's tensors.
        size: bytes, a multiple of 16.
        first, last: times between which the bytes are its own, as in `Life`.
    """

    members: tuple[int, ...]
    size: int
    first: int
    last: int


class ArenaBlocks(NamedTuple):
    """The contents of a file's arena.

    Attributes:
        blocks: one for each inner result, graph input and graph output.
        tensors: number of the file's tensors, those of all graphs.
        left: number of tensors that the runtime places by itself, by reason: "variable", "without a size",
            `ELSEWHERE`.
        by_runtime: bytes of the arena by the runtime's own planner, which plans views by themselves; without scratch.
        hollow: names of constants whose contents the file lacks.
    """

    blocks: tuple[ArenaBlock, ...]
    tensors: int
    left: Mapping[str, int]
    by_runtime: int
    hollow: tuple[str, ...]


def arena_blocks(data: bytes) -> ArenaBlocks:
    """Return what the arena of a .tflite file's bytes holds.

    Raises:
        WorkloadError: the model cannot be read.
        PlanError: nothing in it has a place in the arena.
    """
    root, left = tflite.Model.GetRootAs(data, 0), Counter[str]()
    lives = lives_of(parse(data), data)
    try:
        stored = {index for index in lives if _is_stored(root, index)}
    except Exception as error:  # the package checks nothing, so damaged offsets raise anything
        raise WorkloadError(f"The model's buffers are damaged ({error}); get the file again.") from error
    own = {index: life for index, life in lives.items() if index not in stored and life.changes}
    hollow = tuple(life.tensor.name for index, life in lives.items() if index not in stored | own.keys() and life.bytes)
    names = {life.tensor.name for life in own.values()}
    groups: dict[str, list[int]] = {}
    for index, life in own.items():
        if life.tensor.variable or not life.bytes:
            left["variable" if life.tensor.variable else "without a size"] += 1
        else:
            groups.setdefault(life.source if life.source in names else life.tensor.name, []).append(index)
    if not groups:
        raise PlanError("No tensor of the model has a place in the arena; there is nothing to plan.")
    count = tensor_count(data)
    if others := count - root.Subgraphs(0).TensorsLength():
        left[ELSEWHERE] = others
    alone = [_block(lives, [index]) for group in groups.values() for index in group]
    blocks = tuple(_block(lives, group) for group in groups.values())
    return ArenaBlocks(blocks, count, left, _by_runtime(alone), hollow)


def offsets_of(arena: ArenaBlocks, offsets: Sequence[int]) -> OfflinePlan:
    """Return the offline plan with these offsets, bytes, one for each block.

    Raises:
        PlanError: the metadata cannot state them.
    """
    planned = [AT_RUN_TIME] * arena.tensors
    for block, offset in zip(arena.blocks, offsets, strict=True):
        for index in block.members:
            planned[index] = offset
    top = max(block.size + offset for block, offset in zip(arena.blocks, offsets, strict=True))
    return checked_plan(planned, top, arena.left)


def _block(lives: Mapping[int, Life], members: Sequence[int]) -> ArenaBlock:
    """Return the block of these tensors; types of half a byte take a whole one there."""
    each = [lives[index] for index in members]
    size = max(max(life.bytes, math.prod(life.tensor.shape)) for life in each)
    ends = min(life.first for life in each), max(life.last for life in each)
    return ArenaBlock(tuple(members), round_up(size, ALIGNMENT), *ends)


def _is_stored(root: Any, index: int) -> bool:
    """Return whether the file has the tensor's contents."""
    number = root.Subgraphs(0).Tensors(index).Buffer()
    return 0 <= number < root.BuffersLength() and bool(root.Buffers(number).DataLength())


def _by_runtime(blocks: Sequence[ArenaBlock]) -> int:
    """Return the arena's bytes by the runtime's rule: the largest first, of equals the last, each at the lowest gap."""
    placed: list[tuple[int, ArenaBlock]] = []
    for block in sorted(blocks, key=lambda block: (-block.size, -block.members[0])):
        offset = 0
        for low, other in placed:
            if other.first <= block.last and block.first <= other.last:
                if low - offset >= block.size:
                    break
                offset = max(offset, low + other.size)
        placed.append((offset, block))
        placed.sort(key=lambda entry: entry[0])
    return max(offset + block.size for offset, block in placed)
