"""Programs in other orders: the same ops and tensors, dependences kept, costs made anew, settings replayed."""

from dataclasses import replace
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memplace_env import Accelerator, load_accelerator
from memplace_env._lib.errors import PlanError, WorkloadError
from memplace_env.placement.compiler import native_plan
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.resolve_task import resolve_task
from memplace_env.program.program import Program
from memplace_env.program.reordering import dependences, memory_order, reordered
from tests.offenders import every
from tests.program.test_alias import NEW, W, update
from tests.references.reference_plan import can_run
from tests.strategies import accelerators, orders, programs, programs_with_pairs, programs_with_rows
from tests.thorough import examples

some_programs = programs() | programs_with_rows() | programs_with_pairs()


def uses(program: Program) -> set[tuple[object, ...]]:
    """Return all that is known of each use, by the name of its op."""
    names = [program.op_name[op] for op in program.use_op]
    arrays = program.use_tensor, program.use_is_result, program.use_bytes, program.use_halo
    return set(zip(names, *(array.tolist() for array in arrays), strict=True))


@examples(100)
@given(some_programs, st.data())
def test_there_and_back(program: Program, data: st.DataObject) -> None:
    program = replace(program, op_name=tuple(f"op{op}" for op in range(program.num_ops)))
    order = data.draw(orders(program))
    other = reordered(program, order)
    assert reordered(other, np.argsort(order)).sha256 == program.sha256
    assert (other is program) == (order == np.arange(program.num_ops)).all()
    assert uses(other) == uses(program)
    for table in ("gemm", "vector_ops", "geometry", "op_name", "op_type"):
        assert np.array_equal(np.array(getattr(program, table))[order], getattr(other, table)), table
    pairs = [{tuple(one.use_tensor[pair]) for pair in one.inplace} for one in (program, other)]
    assert pairs[0] == pairs[1]


@examples(60)
@given(some_programs, st.data())
def test_a_dependence_that_is_broken_is_named(program: Program, data: st.DataObject) -> None:
    order = np.array(data.draw(st.permutations(range(program.num_ops))), dtype=np.int64)
    place = np.argsort(order)
    broken = [(int(before), int(after)) for before, after in dependences(program) if place[before] > place[after]]
    if not broken:
        reordered(program, order)
        return
    with pytest.raises(WorkloadError) as caught:
        reordered(program, order)
    assert any(
        f"op {after} of" in str(caught.value) and f"op {before}," in str(caught.value) for before, after in broken
    )


@examples(60)
@given(some_programs)
def test_memory_order_needs_no_more(program: Program) -> None:
    assert reordered(program, memory_order(program)).live_bytes.max() <= program.live_bytes.max()


def test_readers_at_the_end_move_up() -> None:
    """Ten results that one late op each reads: all alive at once in the file's order, two at a time in the other."""
    program = late_readers(10)
    assert program.live_bytes.max() == 10 * 100 + 1
    assert reordered(program, memory_order(program)).live_bytes.max() <= 2 * 100 + 10


def test_a_tensor_is_read_before_it_is_replaced_and_numbers_are_drawn_in_turn() -> None:
    program = update()  # op 1 replaces W, which op 0 reads
    assert [0, 1] in dependences(program).tolist()
    assert program.alias_of[NEW] == W
    drawn = late_readers(3)
    kinds = ("RandomNormal", "RandomUniform", "Dropout")
    drawn = replace(drawn, op_type=(*drawn.op_type[:3], *kinds))
    assert {(3, 4), (4, 5)} <= set(map(tuple, dependences(drawn).tolist()))


@every(
    "order", [[0], [0, 0, 1], [0, 1, 3], [-1, 0, 1], [0.0, 1, 2], [True, 1, 2], "012", "free", 7, {0: 1}, [0, 1, 2**70]]
)
def test_what_is_no_order(order: object) -> None:
    with pytest.raises(WorkloadError, match=r"order") as caught:
        resolve_task(update(), "tpu-v4i", order=order)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 200


@examples(40)
@given(programs_with_rows(programs_with_pairs()), accelerators(), st.sampled_from([None, 0.3]), st.data())
def test_plans_are_replayed(program: Program, chip: Accelerator, slices: float | None, data: st.DataObject) -> None:
    """A plan's settings make the program again, order before slices; each byte has one owner at a time."""
    order = data.draw(orders(program))
    task = resolve_task(program, chip, order=order, slices=slices)
    plan = native_plan(task)
    settings = MemoryPlan.from_json(plan.to_json()).settings
    again = resolve_task(program, chip, order=settings.get("order"), slices=settings.get("slices"))
    assert again.program.sha256 == task.program.sha256
    assert again.program.whole.sha256 == reordered(program, order).sha256
    assert can_run(again, plan)


def test_costs_are_made_anew() -> None:
    """On Ethos-U an op keeps room for what the next one stages."""
    task = resolve_task("NeRF", "ethos-u65")
    other = resolve_task("NeRF", "ethos-u65", order="memory")
    order = np.array(other.settings["order"])
    assert (other.costs.compute_ps == task.costs.compute_ps[order]).all()
    model = resolve_task(reordered(task.program, order), "ethos-u65", costs="tiled").costs
    assert (model.reserved_bytes == other.costs.reserved_bytes).all()


def test_known_costs_have_no_other_order() -> None:
    program, chip = late_readers(4), load_accelerator("tpu-v4i")
    costs = resolve_task(program, chip).costs
    assert resolve_task(program, chip, costs=costs, order="file").costs.use_ps.shape == costs.use_ps.shape
    with pytest.raises(WorkloadError, match="exist already, and in another order an op may reserve other bytes"):
        resolve_task(program, chip, costs=costs, order="memory")


def test_environments_take_it(tmp_path: Path) -> None:
    env = gym.make("MallocGame-v0", workload=late_readers(4), accelerator="tpu-v4i", order="memory").unwrapped
    assert env.task.settings["order"] == memory_order(late_readers(4)).tolist()  # type: ignore[attr-defined]
    plan = native_plan(resolve_task(late_readers(4), "nnp-i"))
    for order in ([*range(10**6 + 1)], [[0]], ["0"]):
        with pytest.raises(PlanError, match="setting 'order'"):
            MemoryPlan.from_document({**plan._document(), "settings": {"order": order}})


def late_readers(count: int) -> Program:
    """Return a chain of ops, then one op for each result that makes one byte of it, as calibration tools write them."""
    from memplace_env.program.builder import ProgramBuilder
    from memplace_env.program.program import TensorKind

    builder = ProgramBuilder("late", "int8")
    chain = [builder.tensor("x", 100, TensorKind.INPUT)]
    for number in range(count):
        chain.append(builder.tensor(f"a{number}", 100))
        builder.op("Conv", [chain[-2]], [chain[-1]])
    for tensor in chain[1:]:
        builder.op("ReduceMax", [tensor], [builder.tensor(f"m{tensor}", 1, TensorKind.OUTPUT)])
    return builder.build()
