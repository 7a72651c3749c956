"""Expected contents of a plan's header, written plainly, and a tiny reader of headers."""

from __future__ import annotations

import re
from itertools import combinations
from typing import Any

from memplace_env._lib.units import round_up
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.task import Task
from memplace_env.program.program import TensorKind

Tables = dict[str, list[list[Any]]]
NO_ADDRESS = 2**64 - 1
_TABLE = re.compile(r"^static const \w+ memplace_(\w+)\[(\w+)\] = \{\n(.*?)\n\};$", re.MULTILINE | re.DOTALL)
_CELL = re.compile(r'"((?:[^"\\]|\\.)*)"|(\d+)u')
_ESCAPE = re.compile(rb'\\([0-7]{3}|["\\?])')


def tables_in(header: str) -> Tables:
    """The rows of a header's tables, without those that only stand for an empty table."""
    sizes = dict(re.findall(r"^#define (\w+) (\d+)u$", header, re.MULTILINE))
    tables: Tables = {}
    for name, size, body in _TABLE.findall(header):
        rows = [_cells(line) for line in body.splitlines()]
        assert len(rows) == int(sizes.get(size, size))
        tables[name] = rows if size in sizes else []
    return tables


def _cells(line: str) -> list[Any]:
    assert re.fullmatch(r'    \{(?:(?:"(?:[^"\\]|\\.)*"|\d+u)(?:, )?)+\},', line), line
    return [int(number) if number else text_in(text) for text, number in _CELL.findall(line)]


def text_in(literal: str) -> str:
    """The text of a string literal's inside."""
    assert literal.isascii()
    assert literal.isprintable()
    return _ESCAPE.sub(_byte, literal.encode()).decode()


def _byte(found: re.Match[bytes]) -> bytes:
    code = found[1]
    return bytes([int(code, 8)]) if len(code) == 3 else code


def require_tables_of(task: Task, plan: MemoryPlan, tables: Tables) -> None:
    """The tables say the plan, all of it and nothing else; names are those of the task if these are short ASCII."""
    program, chip = task.program, task.accelerator
    tensors, blocks = tables["tensors"], tables["allocations"]
    assert blocks == sorted(plan.allocations.tolist(), key=lambda row: (row[0], row[3], row[1]))
    assert [row[1:3] for row in tensors] == [
        [int(kind), int(size)] for kind, size in zip(program.tensor_kind, program.tensor_bytes, strict=True)
    ]
    for tensor, (*_, first, count) in enumerate(tensors):
        assert {row[0] for row in blocks[first : first + count]} <= {tensor}
    assert sum(row[5] for row in tensors) == len(blocks)

    def offset(tensor: int, level: int, first: int, last: int) -> int:
        if level == chip.backing:
            return int(tensors[tensor][3])
        (found,) = [row[2] for row in blocks if row[:2] == [tensor, level] and row[3] <= first and last <= row[4]]
        return int(found)

    copies = []
    for tensor, source, target, start, end in plan.transfers.tolist():
        ends = offset(tensor, source, max(start - 1, 0), end), offset(tensor, target, start, end + 1)
        copies.append([tensor, source, target, *ends, start, end])
    assert tables["copies"] == copies
    uses = zip(program.use_tensor.tolist(), plan.use_level.tolist(), program.use_op.tolist(), strict=True)
    assert tables["uses"] == [
        [tensor, level, offset(tensor, level, op, op), int(is_result)]
        for (tensor, level, op), is_result in zip(uses, program.use_is_result.tolist(), strict=True)
    ]
    assert [row[2:] for row in tables["ops"]] == [
        [int(program.use_ptr[op]), int(program.use_ptr[op + 1] - program.use_ptr[op])] for op in range(program.num_ops)
    ]
    _require_backing(task, plan, tables)
    _require_levels(task, tables)
    _require_slices(task, tables)


