"""The text of C headers says the plan, whatever the plan and the names."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from memplace_env._lib.errors import PlanError
from memplace_env.backends.export import text_of
from memplace_env.backends.export.c_header import MOST_NAME_BYTES, c_string
from memplace_env.envs.malloc_game import MallocGameProblem
from memplace_env.placement.compiler import place_levels
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.resolve_task import make_task
from memplace_env.placement.task import Task
from memplace_env.placement.validation import violations
from memplace_env.program.builder import ProgramBuilder
from memplace_env.program.program import TensorKind
from memplace_env.program.slicing import sliced
from tests.backends.export.expected import NO_ADDRESS, Tables, require_tables_of, tables_in, text_in
from tests.by_hand import A, B, W, three_op_task
from tests.placement.plan.test_validate_alias import GOOD as ALIAS_PLAN
from tests.placement.plan.test_validate_alias import TASK as ALIAS_TASK
from tests.placement.plan.test_validate_copies import TASK as COPIES_TASK
from tests.placement.plan.test_validate_copies import plan as copies_plan
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

IN_PLACE = "where a result has the level and offset of one of its op's operands, the"


def over_operands(tables: Tables) -> set[tuple[int, int]]:
    """The operands and results that the header's comment is about, read from its tables."""
    found = set()
    for *_, first, count in tables["ops"]:
        uses = [use for use in tables["uses"][first : first + count] if use[1] < len(tables["levels"]) - 1]
        operands, results = ([use for use in uses if use[3] == is_result] for is_result in (0, 1))
        found |= {(operand[0], result[0]) for operand in operands for result in results if operand[1:3] == result[1:3]}
    return found


@examples(25)
@given(st.data())
def test_a_map_is_said_exactly(data: st.DataObject) -> None:
    task = data.draw(tasks(programs(max_ops=8) | programs_with_pairs(programs(max_ops=8)), accelerators()))
    plan = place_levels(task, data.draw(tensor_levels(task))).plan
    header = text_of(task, plan)
    tables = tables_in(header)
    require_tables_of(task, plan, tables)
    pairs = {(plan.allocations[end, 0], plan.allocations[begin, 0]) for end, begin in plan.handed_over(task.program)}
    assert over_operands(tables) == pairs
    assert (IN_PLACE in header) == bool(pairs)
    assert tuple(row[0] for row in tables["tensors"]) == task.program.tensor_name
    assert [tuple(row[:2]) for row in tables["ops"]] == [*zip(task.program.op_name, task.program.op_type, strict=True)]


