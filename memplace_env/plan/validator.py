"""The independent judge of plans: plain, slow, and the only way for a latency to count."""

from __future__ import annotations

from bisect import bisect_left
from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from memplace_env.errors import PlanError
from memplace_env.plan.plan import MemoryPlan
from memplace_env.task import Task
from memplace_env.workload.program import Ints, Program, TensorKind

NEVER = np.iinfo(np.int64).max


class Violation(NamedTuple):
    """One broken rule: `rule` is its short name, `message` a sentence with the culprits."""

    rule: str
    message: str


def violations(task: Task, plan: MemoryPlan) -> list[Violation]:
    """Every rule that the plan breaks; an empty list means that the plan can run.

    Rules by name: `program`, `accelerator` (made for another one), `range` (an index, time, level or address that
    does not exist), `capacity`, `reserved` (a block lies where an op keeps bytes for itself), `overlap` (two blocks
    share bytes at some time), `duplicate` (two blocks of one tensor in one level at once), `prefetch`, `write-back` (a
    copy without a block, or of data not there yet), `use` (served by a level that does not hold the data; without a
    prefetch, the block of a resident weight does only if it covers ops 0..T-1), `result` (no block begins at its op),
    `output` (not in the backing memory at the end), `alias` (a copy of a tensor whose place an output takes still runs
    when that is made). Problems of the first three kinds hide the others.

    A tensor and the output that takes its place may lie in the same bytes of a level; in the backing memory they do.
    """
    broken = _identity(task, plan) or _ranges(task, plan)
    if broken:
        return broken
    broken = _blocks(task, plan)
    block_ready, backing_ready, copies = _readiness(task, plan)
    return broken + copies + _uses(task, plan, block_ready, backing_ready) + _aliases(task, plan)


def require_valid(task: Task, plan: MemoryPlan) -> None:
    """Raise a PlanError that tells the first violation and how many there are, if there is any."""
    broken = violations(task, plan)
    if broken:
        more = f" (and {len(broken) - 1} more violations)" if len(broken) > 1 else ""
        raise PlanError(f"The plan cannot run: {broken[0].message}{more}")


def _identity(task: Task, plan: MemoryPlan) -> list[Violation]:
    program, accelerator = task.program, task.accelerator
    broken = []
    if plan.program_sha256 != program.sha256:
        broken.append(
            Violation(
                "program",
                f"the plan was made for another program ({plan.program!r}, hash {plan.program_sha256[:12]}) than "
                f"{program.name!r} (hash {program.sha256[:12]}); use the same model, batch, dims, dtype and fusion.",
            )
        )
    if plan.accelerator_sha256 != accelerator.sha256:
        broken.append(
            Violation(
                "accelerator",
                f"the plan was made for another accelerator ({plan.accelerator!r}) than {accelerator.name!r}, or for "
                "another version of it.",
            )
        )
    return broken


def _ranges(task: Task, plan: MemoryPlan) -> list[Violation]:
    program, accelerator = task.program, task.accelerator
    broken = []

    def demand(holds: bool | np.bool_, message: str) -> None:
        if not holds:
            broken.append(Violation("range", message))

    ops, backing = program.num_ops, accelerator.backing
    demand(
        len(plan.use_level) == program.num_uses,
        f"use_level has {len(plan.use_level)} entries for {program.num_uses} uses.",
    )
    for use in np.flatnonzero((plan.use_level < 0) | (plan.use_level > backing)):
        demand(False, f"use {use} is served by level {plan.use_level[use]}; levels are 0..{backing}.")
    low, high = np.array([[0, 0, 0, 0, 0], [program.num_tensors - 1, backing - 1, NEVER, ops, ops]])
    strange = ((plan.allocations < low) | (plan.allocations > high)).any(axis=1)
    for row in np.flatnonzero(strange | (plan.allocations[:, 3] > plan.allocations[:, 4])).tolist():
        tensor, level, offset, start, end = plan.allocations[row].tolist()
        demand(0 <= tensor < program.num_tensors, f"allocation {row} is of tensor {tensor}, which does not exist.")
        demand(0 <= level < backing, f"allocation {row} is in level {level}; blocks exist in levels 0..{backing - 1}.")
        demand(offset >= 0, f"allocation {row} has the negative offset {offset}.")
        demand(0 <= start <= end <= ops, f"allocation {row} lasts {start}..{end}, outside 0..{ops} or backwards.")
    for row, (tensor, source, target, start, end) in enumerate(plan.transfers.tolist()):
        demand(0 <= tensor < program.num_tensors, f"transfer {row} is of tensor {tensor}, which does not exist.")
        demand(
            0 <= min(source, target) < backing == max(source, target),
            f"transfer {row} goes from level {source} to {target}; one end must be the backing memory ({backing}).",
        )
        demand(0 <= start <= end <= ops, f"transfer {row} runs in {start}..{end}, outside 0..{ops} or backwards.")
    return broken


