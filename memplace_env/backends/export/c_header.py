"""A plan as a C header: tables that a firmware reads, valid in C11 and C++."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

import numpy as np

from memplace_env._lib.errors import PlanError
from memplace_env.placement.backing_memory import ALIGNMENT, backing_offsets
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.task import Task
from memplace_env.placement.validation import require_valid
from memplace_env.program.blocks import ARRIVAL, DEPARTURE, end_tensors
from memplace_env.program.program import Ints, Program, TensorKind

MOST_NAME_BYTES: Final = 1_000
"""Longer names lose their middle; C compilers need not accept strings of more than 4,095 bytes."""

NO_ADDRESS: Final = 2**64 - 1

_FIELDS: Final[Mapping[str, Sequence[str]]] = {
    "level": ("*name", "+capacity_bytes", "+arena_bytes", "alignment_bytes"),
    "tensor": ("*name", "kind", "+bytes", "+backing_offset", "first_allocation", "allocation_count"),
    "allocation": ("tensor", "level", "+offset", "first_op", "last_op"),
    "copy": ("tensor", "source_level", "target_level", "+source_offset", "+target_offset", "earliest_op", "latest_op"),
    "op": ("*name", "*type", "first_use", "use_count"),
    "use": ("tensor", "level", "+offset", "is_result"),
    "slice": ("whole", "+first_row", "+row_count"),
    "whole": ("*name", "+bytes", "+block_count", "+row_count", "first_slice", "slice_count"),
}
"""Fields of each table's rows: `*` marks text, `+` what may pass 32 bits."""

_HEAD: Final = """\
/* A memory plan: where each tensor lies and when, which copies run beside the ops. Written by memplace; do not edit.

   Offsets and sizes are bytes; offsets count from the start of the level's arena, which begins at a multiple of the
   level's alignment_bytes (or of more), as each offset there is. Times are numbers of ops, both ends inclusive; {end}
   is the end of the program. Level 0 is the fastest, the last level the backing memory, where each tensor that ever is
   there has one place (backing_offset, else {macro}_NO_ADDRESS). Inputs and weights keep theirs. A result's is its own
   from the first to the last op that uses or copies it there, an output's to the end; at other ops it may be another
   result's. A tensor's allocations are rows first_allocation to first_allocation + allocation_count - 1; so are an op's
   uses, its operands first. A copy may start when op earliest_op starts and has ended when op latest_op ends. */
#ifndef {macro}_PLAN_H
#define {macro}_PLAN_H

#include <stdint.h>
"""

_IN_PLACE: Final = """
/* Some results lie in the place of an operand: where a result has the level and offset of one of its op's operands, the
   op writes it over that operand, from the first byte on. */"""

_ALIGNED: Final = """
/* The bytes of each tensor are rounded up to a multiple of {alignment}; the last ones may hold nothing. */"""

_ENDS: Final = """
/* Inputs and outputs of the network lie in blocks: the caller writes the results of the first op, of type {arrival},
   before the op after it starts, and reads the operands of the last op, of type {departure}, when the op before it has
   ended. These two ops do nothing themselves. */"""

_SLICES: Final = """
/* Some tensors of the network are cut into slices, which may lie in different levels. Each row of {prefix}_tensors is a
   slice, and the same row of {prefix}_slices says which rows of which tensor it holds: of one that is not cut, all.
   {prefix}_wholes has the tensors themselves: block_count blocks of row_count rows of equal bytes each; their slices
   are rows first_slice to first_slice + slice_count - 1. A slice holds its rows of the first block, then those of the
   second, and so on. */"""


def text_of(task: Task, plan: MemoryPlan, *, prefix: str = "memplace", written_by: str = "memplace") -> str:
    """Return the header of a plan: levels, tensors, allocations, copies, ops and uses as static const tables.

    If the program is sliced, tensors are slices, and two more tables say of what.

    Rows of allocations are sorted by tensor, then by their first op; all else is in the order of program and plan.
    Names are in strings only, never in comments.

    Args:
        task: the plan's task.
        plan: valid for it.
        prefix: begins every name that the header defines, those of macros in capitals, so that one file can include
            several whose prefixes differ in more than case.
        written_by: origin stated in the header.

    Raises:
        PlanError: if the plan is not valid, or the prefix is no C identifier.
    """
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]{0,63}", prefix):
        raise PlanError(f"The prefix {prefix!r} cannot begin names in C; take letters, digits and _, such as my_net.")
    require_valid(task, plan)
    layout = ExportLayout.of(task, plan)
    rows = _rows(task, plan, layout)
    macro = prefix.upper()
    return "\n".join(
        [
            _HEAD.format(end=task.program.num_ops, macro=macro),
            *([_IN_PLACE] if plan.handed_over(task.program) else []),
            *([_ALIGNED.format(alignment=task.program.alignment)] if task.program.alignment > 1 else []),
            *([_ENDS.format(arrival=ARRIVAL, departure=DEPARTURE)] if len(end_tensors(task.program)) else []),
            *([_SLICES.format(prefix=prefix)] if task.program.slices else []),
            *_constants(layout, rows, macro),
            "",
            *_texts(task, plan, prefix, written_by),
            *(line for name, table in rows.items() for line in ("", *_table(prefix, macro, name, table))),
            "",
            f"#endif /* {macro}_PLAN_H */",
            "",
        ]
    )


