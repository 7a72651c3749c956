"""The independent check of plans: plain, slow, and a condition for every latency that counts."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from memplace_env._lib.errors import PlanError
from memplace_env._lib.foreign import described
from memplace_env.machine.costs.cost_arrays import LIMIT_PS
from memplace_env.placement.backing_memory import fits_backing
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.task import Task
from memplace_env.placement.validation.block_rules import MOST, Violation, broken_blocks, broken_roles, named
from memplace_env.program.program import Ints, TensorKind

NEVER = np.iinfo(np.int64).max


def violations(task: Task, plan: MemoryPlan) -> list[Violation]:
    """Return every rule that the plan breaks; an empty list means that the plan can run.

    Rules by name: `program`, `accelerator` (made for another one), `range` (an index, time, level or address that does
    not exist, or copies without end), `capacity`, `reserved` (a block lies where an op keeps bytes for itself),
    `alignment` (a block begins elsewhere than at a multiple of the program's), `pin` (elsewhere than at the byte that
    its tensor is pinned to), `role` (a block, a write-back, or a use that no block serves, in or to a memory that may
    not hold the tensor, see `Task.allowed`), `overlap` (two blocks share bytes at some time), `duplicate` (two blocks
    of one tensor in one level at once), `prefetch`, `write-back` (a copy without a block, or of data not there yet),
    `copy` (one between fast memories without a block; that runs during an op that uses the tensor; or of data not there
    at the use before), `use` (served by a level that does not hold the data; without a prefetch, the block of a
    resident weight does only if it covers ops 0..T-1), `result` (no block begins at its op), `output` (not in the
    backing memory at the end), `alias` (a copy of a tensor whose place an output takes, or from a block that a result
    takes, still runs when that is made), `backing` (the backing memory has no room for what it holds at once, see
    `backing_offsets`). Problems of the first three kinds hide the others, a thousand of blocks those of copies, and all
    others the last.

    A tensor and the output that takes its place may lie in the same bytes of a level; in the backing memory they do.
    Blocks of an operand and a result may share theirs at one op as `MemoryPlan.handed_over` says.

    Raises:
        PlanError: if it is no MemoryPlan.
    """
    if not isinstance(plan, MemoryPlan):
        raise PlanError(f"A plan is a MemoryPlan, not {described(plan)}.")
    broken = _identity(task, plan) or _ranges(task, plan) or _amounts(task, plan)
    if broken:
        return broken
    broken = broken_blocks(task, plan) + broken_roles(task, plan)
    if len(broken) >= MOST:
        return broken
    block_ready, backing_ready, copies = _readiness(task, plan)
    broken += copies + _uses(task, plan, block_ready, backing_ready) + _aliases(task, plan)
    return broken or _backing(task, plan)


def require_valid(task: Task, plan: MemoryPlan) -> None:
    """Raise a PlanError with the first violation and their number, if there is any."""
    broken = violations(task, plan)
    if broken:
        others = len(broken) - 1
        more = f" (and {others} more violation{'s' * (others > 1)})" if others else ""
        raise PlanError(f"The plan cannot run: {broken[0].message}{more}")


def _identity(task: Task, plan: MemoryPlan) -> list[Violation]:
    program, accelerator = task.program, task.accelerator
    broken = []
    if plan.program_sha256 != program.sha256:
        broken.append(
            Violation(
                "program",
                f"the plan was made for another program ({plan.program!r}, hash {plan.program_sha256[:12]}) than "
                f"{program.name!r} (hash {program.sha256[:12]}); use the same model, batch, "
                "dims, dtype, fusion, slices, order and results in place.",
            )
        )
    if plan.accelerator_sha256 != accelerator.sha256:
        broken.append(
            Violation(
                "accelerator",
                f"the plan was made for another accelerator ({plan.accelerator!r}) than {accelerator.name!r}, or for "
                "another version of it; pass its file as it was, or solve again.",
            )
        )
    return broken


def _ranges(task: Task, plan: MemoryPlan) -> list[Violation]:
    program, accelerator = task.program, task.accelerator
    broken = []

    def demand(condition: bool | np.bool_, message: str) -> None:
        if not condition:
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
        low, high = sorted((source, target))
        demand(
            0 <= low < high <= backing and (high == backing or task.fast_copies),
            f"transfer {row} goes from level {source} to {target}; one end must be the backing memory ({backing}).",
        )
        demand(0 <= start <= end <= ops, f"transfer {row} runs in {start}..{end}, outside 0..{ops} or backwards.")
    return broken


def _amounts(task: Task, plan: MemoryPlan) -> list[Violation]:
    """Return violations by copies that together take, move or cost more than the simulator counts: 2**60 units."""
    costs, (tensor, source, target) = task.costs, plan.transfers[:, :3].T
    between = task.copy_ps(tensor, source, target)
    amounts = {
        "take": np.maximum(costs.prefetch_ps[tensor], np.maximum(costs.writeback_ps[tensor], between)),
        "move": task.program.tensor_bytes[tensor],
        "cost": task.copy_pj(tensor, source, target),
    }
    return [
        Violation("range", f"its {len(tensor)} transfers {verb} more than the simulator counts.")
        for verb, amount in amounts.items()
        if amount.sum(dtype=float) > LIMIT_PS
    ]


def _readiness(task: Task, plan: MemoryPlan) -> tuple[Ints, Ints, list[Violation]]:
    """Return the op from which each block, int64[A], and each backing copy, int64[K], hold valid data, else NEVER.

    Copies make data ready that other copies read, so this repeats until nothing changes; copies that then still lack
    valid data are violations, the third value returned.
    """
    program, accelerator = task.program, task.accelerator
    backing = accelerator.backing
    result_level = np.full(program.num_tensors, backing)
    result_level[program.use_tensor[program.use_is_result]] = plan.use_level[program.use_is_result]
    is_result = program.producer >= 0

    backing_ready = np.where(is_result, np.where(result_level == backing, program.producer + 1, NEVER), 0)
    tensor, level, _, start, end = plan.allocations.T
    block_ready, moved = np.full(len(tensor), NEVER), np.zeros(len(tensor), dtype=np.bool_)
    produced = is_result[tensor] & (level == result_level[tensor]) & (start == program.producer[tensor])
    block_ready[produced] = start[produced]
    block_ready[task.resident_blocks(plan)] = 0

    rows = plan.block_rows() if len(plan.transfers) else {}
    starts, ends, always = start.tolist(), end.tolist(), task.resident_blocks(plan)
    # Readiness only falls, to one of at most T + 1 values, so that this ends. Only the last pass's violations count: in
    # an earlier one a copy may lack data that another copy makes ready.
    changed = True
    while changed:
        changed, broken = False, []
        for row, (copied, source, target, first, last) in enumerate(plan.transfers.tolist()):
            prefetch = source == backing
            covers = (first, last + 1) if prefetch else (first - 1, last)
            mine = rows.get((copied, min(source, target)), ())
            blocks = [block for block in mine if starts[block] <= covers[0] and ends[block] >= covers[1]]
            rule = "prefetch" if prefetch else "write-back"
            wrong = ""
            if max(source, target) < backing:
                rule, op = "copy", program.use_op[program.use_tensor == copied]
                used = int(op[op < first].max(initial=-1))
                into = [row for row in rows.get((copied, target), ()) if starts[row] <= first and ends[row] > last]
                read = [row for row in rows.get((copied, source), ()) if ends[row] >= last]
                if not into or ((op >= first) & (op <= last)).any():
                    wrong = f"has no block that covers ops {first}..{last + 1}, or an op among them uses the tensor."
                elif not any(always[row] or block_ready[row] <= used for row in read):
                    wrong = f"reads no block that holds the tensor from op {used}, which uses it before."
                elif block_ready[into[0]] > last + 1:
                    block_ready[into[0]], moved[into[0]], changed = last + 1, True, True
            elif len(blocks) == 0:
                wrong = f"has no block that covers ops {covers[0]}..{covers[1]}."
            elif prefetch and backing_ready[copied] > first:
                wrong = f"starts at op {first}, before the backing memory has the data."
            elif not prefetch and (moved[blocks[0]] or min(block_ready[block] for block in blocks) > first - 1):
                wrong = f"starts at op {first}, before its block has the data."
            elif prefetch and block_ready[blocks[0]] > last + 1:
                block_ready[blocks[0]], changed = last + 1, True
            elif not prefetch and backing_ready[copied] > last + 1:
                backing_ready[copied], changed = last + 1, True
            if wrong:
                broken.append(Violation(rule, f"transfer {row} ({rule} of {named(program, copied)}) {wrong}"))
    return block_ready, backing_ready, broken


def _uses(task: Task, plan: MemoryPlan, block_ready: Ints, backing_ready: Ints) -> list[Violation]:
    """Return violations of `use`, `result` and `output`."""
    program, accelerator = task.program, task.accelerator
    broken = []
    suspects = np.flatnonzero(_suspect_uses(task, plan, block_ready, backing_ready))
    rows = plan.block_rows() if len(suspects) else {}
    ready, in_backing = block_ready.tolist(), backing_ready.tolist()
    start, end = plan.allocations[:, 3].tolist(), plan.allocations[:, 4].tolist()
    columns = (program.use_op, program.use_tensor, plan.use_level, program.use_is_result)
    for op, used, served, is_result in zip(*(column[suspects].tolist() for column in columns), strict=True):
        here = rows.get((used, served), ())
        if is_result:
            served_validly = served == accelerator.backing or any(start[row] == op for row in here)
        elif served == accelerator.backing:
            served_validly = in_backing[used] <= op
        else:
            served_validly = any(start[row] <= op <= end[row] and ready[row] <= op for row in here)
        if served_validly:
            continue
        name, where = named(program, used), f"at op {op} ({program.op_name[op]}) from {accelerator.levels[served].name}"
        if is_result:
            broken.append(Violation("result", f"no block begins for {name}, made {where}."))
        else:
            resident = program.tensor_kind[used] == TensorKind.WEIGHT and not task.streams_weights
            hint = f": the block of a resident weight covers ops 0..{program.num_ops - 1}"
            rule = hint if resident and served != accelerator.backing else ""
            broken.append(Violation("use", f"{name} is read {where}, which does not hold it{rule}."))
    for output in np.flatnonzero((program.tensor_kind == TensorKind.OUTPUT) & (backing_ready == NEVER)):
        broken.append(Violation("output", f"graph output {named(program, output)} never reaches the backing memory."))
    return broken


def _suspect_uses(task: Task, plan: MemoryPlan, block_ready: Ints, backing_ready: Ints) -> NDArray[np.bool_]:
    """Return bool[U], uses that neither the backing memory nor their tensor's first block in the level serves."""
    program, backing = task.program, task.backing
    op, tensor, level = program.use_op, program.use_tensor, plan.use_level.astype(np.int64)
    behind = level == backing
    served = behind & (program.use_is_result | (backing_ready[tensor] <= op))
    if len(plan.allocations):
        place = plan.allocations[:, 0] * backing + plan.allocations[:, 1]
        places, first = np.unique(place, return_index=True)
        wanted = tensor * backing + level
        found = np.minimum(np.searchsorted(places, wanted), len(places) - 1)
        row = first[found]
        _, _, _, start, end = plan.allocations[row].T
        begins = start == op
        holds = (start <= op) & (op <= end) & (block_ready[row] <= op)
        served |= ~behind & (places[found] == wanted) & np.where(program.use_is_result, begins, holds)
    return np.asarray(~served)


