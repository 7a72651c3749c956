"""The validator: passes what the compiler makes, and names each kind of corruption."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memplace_env._lib.errors import PlanError
from memplace_env.machine.accelerator import load_accelerator
from memplace_env.machine.costs import KnownCosts
from memplace_env.placement.compiler import place_levels
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.resolve_task import make_task
from memplace_env.placement.validation import require_valid, violations
from memplace_env.placement.validation.block_rules import MOST, in_the_way
from memplace_env.program.builder import ProgramBuilder
from memplace_env.program.program import TensorKind
from tests.by_hand import all_fast, three_op_task
from tests.strategies import tasks, tensor_levels
from tests.thorough import examples

TASK = three_op_task()
PROGRAM, GOOD = TASK.program, all_fast(TASK)
BLOCK = {"w": 0, "a": 1, "b": 2, "y": 3}
TENSOR, LEVEL, OFFSET, START, END = range(5)


def broken(plan: MemoryPlan) -> set[str]:
    return {violation.rule for violation in violations(TASK, plan)}


def with_block(name: str, **changes: int) -> MemoryPlan:
    rows = GOOD.allocations.copy()
    for column, value in changes.items():
        rows[BLOCK[name], ("tensor", "level", "offset", "start", "end").index(column)] = value
    return replace(GOOD, allocations=rows)


def with_copy(row: int, **changes: int) -> MemoryPlan:
    rows = GOOD.transfers.copy()
    for column, value in changes.items():
        rows[row, ("tensor", "source", "target", "start", "end").index(column)] = value
    return replace(GOOD, transfers=rows)


def with_use(tensor: int, level: int) -> MemoryPlan:
    levels = GOOD.use_level.copy()
    levels[PROGRAM.use_tensor == tensor] = level
    return replace(GOOD, use_level=levels)


def test_good_plan_is_clean():
    assert violations(TASK, GOOD) == []
    require_valid(TASK, GOOD)


@pytest.mark.parametrize(
    ("plan", "rules"),
    [
        (replace(GOOD, program_sha256="0"), {"program"}),
        (replace(GOOD, accelerator_sha256="0"), {"accelerator"}),
        (replace(GOOD, use_level=GOOD.use_level[:-1]), {"range"}),
        (with_use(0, 2), {"range"}),
        (with_use(0, -1), {"range"}),
        (with_block("a", tensor=9), {"range"}),
        (with_block("a", level=1), {"range"}),
        (with_block("a", offset=-1), {"range"}),
        (with_block("a", end=4), {"range"}),
        (with_block("a", start=2), {"range"}),
        (with_copy(0, target=1), {"range"}),
        (with_copy(0, source=0), {"range"}),
        (with_copy(0, end=4), {"range"}),
        (with_copy(0, tensor=-1), {"range"}),
        (with_block("y", offset=91), {"capacity"}),
        (with_block("y", offset=2**63 - 5), {"capacity"}),
        (with_block("b", offset=59), {"overlap"}),
        (replace(GOOD, allocations=np.vstack([GOOD.allocations, [2, 0, 60, 0, 0]])), {"duplicate"}),
        (with_block("w", start=1), {"prefetch", "use"}),
        (with_block("w", end=1), {"prefetch", "use"}),
        (with_copy(0, start=2, end=2), {"prefetch", "use"}),
        (replace(GOOD, transfers=GOOD.transfers[1:]), {"use"}),
        (with_block("y", end=2), {"write-back", "output"}),
        (with_copy(1, start=2), {"write-back", "output"}),
        (replace(GOOD, transfers=GOOD.transfers[:1]), {"output"}),
        (with_use(2, 1), {"use"} - {"use"}),
        (with_block("a", end=0), {"use"}),
        (with_block("a", start=1), {"result", "use"}),
        (replace(GOOD, allocations=GOOD.allocations[[0, 2, 3]]), {"result", "use"}),
    ],
)
def test_each_corruption_is_named(plan, rules):
    assert broken(plan) == rules


def test_resident_weights_need_no_copy():
    task = three_op_task(weights="resident")
    plan = place_levels(task, [0] * 5).plan
    assert len(plan.transfers) == 0
    assert violations(task, plan) == []
    late = plan.allocations.copy()
    late[plan.allocations[:, TENSOR] == 1, START] = 1
    assert {v.rule for v in violations(task, replace(plan, allocations=late))} == {"use"}


def test_a_resident_weight_keeps_its_block():
    """A weight and a later result, 4 MB each, in the same bytes of a level: the next inference has no weight."""
    builder = ProgramBuilder("taking turns", "int8")
    x, y = builder.tensor("x", 1, TensorKind.INPUT), builder.tensor("y", 1, TensorKind.OUTPUT)
    weight, result = builder.tensor("w", 2**22, TensorKind.WEIGHT), builder.tensor("r", 2**22)
    small = builder.tensor("a", 1)
    builder.op("A", [x, weight], [small])
    builder.op("B", [small], [result])
    builder.op("C", [result], [y])
    task = make_task(builder.build(), load_accelerator("nnp-i"))

    def sharing(last: int, *tensors: int) -> MemoryPlan:
        rows = [row for row in ([weight, 0, 0, 0, last], [result, 0, 0, 1, 2]) if row[0] in tensors]
        return task.make_plan(np.where(np.isin(task.program.use_tensor, tensors), 0, 2), np.array(rows))

    (violation,) = violations(task, sharing(0, weight, result))
    assert violation.rule == "use"
    assert violation.message.endswith("does not hold it: the block of a resident weight covers ops 0..2.")
    assert violations(task, sharing(1, weight)) != []
    assert violations(task, sharing(2, weight)) == violations(task, sharing(2, result)) == []
    assert {violation.rule for violation in violations(task, sharing(2, weight, result))} == {"overlap"}


def test_every_violation_is_returned():
    nothing = replace(GOOD, allocations=GOOD.allocations[:0], transfers=GOOD.transfers[:0])
    rules = [violation.rule for violation in violations(TASK, nothing)]
    assert sorted(rules) == ["output", "result", "result", "result", "use", "use", "use"]
    with pytest.raises(PlanError, match="and 6 more"):
        require_valid(TASK, nothing)


def reserving(op: int, reserved: int):
    """The task with one op that keeps so many bytes of the fast level for itself."""
    table = np.zeros((3, 2), dtype=np.int64)
    table[op, 0] = reserved
    costs = TASK.costs._replace(reserved_bytes=table)
    return make_task(PROGRAM, TASK.accelerator, costs=KnownCosts(costs, PROGRAM, TASK.accelerator))


@pytest.mark.parametrize(
    ("op", "reserved", "names"),
    [(0, 20, set()), (0, 41, {"a"}), (1, 10, set()), (1, 11, {"b"}), (2, 0, set()), (2, 1, {"y"}), (2, 11, {"b", "y"})],
)
def test_blocks_among_reserved_bytes_are_caught(op, reserved, names):
    """Tops: w 40 during ops 0..2, a 60 during 0..1, b 90 during 1..2, y 100 from 2 on; capacity 100."""
    broken = [violation for violation in violations(reserving(op, reserved), GOOD) if violation.rule == "reserved"]
    assert {
        name for name in "wabxy" for violation in broken if f"({name})" in violation.message.split(" in ")[0]
    } == names
    assert all(f"op {op} ({PROGRAM.op_name[op]}) needs for itself" in violation.message for violation in broken)


@examples(100)
@given(tasks(), st.data())
def test_a_block_moved_among_reserved_bytes_is_caught(task, data):
    """Pushed up by as much as it takes, and no further than the end of the level, which nothing else forbids."""
    plan = place_levels(task, data.draw(tensor_levels(task))).plan
    reserved, capacity = task.costs.reserved_bytes, [level.capacity_bytes for level in task.accelerator.levels]
    movable = [
        (row, needed)
        for row, (_, level, _, start, end) in enumerate(plan.allocations.tolist())
        if (needed := reserved[start : end + 1, level].max()) > 0
    ]
    assert "reserved" not in {violation.rule for violation in violations(task, plan)}
    if movable:
        row, needed = data.draw(st.sampled_from(movable))
        tensor, level, *_ = plan.allocations[row]
        moved = plan.allocations.copy()
        moved[row, OFFSET] = capacity[level] - task.program.tensor_bytes[tensor] - data.draw(st.integers(0, needed - 1))
        if moved[row, OFFSET] >= 0:
            assert "reserved" in {v.rule for v in violations(task, replace(plan, allocations=moved))}


@given(st.lists(st.tuples(st.integers(0, 12), st.integers(1, 4), st.integers(0, 12), st.integers(0, 3)), max_size=12))
def test_blocks_in_the_way_are_all_that_keep_the_others_from_lying_apart(blocks):
    rows = [(offset, offset + size, start, start + longer) for offset, size, start, longer in blocks]
    met = in_the_way(*np.array(rows, dtype=np.int64).reshape(-1, 4).T).tolist()
    pairs = [(a, b) for a in range(len(rows)) for b in range(len(rows)) if a != b and _meet(rows[a], rows[b])]
    assert all(met[a] or met[b] for a, b in pairs)
    assert {a for a, is_met in enumerate(met) if is_met} <= {a for a, _ in pairs}


def _meet(a, b):
    return a[0] < b[1] and b[0] < a[1] and a[2] <= b[3] and b[2] <= a[3]


@examples(60)
@given(tasks(), st.data())
def test_every_two_blocks_that_break_a_rule_together_are_named(task, data):
    tensors = st.integers(0, task.program.num_tensors - 1)
    row = st.tuples(tensors, st.just(0), st.integers(0, 20), st.integers(0, 3), st.integers(0, 3))
    rows = [[*r[:3], min(r[3:]), max(r[3:])] for r in data.draw(st.lists(row, max_size=7))]
    ops, bytes_ = task.program.num_ops, task.program.tensor_bytes
    rows = [[*r[:3], min(r[3], ops), min(r[4], ops)] for r in rows]
    extents = [(r[2], r[2] + int(bytes_[r[0]]), r[3], r[4]) for r in rows]
    pairs = [(a, b) for a in range(len(rows)) for b in range(a + 1, len(rows))]
    whole = [(0, 1, *extent[2:]) for extent in extents]
    due = sorted(
        ["overlap" for a, b in pairs if _meet(extents[a], extents[b])]
        + ["duplicate" for a, b in pairs if rows[a][0] == rows[b][0] and _meet(whole[a], whole[b])]
    )
    plan = task.make_plan(np.full(task.program.num_uses, task.backing), np.array(rows, dtype=np.int64))
    rules = [broken.rule for broken in violations(task, plan) if broken.rule in ("overlap", "duplicate")]
    aliased = (task.program.alias_of >= 0).any()
    assert sorted(rules) == due or aliased


def test_a_hundred_thousand_blocks_in_one_place_are_refused_in_no_time():
    plan = replace(GOOD, allocations=np.repeat(GOOD.allocations[:1], 100_000, axis=0))
    assert MOST <= len(violations(TASK, plan)) < 4 * MOST


def test_copies_without_end_are_refused():
    dear = TASK.costs._replace(prefetch_ps=TASK.costs.prefetch_ps + 2**50, writeback_ps=TASK.costs.writeback_ps + 2**50)
    plan = replace(GOOD, transfers=np.repeat(GOOD.transfers, 2**10, axis=0))
    (broken,) = violations(replace(TASK, costs=dear), plan)
    assert broken.rule == "range"
    assert "take more than the simulator counts" in broken.message