def _require_backing(task: Task, plan: MemoryPlan, tables: Tables) -> None:
    """Every tensor that is used or copied there has a place, which no other has that is there at the same time."""
    program, tensors = task.program, tables["tensors"]
    copies = plan.transfers[(plan.transfers[:, 1:3] == task.backing).any(axis=1)]
    needed = set(program.use_tensor[plan.use_level == task.backing].tolist()) | set(copies[:, 0].tolist())
    placed = {tensor: row[3] for tensor, row in enumerate(tensors) if row[3] != NO_ADDRESS}
    assert needed <= set(placed)
    own = [tensor for tensor in placed if program.alias_of[tensor] < 0]
    assert all(placed[tensor] == placed[program.alias_of[tensor]] for tensor in set(placed) - set(own))
    uses = zip(program.use_tensor.tolist(), plan.use_level.tolist(), program.use_op.tolist(), strict=True)
    times: dict[int, set[int]] = {tensor: set() for tensor in own}
    for tensor, level, op in uses:
        if level == task.backing:
            times[tensor if tensor in times else int(program.alias_of[tensor])].add(op)
    for tensor, _, _, start, end in copies.tolist():
        times[tensor if tensor in times else int(program.alias_of[tensor])] |= {start, end}
    for tensor in placed:
        owner = tensor if tensor in times else int(program.alias_of[tensor])
        if program.producer[owner] < 0:
            times[owner] |= {0, program.num_ops}
        if program.tensor_kind[tensor] == TensorKind.OUTPUT:
            times[owner].add(program.num_ops)
    for first, second in combinations(own, 2):
        apart = (
            placed[first] + tensors[first][2] <= placed[second] or placed[second] + tensors[second][2] <= placed[first]
        )
        assert apart or max(times[first]) < min(times[second]) or max(times[second]) < min(times[first])


def _require_slices(task: Task, tables: Tables) -> None:
    """Slices make up their tensors: rows without gaps, all bytes; without slices there is nothing of them."""
    slices, wholes, program = tables.get("slices", []), tables.get("wholes", []), task.program.whole
    if task.program.slices is None:
        assert not slices
        assert not wholes
        return
    assert [row[1:4] for row in wholes] == [
        [int(size), *map(int, rows)] for size, rows in zip(program.tensor_bytes, program.tensor_rows, strict=True)
    ]
    assert len(slices) == len(tables["tensors"])
    for number, (_, size, _, rows, first, count) in enumerate(wholes):
        mine = slices[first : first + count]
        assert {row[0] for row in mine} == {number}
        assert [row[1] for row in mine] == [sum(row[2] for row in mine[:index]) for index in range(count)]
        assert sum(row[2] for row in mine) == rows
        parts = [row[2] for row in tables["tensors"][first : first + count]]
        assert 0 <= sum(parts) - size < count * task.program.alignment
        unit = task.program.alignment
        assert [round_up(row[2] * size // rows, unit) for row in mine] == parts
        assert {row[1] for row in tables["tensors"][first : first + count]} == {int(program.tensor_kind[number])}


def _require_levels(task: Task, tables: Tables) -> None:
    tensors = tables["tensors"]
    for number, (level, row) in enumerate(zip(task.accelerator.levels, tables["levels"], strict=True)):
        assert row[1] == level.capacity_bytes
        assert row[2] <= level.capacity_bytes
        offsets = [(block[2], tensors[block[0]][2]) for block in tables["allocations"] if block[1] == number]
        if number == task.backing:
            offsets = [(low, size) for _, _, size, low, *_ in tensors if low != NO_ADDRESS]
        assert row[2] == max((low + size for low, size in offsets), default=0)
        most = max(64, task.program.alignment, level.alignment_bytes)
        assert row[3] in [2**power for power in range(most.bit_length())]
        assert all(low % row[3] == 0 for low, _ in offsets)
        assert row[3] == most or any(low % (2 * row[3]) for low, _ in offsets)