def c_string(text: str) -> str:
    """Return a string literal of the text in UTF-8; a long text's middle is cut out, a zero byte becomes ?.

    Question marks are escaped for the sake of trigraphs, other bytes in octal, which ends after three digits.
    """
    content = text.encode("utf-8", errors="replace").replace(b"\0", b"?")
    if len(content) > MOST_NAME_BYTES:
        tail = MOST_NAME_BYTES // 3
        content = content[: MOST_NAME_BYTES - tail - 3] + b"..." + content[-tail:]
    return '"' + "".join(map(_escaped, content)) + '"'


def _escaped(byte: int) -> str:
    letter = chr(byte)
    if letter in '"\\?':
        return f"\\{letter}"
    return letter if 32 <= byte < 127 else f"\\{byte:03o}"


def _rows(task: Task, plan: MemoryPlan, layout: ExportLayout) -> dict[str, list[tuple[str | int, ...]]]:
    """Return the rows of each table, with the columns `_FIELDS`."""
    program = task.program
    blocks = sorted(plan.allocations.tolist(), key=lambda block: (block[0], block[3], block[1]))
    counts = [0] * program.num_tensors
    for block in blocks:
        counts[block[0]] += 1
    firsts = [0, *accumulate(counts)][:-1]
    use_ptr = program.use_ptr.tolist()
    return {
        "level": [
            (level.name, level.capacity_bytes, arena, alignment)
            for level, arena, alignment in zip(
                task.accelerator.levels, layout.arena_bytes.tolist(), layout.alignment.tolist(), strict=True
            )
        ],
        "tensor": [
            (name, kind, size, offset if offset >= 0 else NO_ADDRESS, first, count)
            for name, kind, size, offset, first, count in zip(
                program.tensor_name,
                program.tensor_kind.tolist(),
                program.tensor_bytes.tolist(),
                layout.backing_offset.tolist(),
                firsts,
                counts,
                strict=True,
            )
        ],
        "allocation": [tuple(block) for block in blocks],
        "copy": [
            (tensor, source, target, *offsets, start, end)
            for (tensor, source, target, start, end), offsets in zip(
                plan.transfers.tolist(), layout.copy_offset.tolist(), strict=True
            )
        ],
        "op": [
            (name, op_type, use_ptr[op], use_ptr[op + 1] - use_ptr[op])
            for op, (name, op_type) in enumerate(zip(program.op_name, program.op_type, strict=True))
        ],
        "use": [
            (tensor, level, offset, int(is_result))
            for tensor, level, offset, is_result in zip(
                program.use_tensor.tolist(),
                plan.use_level.tolist(),
                layout.use_offset.tolist(),
                program.use_is_result.tolist(),
                strict=True,
            )
        ],
        **_slice_rows(program),
    }


def _slice_rows(program: Program) -> dict[str, list[tuple[str | int, ...]]]:
    """Return the rows of the tables about slices; none if the program is not sliced."""
    slices, whole = program.slices, program.whole
    if slices is None:
        return {}
    counts = np.bincount(slices.slice_of)
    return {
        "slice": [
            (tensor, first, last - first)
            for tensor, (first, last) in zip(slices.slice_of.tolist(), slices.rows.tolist(), strict=True)
        ],
        "whole": [
            (name, size, *rows, first, count)
            for name, size, rows, first, count in zip(
                whole.tensor_name,
                whole.tensor_bytes.tolist(),
                whole.tensor_rows.tolist(),
                (np.cumsum(counts) - counts).tolist(),
                counts.tolist(),
                strict=True,
            )
        ],
    }


def _constants(layout: ExportLayout, rows: Mapping[str, Sequence[object]], macro: str) -> Iterable[str]:
    """Yield macros: sizes of the tables and of arenas, names of the kinds."""
    for name, table in rows.items():
        yield f"#define {macro}_{_plural(name).upper()} {len(table)}u"
    for level, size in enumerate(layout.arena_bytes.tolist()):
        yield f"#define {macro}_ARENA_BYTES_{level} {size}u"
    for kind in TensorKind:
        yield f"#define {macro}_{kind.name} {kind.value}u"
    yield f"#define {macro}_NO_ADDRESS {NO_ADDRESS}u"