def _backing(task: Task, plan: MemoryPlan) -> list[Violation]:
    """Return violations of `backing`."""
    memory = task.accelerator.levels[task.backing]
    message = (
        f"{memory.name} has {memory.capacity_bytes:,} bytes, and no layout was found of all that the plan keeps there "
        "at once; take a chip with more of it, or a smaller batch."
    )
    return [] if fits_backing(task, plan) else [Violation("backing", message)]


def _aliases(task: Task, plan: MemoryPlan) -> list[Violation]:
    """Return violations of `alias`."""
    program = task.program
    broken = []
    replaced_at = np.full(program.num_tensors, NEVER)
    outputs = np.flatnonzero(program.alias_of >= 0)
    replaced_at[program.alias_of[outputs]] = program.producer[outputs]
    for row, (copied, _, _, _, last) in enumerate(plan.transfers.tolist()):
        if last >= replaced_at[copied]:
            (output,) = np.flatnonzero(program.alias_of == copied)
            what = f"transfer {row} of {named(program, copied)} ends at op {last}"
            message = f"{what}, but {named(program, output)} takes its place at op {replaced_at[copied]}."
            broken.append(Violation("alias", message))
    copies: dict[tuple[int, int], list[int]] = {}
    for row, (tensor, level) in enumerate(plan.transfers[:, :2].tolist()):
        copies.setdefault((tensor, level), []).append(row)
    for given, taken in plan.handed_over(program):
        (operand, level, _, _, op), result = plan.allocations[given].tolist(), plan.allocations[taken, 0]
        for row in (row for row in copies.get((operand, level), ()) if plan.transfers[row, 4] >= op):
            what = f"transfer {row} of {named(program, operand)} ends at op {plan.transfers[row, 4]}"
            message = f"{what}, but {named(program, result)} takes its place at op {op}."
            broken.append(Violation("alias", message))
    return broken