def _blocks(task: Task, plan: MemoryPlan) -> list[Violation]:
    """Capacity, what ops reserve, overlap and duplicates."""
    program, accelerator = task.program, task.accelerator
    broken = []
    tensor, level, offset, start, end = plan.allocations.T
    top = offset + program.tensor_bytes[tensor]
    for row in np.flatnonzero(_suspects(task, plan.allocations, top)):
        memory = accelerator.levels[level[row]]
        if top[row] > memory.capacity_bytes or top[row] < 0:
            broken.append(
                Violation(
                    "capacity",
                    f"the block of {_name(program, tensor[row])} in {memory.name} ends at byte {top[row]}, past its "
                    f"capacity of {memory.capacity_bytes}.",
                )
            )
        reserved = task.costs.reserved_bytes[start[row] : end[row] + 1, level[row]]
        if 0 <= top[row] <= memory.capacity_bytes < top[row] + reserved.max(initial=0):
            op = start[row] + reserved.argmax()
            broken.append(
                Violation(
                    "reserved",
                    f"the block of {_name(program, tensor[row])} in {memory.name} ends at byte {top[row]}, among the "
                    f"last {reserved.max()} bytes, which op {op} ({program.op_name[op]}) needs for itself.",
                )
            )
        later = slice(row + 1, None)
        together = (level[later] == level[row]) & (start[later] <= end[row]) & (end[later] >= start[row])
        taken = (program.alias_of[tensor[later]] == tensor[row]) | (program.alias_of[tensor[row]] == tensor[later])
        shared = taken & (offset[later] == offset[row])
        meets = together & ~shared & (offset[later] < top[row]) & (top[later] > offset[row])
        for other in np.flatnonzero(meets) + row + 1:
            broken.append(
                Violation(
                    "overlap",
                    f"{_name(program, tensor[row])} and {_name(program, tensor[other])} share bytes of {memory.name} "
                    f"at op {max(start[row], start[other])}.",
                )
            )
        for _ in np.flatnonzero(together & (tensor[later] == tensor[row])):
            broken.append(
                Violation("duplicate", f"{_name(program, tensor[row])} has two blocks in {memory.name} at once.")
            )
    return broken


def _suspects(task: Task, allocations: Ints, top: Ints) -> NDArray[np.bool_]:
    """bool[A], blocks to compare with every other one; of the rest it is certain that they break no rule of blocks."""
    tensor, level, offset, start, end = allocations.T
    most = task.costs.reserved_bytes.max(axis=0)
    capacity = np.array([memory.capacity_bytes for memory in task.accelerator.levels])
    suspect = (top < 0) | (top + most[level] > capacity[level])
    for fast in range(task.backing):
        here = np.flatnonzero(level == fast)
        suspect[here] |= (top[here] < 0).any() or _meet(offset[here], top[here], start[here], end[here])
    # The blocks of a tensor in a level, by their starts: two are there at once iff two neighbours are.
    order = np.lexsort((start, tensor, level))
    same = (np.diff(tensor[order]) == 0) & (np.diff(level[order]) == 0) & (start[order][1:] <= end[order][:-1])
    twice = np.unique(tensor[order][1:][same])
    return np.asarray(suspect | np.isin(tensor, twice))


def _meet(offset: Ints, top: Ints, start: Ints, end: Ints) -> bool:
    """Whether any two blocks of a level share a byte at some time.

    Goes through time with the list of blocks that are there, by address: as long as no two of them meet, a new one
    meets one of them only if it meets one of its two neighbours.
    """
    lows: list[int] = []
    tops: list[int] = []
    leaving: list[tuple[int, int]] = []
    order = np.lexsort((offset, start))
    for low, high, first, last in zip(*(part[order].tolist() for part in (offset, top, start, end)), strict=True):
        while leaving and leaving[0][0] < first:
            place = bisect_left(lows, heappop(leaving)[1])
            del lows[place], tops[place]
        place = bisect_left(lows, low)
        if (place and tops[place - 1] > low) or (place < len(lows) and lows[place] < high):
            return True
        lows.insert(place, low)
        tops.insert(place, high)
        heappush(leaving, (last, low))
    return False


