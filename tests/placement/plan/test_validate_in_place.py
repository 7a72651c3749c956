"""The validator on results in the place of an operand: the pairs that the program has may share a block, no others."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.resolve_task import make_task
from memplace_env.placement.validation import violations
from memplace_env.program.builder import ProgramBuilder
from memplace_env.program.program import Program, TensorKind
from memplace_env.program.slicing import sliced
from tests.by_hand import machine
from tests.placement.plan.test_validate_fuzz import corrupted, require_same_verdict
from tests.references.reference_plan import can_run
from tests.strategies import accelerators, programs, programs_with_pairs, programs_with_rows, tasks
from tests.thorough import examples

X, A, B, C, D, Y = range(6)


def chain(pairs: bool = True, late: bool = False) -> Program:
    """x -> a -> (b, c) -> d -> y, with all inner results of 40 bytes; `late`: y reads a once more."""
    build = ProgramBuilder("chain", "int8")
    build.tensor("x", 8, TensorKind.INPUT)
    for name in "abcd":
        build.tensor(name, 40)
    build.tensor("y", 8, TensorKind.OUTPUT)
    build.op("Read", [X], [A])
    build.op("Split", [A], [B, C], inplace=[(A, B), (A, C)] if pairs else [])
    build.op("Add", [B, C], [D], inplace=[(B, D), (C, D)] if pairs else [])
    build.op("Write", [D, A] if late else [D], [Y])
    return build.build()


def planned(program: Program, blocks: np.ndarray) -> tuple[MemoryPlan, list[str]]:
    task = make_task(program, machine())
    here = np.isin(program.use_tensor, blocks[:, 0])
    plan = task.make_plan(np.where(here, 0, 1), blocks, np.zeros((0, 5), dtype=np.int64))
    broken = [violation.rule for violation in violations(task, plan)]
    assert can_run(task, plan) == (not broken)
    return plan, broken


BLOCKS = np.array([[A, 0, 0, 0, 1], [B, 0, 0, 1, 2], [C, 0, 40, 1, 2], [D, 0, 40, 2, 3]])
"""b over a, d over c: 80 bytes, where the ops need 120 without."""


def changed(row: int, **columns: int) -> np.ndarray:
    blocks = BLOCKS.copy()
    for column, value in columns.items():
        blocks[row, ("tensor", "level", "offset", "start", "end").index(column)] = value
    return blocks


def test_pairs_share_their_bytes():
    plan, broken = planned(chain(), BLOCKS)
    assert broken == []
    assert plan.handed_over(chain()) == [(0, 1), (2, 3)]
    assert planned(chain(), changed(3, offset=0))[1] == [], "d may lie over b, too"


@pytest.mark.parametrize(
    "blocks",
    [
        changed(1, offset=1),
        changed(2, offset=0),
        changed(0, end=2),
        np.array([[A, 0, 0, 0, 1], [B, 0, 0, 1, 3], [D, 0, 0, 2, 3]]),
        np.array([[X, 0, 0, 0, 0], [A, 0, 0, 0, 1]]),
    ],
    ids=["another offset", "two results", "still there", "longer there", "an input"],
)
def test_nothing_else_is_shared(blocks):
    assert planned(chain(), blocks)[1] != []


def test_without_pairs_or_with_a_later_reader_it_is_an_overlap():
    assert planned(chain(pairs=False), BLOCKS)[1] == ["overlap", "overlap"]
    assert "overlap" in planned(chain(late=True), BLOCKS)[1]


def test_bytes_on_their_way_home_are_not_overwritten():
    task = make_task(chain(), machine())
    plan, _ = planned(chain(), BLOCKS)
    late = replace(plan, transfers=np.array([[A, 0, 1, 1, 1]]))
    assert [violation.rule for violation in violations(task, late)] == ["alias"]
    assert not can_run(task, late)


@examples(60)
@given(programs_with_pairs(programs_with_rows()), st.integers(1, 2000), st.data())
def test_ends_of_a_pair_are_cut_alike(program, limit, data):
    cut = sliced(program, limit)
    alike = cut.tensor_bytes[cut.use_tensor[cut.inplace]]
    assert (alike[:, 0] == alike[:, 1]).all()
    blocks, rows = program.tensor_rows[program.use_tensor[program.inplace]].T
    common = (blocks[0] == blocks[1]) & (np.gcd(*rows) == rows[0]) & (rows[0] == rows[1])
    kept = len(np.unique(cut.slices.use_of[cut.inplace], axis=0)) if cut.slices else len(program.inplace)
    halo = program.use_halo[program.inplace[:, 0]] > 0
    assert kept >= (common & ~halo).sum(), "pairs with the same rows are never lost"


@examples(100)
@given(st.lists(st.sampled_from([4, 6, 9, 36]), min_size=6, max_size=6), st.integers(1, 359))
def test_pairs_keep_no_tensor_whole(rows, limit):
    """A tensor that would be cut if nothing could lie in its place is cut, whatever rows its pairs have."""
    program = chain()
    moved = {"tensor_bytes": 9 * program.tensor_bytes, "use_bytes": 9 * program.use_bytes}
    program = replace(program, tensor_rows=np.array([(1, each) for each in rows]), **moved)
    alone = sliced(replace(program, inplace=program.inplace[:0]), limit)
    cut = sliced(program, limit)
    assert (np.bincount(cut.whole_tensor) > 1).tolist() == (np.bincount(alone.whole_tensor) > 1).tolist()


@st.composite
def crowded_plans(draw: st.DrawFn, task) -> MemoryPlan:
    """Plans in which results lie over the operands that they may replace, as a careless planner would have it."""
    program, offset = task.program, {}
    for operand, result, _ in draw(st.permutations(program.handovers.tolist())):
        offset.setdefault(operand, draw(st.integers(0, 50)))
        offset[result] = offset[operand]
    here = np.array(sorted(offset), dtype=np.int64)
    rows = [[k, 0, offset[k], program.live_start[k], program.live_end[k]] for k in here.tolist()]
    level = np.where(np.isin(program.use_tensor, here), 0, task.backing)
    copies = np.zeros((0, 5), dtype=np.int64)
    return draw(corrupted(task, task.make_plan(level, np.array(rows, dtype=np.int64).reshape(-1, 5), copies)))


@examples(300)
@given(st.data())
def test_crowded_plans_get_the_same_verdict(data):
    task = data.draw(tasks(programs_with_pairs(programs(max_ops=6)), accelerators()))
    require_same_verdict(task, data.draw(crowded_plans(task)))
