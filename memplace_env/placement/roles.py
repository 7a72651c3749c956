"""The memories that each tensor may lie in, by what they hold, where inputs and outputs are; pins and their offsets."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from memplace_env._lib.errors import AcceleratorError, WorkloadError
from memplace_env._lib.foreign import shown
from memplace_env._lib.hints import nearest
from memplace_env.machine.accelerator import MemoryLevel
from memplace_env.machine.accelerator.accelerator import ANY, BACKING
from memplace_env.machine.costs.cost_arrays import LIMIT_PS, Costs
from memplace_env.program.blocks import end_tensors
from memplace_env.program.program import Program, TensorKind

Allowed = NDArray[np.bool_]
"""bool[K, L], whether each tensor may lie in each level."""

DIGITS: Final = 15
"""Most digits of an offset: no memory is larger."""
PENALTY_PS: Final = LIMIT_PS // 4
"""Picoseconds that all uses together take which the backing memory serves and must not: no plan of those is fast."""


def allowed_levels(program: Program, levels: Sequence[MemoryLevel], io_level: str, pins: Mapping[str, str]) -> Allowed:
    """Return bool[K, L], whether each tensor may lie in each level.

    Args:
        program: the program.
        levels: those of the chip, which say what they hold and how large a block may be.
        io_level: see `Accelerator.io_level`; for the tensors of `blocks.end_tensors`.
        pins: the level, by name, of tensors by name; of all slices of a tensor of `Program.whole`. What stands behind
            "@" is for `pinned_offsets`.

    Raises:
        WorkloadError: for a tensor or a level that there is not.
        AcceleratorError: if a tensor may lie nowhere.
    """
    weight = program.tensor_kind == TensorKind.WEIGHT
    allowed = np.zeros((program.num_tensors, len(levels)), dtype=np.bool_)
    for index, level in enumerate(levels):
        allowed[:, index] = np.where(weight, "weights" in level.holds, "activations" in level.holds)
        if level.largest_block_bytes is not None and index < len(levels) - 1:
            allowed[program.tensor_bytes > level.largest_block_bytes, index] = False
    numbers = {level.name: index for index, level in enumerate(levels)}
    if io_level not in (BACKING, ANY):
        allowed[end_tensors(program)] &= np.arange(len(levels)) == numbers[io_level]
    whole = program.whole
    tensors = set(whole.tensor_name) if pins else set[str]()
    for name, pin in pins.items():
        level_name, _ = _parts(pin, numbers)
        if not level_name:
            raise WorkloadError(f"The pin {shown(name)}={shown(pin)} names no memory; it is TENSOR=MEMORY[@OFFSET].")
        for known, what, where in ((tensors, "tensor", repr(whole.name)), (numbers, "memory", "the chip")):
            wanted = name if what == "tensor" else level_name
            if wanted not in known:
                close = nearest(wanted, known)
                did = f"; did you mean {shown(close)}?" if close else "."
                raise WorkloadError(f"A pin names the {what} {shown(wanted)}, which {where} does not have{did}")
        named = np.array([one == name for one in whole.tensor_name])[program.whole_tensor]
        if level_name != levels[-1].name and not program.is_placeable[named].all():
            raise WorkloadError(
                f"A pin puts {shown(name)} into {level_name}, but inputs and outputs of the graph are in no block; "
                f"pass io_level={ANY!r} or {level_name!r} too."
            )
        allowed[named] &= np.arange(len(levels)) == numbers[level_name]
    for tensor in np.flatnonzero(~allowed.any(axis=1))[:1].tolist():
        raise AcceleratorError(
            f"tensor {shown(program.tensor_name[tensor])} of {program.tensor_bytes[tensor]:,} bytes may lie in no "
            "memory of the chip: look at holds, largest_block_bytes and io_level of its file, and at pins."
        )
    return allowed


def pinned_offsets(program: Program, levels: Sequence[MemoryLevel], pins: Mapping[str, str]) -> NDArray[np.int64]:
    """Return int64[K], the byte of its level at which each block of a tensor begins; -1: anywhere.

    Args:
        program, levels, pins: as for `allowed_levels`; "SRAM@64" is byte 64 of SRAM.

    Raises:
        WorkloadError: for what is no such offset, or one of slices.
    """
    offsets = np.full(program.num_tensors, -1, dtype=np.int64)
    names = [level.name for level in levels]
    for name, pin in pins.items():
        level, offset = _parts(pin, names)
        if offset is None:
            continue
        (tensors,) = np.nonzero(np.array([one == name for one in program.whole.tensor_name])[program.whole_tensor])
        unit, text = program.alignment, f"The pin {shown(name)}={shown(pin)}"
        digits = offset if offset.isascii() and offset.isdecimal() else ""
        if len(digits.lstrip("0")) > DIGITS:
            raise WorkloadError(f"{text}: the offset is too large; no memory has that many bytes.")
        if not digits or int(digits) % unit:
            raise WorkloadError(
                f"{text} needs a whole number of bytes{f', a multiple of {unit},' * (unit > 1)} behind @."
            )
        if level == names[-1]:
            raise WorkloadError(
                f"{text}: plans choose no addresses in {level}, the backing memory; leave out the offset."
            )
        if len(tensors) > 1:
            raise WorkloadError(f"{text} is of several tensors, as slices are; leave out the offset, or slices.")
        offsets[tensors] = int(offset)
    return offsets


def _parts(pin: str, levels: Collection[str]) -> tuple[str, str | None]:
    """Return the level that a pin names, and what stands behind "@"; None without that."""
    level, at, offset = pin.rpartition("@")
    return (pin, None) if pin in levels or not at else (level, offset)


def next_levels(allowed: Allowed) -> NDArray[np.int64]:
    """Return int64[K, L]: of the levels that each tensor may lie in the fastest from each one on, else the last."""
    found = np.full(allowed.shape, allowed.shape[1] - 1, dtype=np.int64)
    for level in range(allowed.shape[1] - 2, -1, -1):
        found[:, level] = np.where(allowed[:, level], level, found[:, level + 1])
    return found


def asked_levels(allowed: Allowed) -> NDArray[np.int64]:
    """Return int64[K, L], the level that a request for each one begins with: `next_levels`, or the slowest allowed."""
    slowest = allowed.shape[1] - 1 - allowed[:, ::-1].argmax(axis=1)
    asked: NDArray[np.int64] = np.minimum(next_levels(allowed), slowest[:, None])
    return asked


def with_penalties(costs: Costs, program: Program, allowed: Allowed) -> Costs:
    """Return the costs with uses that the backing memory must not serve at `PENALTY_PS` together, or as they are."""
    forbidden = ~allowed[program.use_tensor, -1]
    if not forbidden.any():
        return costs
    use_ps = costs.use_ps.copy()
    use_ps[forbidden, -1] = PENALTY_PS // len(use_ps)
    return costs._replace(use_ps=use_ps)


def without_penalties(costs: Costs, program: Program, allowed: Allowed) -> Costs:
    """Return costs in which the backing memory serves uses that it must not as the slowest of their levels would.

    For models that allow no such use: a number that is never paid, of the size of others.
    """
    forbidden = np.flatnonzero(~allowed[program.use_tensor, -1])
    use_ps = costs.use_ps.copy()
    use_ps[forbidden, -1] = np.where(allowed[program.use_tensor[forbidden]], use_ps[forbidden], 1).max(axis=1)
    return costs._replace(use_ps=use_ps)