def _readiness(task: Task, plan: MemoryPlan) -> tuple[Ints, Ints, list[Violation]]:
    """From which op each block (int64[A]) and each tensor's backing copy (int64[K]) hold valid data, else NEVER.

    Copies make data ready that other copies read, so this goes round until nothing changes; what is then still
    without valid data is a violation.
    """
    program, accelerator = task.program, task.accelerator
    backing = accelerator.backing
    result_level = np.full(program.num_tensors, backing)
    result_level[program.use_tensor[program.use_is_result]] = plan.use_level[program.use_is_result]
    made = program.producer >= 0

    backing_ready = np.where(made, np.where(result_level == backing, program.producer + 1, NEVER), 0)
    tensor, level, _, start, end = plan.allocations.T
    block_ready = np.full(len(tensor), NEVER)
    produced = made[tensor] & (level == result_level[tensor]) & (start == program.producer[tensor])
    block_ready[produced] = start[produced]
    if not task.streams_weights:  # loaded once, so whatever else were in their bytes would be there next time
        whole = (start == 0) & (end >= program.num_ops - 1)
        block_ready[(program.tensor_kind[tensor] == TensorKind.WEIGHT) & whole] = 0

    rows, starts, ends = _rows_of(plan), start.tolist(), end.tolist()
    changed = True
    while changed:
        changed, broken = False, []
        for row, (copied, source, target, first, last) in enumerate(plan.transfers.tolist()):
            prefetch = source == backing
            covers = (first, last + 1) if prefetch else (first - 1, last)
            mine = rows.get((copied, min(source, target)), ())
            blocks = [block for block in mine if starts[block] <= covers[0] and ends[block] >= covers[1]]
            rule = "prefetch" if prefetch else "write-back"
            what = f"transfer {row} ({rule} of {_name(program, copied)})"
            if len(blocks) == 0:
                broken.append(Violation(rule, f"{what} has no block that covers ops {covers[0]}..{covers[1]}."))
            elif prefetch and backing_ready[copied] > first:
                broken.append(Violation(rule, f"{what} starts at op {first}, before the backing memory has the data."))
            elif not prefetch and min(block_ready[block] for block in blocks) > first - 1:
                broken.append(Violation(rule, f"{what} starts at op {first}, before its block has the data."))
            elif prefetch and block_ready[blocks[0]] > last + 1:
                block_ready[blocks[0]], changed = last + 1, True
            elif not prefetch and backing_ready[copied] > last + 1:
                backing_ready[copied], changed = last + 1, True
    return block_ready, backing_ready, broken


def _uses(task: Task, plan: MemoryPlan, block_ready: Ints, backing_ready: Ints) -> list[Violation]:
    """Each use is served by data that is there; each graph output ends in the backing memory."""
    program, accelerator = task.program, task.accelerator
    broken = []
    rows, ready, in_backing = _rows_of(plan), block_ready.tolist(), backing_ready.tolist()
    start, end = plan.allocations[:, 3].tolist(), plan.allocations[:, 4].tolist()
    columns = (program.use_op, program.use_tensor, plan.use_level, program.use_is_result)
    for op, used, served, is_result in zip(*(column.tolist() for column in columns), strict=True):
        here = rows.get((used, served), ())
        if is_result:
            holds = served == accelerator.backing or any(start[row] == op for row in here)
        elif served == accelerator.backing:
            holds = in_backing[used] <= op
        else:
            holds = any(start[row] <= op <= end[row] and ready[row] <= op for row in here)
        if holds:
            continue
        name, where = _name(program, used), f"at op {op} ({program.op_name[op]}) from {accelerator.levels[served].name}"
        if is_result:
            broken.append(Violation("result", f"no block begins for {name}, made {where}."))
        else:
            resident = program.tensor_kind[used] == TensorKind.WEIGHT and not task.streams_weights
            hint = f": the block of a resident weight covers ops 0..{program.num_ops - 1}"
            rule = hint if resident and served != accelerator.backing else ""
            broken.append(Violation("use", f"{name} is read {where}, which does not hold it{rule}."))
    for output in np.flatnonzero((program.tensor_kind == TensorKind.OUTPUT) & (backing_ready == NEVER)):
        broken.append(Violation("output", f"graph output {_name(program, output)} never reaches the backing memory."))
    return broken


def _rows_of(plan: MemoryPlan) -> dict[tuple[int, int], list[int]]:
    """The rows of the blocks that a tensor has in a level, by (tensor, level)."""
    rows: dict[tuple[int, int], list[int]] = {}
    for row, block in enumerate(zip(*plan.allocations[:, :2].T.tolist(), strict=True)):
        rows.setdefault(block, []).append(row)
    return rows


def _aliases(task: Task, plan: MemoryPlan) -> list[Violation]:
    """Copies of a tensor whose place an output takes end before the op that makes the output."""
    program = task.program
    broken = []
    made = np.full(program.num_tensors, NEVER)
    outputs = np.flatnonzero(program.alias_of >= 0)
    made[program.alias_of[outputs]] = program.producer[outputs]
    for row, (copied, _, _, _, last) in enumerate(plan.transfers.tolist()):
        if last >= made[copied]:
            (output,) = np.flatnonzero(program.alias_of == copied)
            what = f"transfer {row} of {_name(program, copied)} ends at op {last}"
            message = f"{what}, but {_name(program, output)} takes its place at op {made[copied]}."
            broken.append(Violation("alias", message))
    return broken


def _name(program: Program, tensor: int | np.integer) -> str:
    return f"tensor {tensor} ({program.tensor_name[tensor]})"
