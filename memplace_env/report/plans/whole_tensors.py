"""Whole tensors of a sliced program: their names, their bytes in each level, and their blocks without the cuts."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.task import Task
from memplace_env.program.program import Ints, Program


def slice_counts(program: Program) -> Ints:
    """Return the number of slices of each tensor of `program.whole`; 1 for one that is not cut."""
    return np.bincount(program.whole_tensor, minlength=program.whole.num_tensors)


def part_text(program: Program, slices: Ints) -> str:
    """Return which slices of one tensor these are, and their share of its bytes, in percent.

    Returns:
        "slice 2 of 6, 17 %", "slices 2 to 4 of 6, 50 %", or "3 of 6 slices, 50 %" if others are between them; empty if
        they are all of the tensor.
    """
    whole_tensor = program.whole_tensor
    whole = whole_tensor[slices[0]]
    before, end = np.searchsorted(whole_tensor, [whole, whole + 1]).tolist()  # slices of a tensor follow each other
    count, numbers = end - before, (np.sort(slices) - before + 1).tolist()
    first, last = numbers[0], numbers[-1]
    if len(numbers) == count:
        return ""
    share = 100 * program.tensor_bytes[slices].sum() / program.whole.tensor_bytes[whole]
    if first == last:
        shown = f"slice {first} of {count}"
    elif last - first + 1 == len(numbers):
        shown = f"slices {first} to {last} of {count}"
    else:
        shown = f"{len(numbers)} of {count} slices"
    return f"{shown}, {share:.0f} %"


class CutTensor(NamedTuple):
    """A tensor that is cut into slices, and where a plan keeps them.

    Attributes:
        name, slices: its name and the number of its slices.
        level_bytes: int64[L], bytes of the slices in each level, as from `MemoryPlan.tensor_levels`.
    """

    name: str
    slices: int
    level_bytes: Ints

    @property
    def bytes(self) -> int:
        """Bytes of the whole tensor."""
        return int(self.level_bytes.sum())

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {"name": self.name, "slices": self.slices, "level_bytes": self.level_bytes.tolist()}


def split_tensors(task: Task, plan: MemoryPlan) -> list[CutTensor]:
    """Return the tensors whose slices a plan keeps in more than one level, largest first."""
    program, counts = task.program, slice_counts(task.program)
    placed = np.zeros((program.whole.num_tensors, task.accelerator.num_levels), dtype=np.int64)
    np.add.at(placed, (program.whole_tensor, plan.tensor_levels(program)), program.tensor_bytes)
    split = np.flatnonzero(np.count_nonzero(placed, axis=1) > 1)
    split = split[np.argsort(-placed[split].sum(axis=1), kind="stable")]
    return [CutTensor(program.whole.tensor_name[tensor], int(counts[tensor]), placed[tensor]) for tensor in split]


class JoinedBlocks(NamedTuple):
    """Blocks in which slices of one tensor that adjoin at the same time are one.

    Attributes:
        block: int64[N], the block with the lowest address of each.
        part_of: int64[A], the joined block that each block is a part of.
        bytes: int64[N], the bytes of each.
        names: their labels: the tensor's name, with the share of it that is there at that time unless all is. It
            is empty for all but the largest of several that are apart.
    """

    block: Ints
    part_of: Ints
    bytes: Ints
    names: list[str]


def joined_blocks(program: Program, tensor: Ints, offset: Ints, times: Ints) -> JoinedBlocks:
    """Return a level's blocks as they are drawn; those of a program without slices are as they were.

    Args:
        program: the program.
        tensor, offset: int64[A], of each block.
        times: int64[A, ...], equal for blocks that may be one.
    """
    size = program.tensor_bytes[tensor]
    if program.slices is None or not len(tensor):
        every = np.arange(len(tensor))
        return JoinedBlocks(every, every, size, [program.tensor_name[index] for index in tensor])
    keys = np.column_stack([program.whole_tensor[tensor], times])
    order = np.lexsort((offset, *keys.T[::-1]))
    alike = (keys[order][1:] == keys[order][:-1]).all(axis=1)
    meets = (offset + size)[order][:-1] == offset[order][1:]
    together = np.concatenate([[0], np.cumsum(~alike)])
    piece = np.concatenate([[0], np.cumsum(~(alike & meets))])
    first = np.flatnonzero(np.diff(piece, prepend=-1))
    part_of = np.empty_like(piece)
    part_of[order] = piece
    bytes_ = np.add.reduceat(size[order], first)
    there = np.bincount(together, size[order])[together[first]]
    # The largest piece of those alike has the label.
    labelled = np.zeros(len(first), dtype=bool)
    ranked = np.argsort(-bytes_, kind="stable")
    labelled[ranked[np.unique(together[first][ranked], return_index=True)[1]]] = True
    names = []
    for index, whole in enumerate(keys[order[first], 0]):
        share = 100 * there[index] / program.whole.tensor_bytes[whole]
        text = program.whole.tensor_name[whole] + (f" {share:.0f} %" if share < 100 else "")
        names.append(text if labelled[index] else "")
    return JoinedBlocks(order[first], part_of, bytes_, names)