def _texts(task: Task, plan: MemoryPlan, prefix: str, written_by: str) -> Iterable[str]:
    """Yield strings: program, accelerator, hashes, origin."""
    texts = {
        "program": task.program.name,
        "program_sha256": task.program.sha256,
        "accelerator": task.accelerator.name,
        "accelerator_sha256": task.accelerator.sha256,
        "plan_sha256": hashlib.sha256(plan.to_json().encode()).hexdigest(),
        "written_by": written_by,
    }
    for name, text in texts.items():
        yield f"static const char {prefix}_{name}[] = {c_string(text)};"


def _table(prefix: str, macro: str, name: str, rows: Sequence[tuple[str | int, ...]]) -> Iterable[str]:
    """Yield the type of a table's rows, and the table; C has no empty tables, so those have one row of zeros."""
    fields = _FIELDS[name]
    yield "typedef struct {"
    for field in fields:
        c_type = {"*": "const char *", "+": "uint64_t "}.get(field[0], "uint32_t ")
        yield f"    {c_type}{field.lstrip('*+')};"
    yield f"}} {prefix}_{name};"
    yield ""
    size = f"{macro}_{_plural(name).upper()}" if rows else "1"
    yield f"static const {prefix}_{name} {prefix}_{_plural(name)}[{size}] = {{"
    for row in rows or [tuple("" if field[0] == "*" else 0 for field in fields)]:
        cells = (c_string(cell) if isinstance(cell, str) else f"{cell}u" for cell in row)
        yield f"    {{{', '.join(cells)}}},"
    yield "};"


def _plural(name: str) -> str:
    return "copies" if name == "copy" else f"{name}s"


@dataclass(frozen=True)
class ExportLayout:
    """Addresses of a plan's tensors, uses and copies, in bytes from the start of each level's arena.

    Attributes:
        arena_bytes: int64[L], size up to the last byte that a tensor ever takes.
        alignment: int64[L], the power of two of which every offset in the level is a multiple: at most `ALIGNMENT`, or
            what the level or the plan asks for if that is more.
        backing_offset: int64[K], -1 for tensors that are never in the backing memory.
        use_offset: int64[U], offset in the level that serves the use.
        copy_offset: int64[M, 2], offsets that each copy reads and writes.
    """

    arena_bytes: Ints
    alignment: Ints
    backing_offset: Ints
    use_offset: Ints
    copy_offset: Ints

    @classmethod
    def of(cls, task: Task, plan: MemoryPlan) -> ExportLayout:
        """Return the layout of a valid plan."""
        program, backing = task.program, task.backing
        backing_offset = backing_offsets(task, plan)
        assert backing_offset is not None  # or else the plan is not valid
        behind = backing_offset >= 0
        last_byte = backing_offset + program.tensor_bytes
        arena_bytes = np.zeros(backing + 1, dtype=np.int64)
        arena_bytes[backing] = last_byte[behind].max(initial=0)
        tensor, level, offset, _, _ = plan.allocations.T
        np.maximum.at(arena_bytes, level, offset + program.tensor_bytes[tensor])
        offsets = [offset[level == index] for index in range(backing)] + [backing_offset[behind]]
        most = [max(ALIGNMENT, program.alignment, memory.alignment_bytes) for memory in task.accelerator.levels]
        alignment = [math.gcd(unit, *here.tolist()) for unit, here in zip(most, offsets, strict=True)]
        blocks = _Blocks(plan, backing, backing_offset)
        uses = zip(program.use_tensor.tolist(), plan.use_level.tolist(), program.use_op.tolist(), strict=True)
        use_offset = [blocks.offset(used, served, op, op) for used, served, op in uses]
        return cls(
            arena_bytes=arena_bytes,
            alignment=np.array(alignment, dtype=np.int64),
            backing_offset=backing_offset,
            use_offset=np.array(use_offset, dtype=np.int64),
            copy_offset=np.array([blocks.ends(*row) for row in plan.transfers.tolist()], dtype=np.int64).reshape(-1, 2),
        )


class _Blocks:
    """The blocks of tensors by level and time."""

    def __init__(self, plan: MemoryPlan, backing: int, backing_offset: Ints) -> None:
        self._backing = backing
        self._backing_offset = backing_offset
        spans = plan.allocations[:, 2:].tolist()
        self._blocks: dict[tuple[int, int], list[list[int]]] = {
            block: [spans[row] for row in rows] for block, rows in plan.block_rows().items()
        }

    def offset(self, tensor: int, level: int, first: int, last: int) -> int:
        """Return the offset of the block that covers ops first..last; a valid plan has one."""
        if level == self._backing:
            return int(self._backing_offset[tensor])
        blocks = self._blocks[tensor, level]
        return next(offset for offset, start, end in blocks if start <= first and last <= end)

    def ends(self, tensor: int, source: int, target: int, start: int, end: int) -> tuple[int, int]:
        """Return the offsets that a copy reads and writes."""
        ready = max(start - 1, 0)  # a resident weight lies there from op 0 on
        return self.offset(tensor, source, ready, end), self.offset(tensor, target, start, end + 1)