@examples(25)
@given(st.data())
def test_slices_are_said_exactly(data: st.DataObject) -> None:
    task = data.draw(tasks(programs(max_ops=8), accelerators()))
    sizes = task.program.tensor_bytes
    rows = replace(task.program, tensor_rows=np.stack([np.ones_like(sizes), sizes], axis=1))
    cut = make_task(
        sliced(rows, data.draw(st.integers(1 + int(sizes.max()) // 40, int(sizes.max())))), task.accelerator
    )
    plan = place_levels(cut, data.draw(tensor_levels(cut))).plan
    header = text_of(cut, plan)
    require_tables_of(cut, plan, tables_in(header))
    assert ("wholes" in header) == (cut.program.slices is not None)


@examples(25)
@given(game_tasks(programs(max_ops=8)), st.integers(0, 2**32))
def test_a_game_is_said_exactly(task: Task, seed: int) -> None:
    """Games copy to and fro, and tensors have several blocks."""
    problem = MallocGameProblem(task)
    states = problem.new_states(1)
    problem.finish_randomly(states, seed)
    plan = problem.plan(states[0])
    require_tables_of(task, plan, tables_in(text_of(task, plan)))


@examples(25)
@given(st.data())
def test_aligned_blocks_of_inputs_and_outputs_are_said_exactly(data: st.DataObject) -> None:
    task = data.draw(tasks_of_roles(programs(max_ops=8)))
    plan = place_levels(task, data.draw(tensor_levels(task))).plan
    assume(not violations(task, plan))
    header = text_of(task, plan)
    tables = tables_in(header)
    require_tables_of(task, plan, tables)
    unit = task.program.alignment
    assert (f"to a multiple of {unit};" in header) == (unit > 1)
    assert ("the first op, of type Inputs" in header) == (task.program.op_type[0] == "Inputs")
    assert not any(row[3] % unit for row in tables["levels"])
    assert tables["levels"][-1][3] % task.accelerator.levels[-1].alignment_bytes == 0
    assert not any(row[2] % unit for table in ("tensors", "allocations") for row in tables[table])


@examples(50)
@given(st.text(max_size=40))
def test_names_are_kept_and_end_nothing(name: str) -> None:
    literal = c_string(name)
    assert literal[0] == literal[-1] == '"'
    assert text_in(literal[1:-1]) == name.encode("utf-8", "replace").decode().replace("\0", "?")
    assert "??" not in literal, "a trigraph"


def test_long_names_lose_their_middle() -> None:
    inside = c_string("a" * 5000 + "z")[1:-1]
    assert len(inside) == MOST_NAME_BYTES
    assert inside.startswith("aaa")
    assert "..." in inside
    assert inside.endswith("az")


def small_plan() -> tuple[Task, MemoryPlan]:
    task = three_op_task()
    use_level = [1, 0, 0, 0, 0, 0, 1]
    blocks = np.array([[A, 0, 0, 0, 1], [B, 0, 20, 1, 2], [W, 0, 50, 0, 2]])
    copies = np.array([[W, 1, 0, 0, 1]])
    return task, task.make_plan(np.array(use_level), blocks, copies)


def test_by_hand() -> None:
    task, plan = small_plan()
    tables = tables_in(text_of(task, plan))
    assert tables["levels"] == [["fast", 100, 90, 2], ["slow", 10**9, 138, 64]]
    assert tables["copies"] == [[W, 1, 0, 64, 50, 0, 1]]
    assert [row[:2] for row in tables["ops"]] == [["A_0", "A"], ["B_1", "B"], ["C_2", "C"]]


def test_an_output_in_another_tensors_place_has_the_same_address() -> None:
    tables = tables_in(text_of(ALIAS_TASK, ALIAS_PLAN))
    require_tables_of(ALIAS_TASK, ALIAS_PLAN, tables)
    (output,) = np.flatnonzero(ALIAS_TASK.program.alias_of >= 0)
    assert tables["tensors"][output][3] == tables["tensors"][ALIAS_TASK.program.alias_of[output]][3] != NO_ADDRESS


def test_copies_between_fast_memories_have_the_addresses_of_their_blocks() -> None:
    tables = tables_in(text_of(COPIES_TASK, copies_plan()))
    require_tables_of(COPIES_TASK, copies_plan(), tables)
    assert [row[:5] for row in tables["copies"][:2]] == [[A, 1, 0, 40, 0], [A, 0, 1, 0, 40]]


@pytest.mark.parametrize("prefix", ["", "1st", "a-b", "_own", "a b", "x" * 65, "é", "a\n"])
def test_prefixes_that_begin_no_name_in_c(prefix: str) -> None:
    task, plan = small_plan()
    with pytest.raises(PlanError, match="cannot begin names in C"):
        text_of(task, plan, prefix=prefix)


def test_a_plan_that_cannot_run_is_refused() -> None:
    task, plan = small_plan()
    with pytest.raises(PlanError, match="cannot run"):
        text_of(task, replace(plan, transfers=plan.transfers[:0]))


@examples(60)
@given(game_tasks(programs(max_ops=8)), st.integers(0, 2**32), st.data())
def test_what_is_valid_can_be_exported(task: Task, seed: int, data: st.DataObject) -> None:
    """Also where the backing memory has hardly room: the validator asks for the layout that the header has."""
    problem = MallocGameProblem(task)
    states = problem.new_states(1)
    problem.finish_randomly(states, seed)
    plan, footprint = problem.plan(states[0]), problem.task.program.footprint
    *fast, slow = problem.task.accelerator.levels
    for capacity in (footprint, data.draw(st.integers(1, 2 * footprint))):
        levels = (*fast, replace(slow, capacity_bytes=capacity))
        chip = replace(problem.task.accelerator, levels=levels)
        tight = replace(problem.task, accelerator=chip)
        again = tight.make_plan(plan.use_level, plan.allocations, plan.transfers)
        broken = [violation.rule for violation in violations(tight, again)]
        assert set(broken) <= {"backing"}
        if broken:
            with pytest.raises(PlanError, match="no layout was found of all that the plan keeps there at once"):
                text_of(tight, again)
        else:
            require_tables_of(tight, again, tables_in(text_of(tight, again)))


def chain(length: int, size: int, capacity: int) -> Task:
    """Results of one size, one after the other, of an input of a quarter of it."""
    builder = ProgramBuilder("chain", "int8")
    last = builder.tensor("x", size // 4, TensorKind.INPUT)
    for number in range(length):
        kind = TensorKind.ACTIVATION if number < length - 1 else TensorKind.OUTPUT
        last, before = builder.tensor(f"t{number}", size, kind), last
        builder.op("Relu", [before], [last], vector_ops=size)
    fast, slow = three_op_task().accelerator.levels
    chip = three_op_task(levels=(fast, replace(slow, capacity_bytes=capacity))).accelerator
    return make_task(builder.build(), chip)


@pytest.mark.parametrize("size", [256, 100])
def test_results_share_the_bytes_of_the_backing_memory(size: int) -> None:
    """Two results at a time, whatever the length of the chain; without room for multiples of 64 at any bytes."""
    task = chain(13, size, size // 4 + 2 * size)
    plan = task.make_plan(np.full(task.program.num_uses, task.backing), np.empty((0, 5)))
    tables = tables_in(text_of(task, plan))
    require_tables_of(task, plan, tables)
    assert tables["levels"][-1][2] == size // 4 + 2 * size
    assert tables["levels"][-1][3] == (64 if size == 256 else 1)
