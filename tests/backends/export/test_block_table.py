"""The table of blocks says where a plan's tensors lie."""

from __future__ import annotations

import csv
import io

from hypothesis import given
from hypothesis import strategies as st

from memplace_env.backends.export import csv_of
from memplace_env.envs.malloc_game import MallocGameProblem
from memplace_env.placement.compiler import place_levels
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.task import Task
from memplace_env.program.blocks import kinds_of
from memplace_env.program.program import TensorKind
from tests.strategies import accelerators, game_tasks, programs, programs_with_pairs, tasks, tensor_levels
from tests.thorough import examples


def rows_of(task: Task, plan: MemoryPlan) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(csv_of(task, plan))))


def require_all_uses(task: Task, plan: MemoryPlan) -> None:
    """Check that each use has its bytes in the table, and that every block of the plan is a row."""
    program, rows = task.program, rows_of(task, plan)
    level = {memory.name: index for index, memory in enumerate(task.accelerator.levels)}
    tensor = {name: index for index, name in enumerate(program.tensor_name)}
    blocks = [(tensor[r["tensor"]], level[r["level"]], *(int(r[k]) for k in ("offset", "first", "last"))) for r in rows]
    fast = [block for block in blocks if block[1] != task.backing]
    assert sorted(fast) == sorted(map(tuple, plan.allocations.tolist()))
    for used, served, op in zip(program.use_tensor, plan.use_level, program.use_op, strict=True):
        assert any(b[:2] == (used, served) and b[3] <= op <= b[4] for b in blocks)
    kinds = kinds_of(program)
    for row, block in zip(rows, blocks, strict=True):
        assert row["kind"] == TensorKind(kinds[block[0]]).name.lower()
        assert int(row["size"]) == program.tensor_bytes[block[0]]
        assert row["first_op"] == (*program.op_name, "")[block[3]]
    over = {(plan.allocations[begin, 0], plan.allocations[end, 0]) for end, begin in plan.handed_over(program)}
    assert {(tensor[r["tensor"]], tensor[r["in_place_of"]]) for r in rows if r["in_place_of"]} == over
    copied = {(tensor[r["tensor"]], level[r["copied_from"]], level[r["level"]]) for r in rows if r["copied_from"]}
    assert copied == set(map(tuple, plan.transfers[:, :3].tolist()))


@examples(25)
@given(st.data())
def test_a_map_is_a_table(data: st.DataObject) -> None:
    task = data.draw(tasks(programs(max_ops=8) | programs_with_pairs(programs(max_ops=8)), accelerators()))
    require_all_uses(task, place_levels(task, data.draw(tensor_levels(task))).plan)


@examples(25)
@given(game_tasks(programs(max_ops=8)), st.integers(0, 2**32))
def test_a_moving_plan_is_a_table(task: Task, seed: int) -> None:
    problem = MallocGameProblem(task)
    states = problem.new_states(1)
    problem.finish_randomly(states, seed)
    require_all_uses(problem.task, problem.plan(states[0]))
