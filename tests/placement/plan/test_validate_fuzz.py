"""The validator against a plain checker that runs the plan byte by byte: they accept and refuse the same plans."""

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from memplace_env.envs.malloc_game import MallocGameProblem
from memplace_env.placement.compiler import place_levels
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.task import Task
from memplace_env.placement.validation import violations
from tests.references.reference_plan import can_run
from tests.strategies import (
    accelerators,
    game_tasks,
    programs,
    programs_with_pairs,
    tasks,
    tasks_of_roles,
    tensor_levels,
)
from tests.thorough import examples


@st.composite
def nearly_valid_plans(draw: st.DrawFn, task: Task) -> MemoryPlan:
    """Compiled plans with copies of weights, of which parts are then changed."""
    plan = place_levels(task, draw(tensor_levels(task))).plan
    blocks, copies = draw(with_trips(task, plan))
    return draw(corrupted(task, replace(plan, allocations=blocks, transfers=copies)))


@st.composite
def with_trips(draw: st.DrawFn, task: Task, plan: MemoryPlan) -> tuple[np.ndarray, np.ndarray]:
    """Blocks and copies of the plan, and of further trips to fast memory and back, some of which make sense."""
    ops, blocks, copies = task.program.num_ops, plan.allocations.tolist(), plan.transfers.tolist()
    times = st.integers(0, ops)
    for _ in range(draw(st.integers(0, 2))):
        tensor, level = draw(st.integers(0, task.program.num_tensors - 1)), draw(st.integers(0, task.backing - 1))
        room = task.accelerator.levels[level].capacity_bytes - int(task.program.tensor_bytes[tensor])
        first, last = sorted((draw(times), draw(times)))
        blocks.append([tensor, level, draw(st.integers(0, max(room, 0))), first, last])
        if draw(st.booleans()):
            copies.append([tensor, task.backing, level, first, max(last - 1, first)])
        if draw(st.booleans()):
            copies.append([tensor, level, task.backing, min(first + 1, last), last])
    return np.array(blocks, dtype=np.int64).reshape(-1, 5), np.array(copies, dtype=np.int64).reshape(-1, 5)


@st.composite
def corrupted(draw: st.DrawFn, task: Task, plan: MemoryPlan) -> MemoryPlan:
    """The plan with up to two cells changed by a little, and up to one row lost."""
    parts = {
        "use_level": plan.use_level[:, None].copy(),
        "allocations": plan.allocations.copy(),
        "transfers": plan.transfers.copy(),
    }
    for _ in range(draw(st.integers(0, 2))):
        cells = draw(st.sampled_from(list(parts.values())))
        if cells.size:
            row, column = draw(st.integers(0, len(cells) - 1)), draw(st.sampled_from([0, 1, 2, 3, 3, 4, 4]))
            column = min(column, cells.shape[1] - 1)
            cells[row, column] = max(cells[row, column] + draw(st.sampled_from([-2, -1, 1, 2])), 0)
    lost = draw(st.sampled_from([None, None, None, "allocations", "transfers"]))
    if lost and len(parts[lost]):
        parts[lost] = np.delete(parts[lost], draw(st.integers(0, len(parts[lost]) - 1)), axis=0)
    return replace(plan, **(parts | {"use_level": parts["use_level"][:, 0]}))


def require_same_verdict(task: Task, plan: MemoryPlan) -> bool:
    broken = violations(task, plan)
    assert can_run(task, plan) == (not broken), broken
    return not broken


@examples(500)
@given(st.data())
def test_nearly_valid_plans_get_the_same_verdict(data):
    task = data.draw(tasks(programs(max_ops=6), accelerators()))
    require_same_verdict(task, data.draw(nearly_valid_plans(task)))


@examples(400)
@given(st.data())
def test_roles_and_alignment_get_the_same_verdict(data):
    task = data.draw(tasks_of_roles(programs(max_ops=6) | programs_with_pairs(programs(max_ops=6))))
    require_same_verdict(task, data.draw(nearly_valid_plans(task)))


@examples(40)
@given(game_tasks(programs(max_ops=6)), st.integers(0, 2**32), st.data())
def test_games_and_what_is_nearly_one_get_the_same_verdict(task, seed, data):
    """Games copy to and fro more than the compiler does."""
    problem = MallocGameProblem(task)
    states = problem.new_states(1)
    problem.finish_randomly(states, seed)
    plan = problem.plan(states[0])
    assert require_same_verdict(task, plan)
    require_same_verdict(task, data.draw(corrupted(task, plan)))
