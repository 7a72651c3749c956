"""A .tflite file whose tensors lie in the smallest arena of TensorFlow Lite Micro, with the runtime's own arena."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import tflite

from memplace_env._lib.errors import ExecutionError, PlanError, WorkloadError
from memplace_env._lib.units import round_up
from memplace_env.backends.export import micro_runtime
from memplace_env.backends.export.tflite_file import NAME, with_offsets
from memplace_env.backends.export.tflite_offsets import ALIGNMENT, AT_RUN_TIME, Life, lives_of, tensor_count
from memplace_env.placement.addresses.memory_packing import pack
from memplace_env.program.frontends.tflite.tflite_reader import parse

ELSEWHERE: Final = "in another graph"
"""Why the runtime places tensors that only control flow or CALL_ONCE uses."""


class ArenaBlock(NamedTuple):
    """Bytes of a tensor, and of views of it whose kernels work in place; `first` and `last` as in `Life`."""

    members: tuple[int, ...]
    size: int
    first: int
    last: int


def smallest_file(data: bytes, *, check: bool) -> tuple[bytes, dict[str, Any]]:
    """Return a copy of a .tflite file's bytes with an offline plan in the smallest arena, and the arenas' sizes.

    The file stays as it is where the plan is not smaller than what the runtime makes by itself.

    Args:
        data: the file's bytes.
        check: whether both files run in TensorFlow Lite Micro, whose record of the arena then decides.

    Raises:
        WorkloadError: the model cannot be read.
        PlanError: nothing in it has a place in the arena, or offsets need more than 32 bits.
        ExecutionError: the runtime cannot run the model, or the outputs of the two files differ.
    """
    lives, root = lives_of(parse(data), data), tflite.Model.GetRootAs(data, 0)
    try:
        stored = {index for index in lives if _is_stored(root, index)}
    except Exception as error:  # the package checks nothing, so damaged offsets raise anything
        raise WorkloadError("The model's buffers are damaged; get the file again.") from error
    changing = {index: life for index, life in lives.items() if life.changes and index not in stored}
    placed = [index for index, life in changing.items() if life.bytes and not life.tensor.variable]
    left = Counter("variable" if lives[one].tensor.variable else "without a size" for one in changing.keys() - placed)
    if others := tensor_count(data) - root.Subgraphs(0).TensorsLength():
        left[ELSEWHERE] = others
    if not placed:
        raise PlanError("No tensor of the model has a place in the arena; there is nothing to plan.")
    names, groups = {life.tensor.name for life in changing.values()}, dict[str, list[int]]()
    for index in placed:
        source = lives[index].source
        groups.setdefault(source if source in names else lives[index].tensor.name, []).append(index)
    blocks = [_block(lives, group) for group in groups.values()]
    packed = pack(*list(zip(*blocks, strict=True))[1:], align=ALIGNMENT)
    if packed.arena >= 2**31:
        raise PlanError(f"The smallest arena takes {packed.arena:,} bytes, and the metadata's offsets have 32 bits.")
    offset_of = {one: at for block, at in zip(blocks, packed.offset.tolist(), strict=True) for one in block.members}
    written = with_offsets(data, [offset_of.get(index, AT_RUN_TIME) for index in range(tensor_count(data))])
    counts: dict[str, Any] = {
        "tensors": tensor_count(data),
        "planned": len(placed),
        "runtime_bytes": _by_runtime([_block(lives, [index]) for index in placed]),
        "arena_bytes": packed.arena,
        "bound_bytes": packed.bound,
        "proven": packed.proven,
        "at_run_time": dict(left),
    }
    smaller = packed.arena < counts["runtime_bytes"] or NAME in data  # an older plan may be worse than the runtime's
    if check:
        hollow = [one for one, life in lives.items() if life.bytes and not life.changes and one not in stored]
        if hollow:
            raise ExecutionError(
                f"The model lacks the contents of {len(hollow)} constants, as of {lives[hollow[0]].tensor.name!r}, and "
                "cannot run; leave out --check, or pass a model with its weights."
            )
        before, after = micro_runtime.run_in_micro(data), micro_runtime.run_in_micro(written)
        if any(one.tobytes() != other.tobytes() for one, other in zip(before.outputs, after.outputs, strict=True)):
            raise ExecutionError("The plan changes the outputs in TensorFlow Lite Micro; nothing is written.")
        counts |= {"recorded_before": before.head, "recorded_after": after.head}
        smaller = after.head < before.head
    return (written if smaller else data), counts | {"kept": not smaller}


def _block(lives: Mapping[int, Life], members: Sequence[int]) -> ArenaBlock:
    """Return the block of these tensors; types of half a byte take a whole one there."""
    each = [lives[index] for index in members]
    size = round_up(max(max(life.bytes, math.prod(life.tensor.shape)) for life in each), ALIGNMENT)
    return ArenaBlock(tuple(members), size, min(life.first for life in each), max(life.last for life in each))


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
