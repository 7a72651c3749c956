"""The validator and the simulator on copies between fast memories."""

from dataclasses import replace

import numpy as np
import pytest

from memplace_env._lib.errors import WorkloadError
from memplace_env.machine.accelerator import MemoryLevel
from memplace_env.machine.costs import KnownCosts
from memplace_env.placement.resolve_task import resolve_task
from memplace_env.placement.simulator import evaluate_plan
from memplace_env.placement.validation import violations
from memplace_env.program.builder import ProgramBuilder
from memplace_env.program.program import TensorKind
from tests.by_hand import machine
from tests.offenders import every

NEAR = MemoryLevel("near", 100, 2 * 10**9, 2 * 10**9, 0, 1.0)
FAST, SLOW = machine().levels
CHIP = machine(levels=(FAST, NEAR, SLOW), weights="resident")
X, W, A, C, D, E, Y = range(7)


def five_ops():
    """a is made at op 0 and read at ops 2 and 4; op 2 reads a weight, too."""
    build = ProgramBuilder("five", "int8")
    x, w = build.tensor("x", 10, TensorKind.INPUT), build.tensor("w", 40, TensorKind.WEIGHT)
    a, c, d, e = (build.tensor(name, size) for name, size in zip("acde", (20, 10, 10, 10), strict=True))
    y = build.tensor("y", 10, TensorKind.OUTPUT)
    for operands, result in (([x], a), ([x], c), ([a, c, w], d), ([d], e), ([a, e], y)):
        build.op("Op", operands, [result], gemm=(1, 50, 1, 1))
    return build.build()


TASK = resolve_task(five_ops(), CHIP, copies="all")
BLOCKS = [
    [A, 1, 40, 0, 1],
    [A, 0, 0, 1, 3],
    [A, 1, 40, 3, 4],
    [W, 1, 0, 0, 4],
    [W, 0, 20, 0, 2],
    [C, 0, 60, 1, 2],
    [D, 0, 70, 2, 3],
    [E, 0, 80, 3, 4],
]
COPIES = [[A, 1, 0, 1, 1], [A, 0, 1, 3, 3], [W, 1, 0, 0, 1]]


def plan(blocks=(), copies=(), more=()):
    """The plan by hand with some cells changed, given as (row, column, value), and more copies."""
    rows, moves = np.array(BLOCKS), np.array([*COPIES, *more])
    for table, cells in ((rows, blocks), (moves, copies)):
        for row, column, value in cells:
            table[row, column] = value
    program = TASK.program
    use_level = np.where(np.isin(program.use_tensor, [X, Y]), 2, 0)
    use_level[(program.use_tensor == A) & (program.use_op != 2)] = 1
    return TASK.make_plan(use_level, rows, moves)


def test_the_plan_by_hand_can_run_and_copies_take_the_slower_ports_time():
    """Two copies of 20 bytes at 2 bytes/ns and one of 40 beside five ops of 50 ns, of whose ports they leave enough."""
    assert violations(TASK, plan()) == []
    assert TASK.copy_ps(*plan().transfers[:, :3].T).tolist() == [10_000, 10_000, 20_000]
    report = evaluate_plan(TASK, plan())
    assert (report.latency_ps, report.stall_ps.sum(), report.tail_ps) == (250_000, 0, 0)


def test_ops_wait_for_copies_while_all_ports_work():
    """Near's port owes 10 ns for a and 20 for w after 10 free ones before op 2, and 10 for a after 2 before op 4."""
    report = evaluate_plan(replace(TASK, costs=TASK.costs._replace(compute_ps=np.ones(5, dtype=np.int64))), plan())
    assert report.op_time_ps[:2].tolist() == [10_000, 10_000]
    assert report.stall_ps.tolist() == [0, 0, 20_000, 0, 8_000]


WRONG = [
    ({"copies": [(0, 3, 0)]}, {"copy", "use"}),
    ({"copies": [(0, 4, 2)]}, {"copy", "use"}),
    ({"copies": [(0, 1, 0)]}, {"range"}),
    ({"copies": [(0, 2, 3)]}, {"range"}),
    ({"copies": [(0, 1, -1)]}, {"range"}),
    ({"blocks": [(0, 4, 0)]}, {"copy", "use"}),
    ({"blocks": [(1, 3, 2)]}, {"copy", "use"}),
    ({"blocks": [(2, 3, 4)]}, {"copy", "use"}),
    ({"blocks": [(3, 3, 1)]}, {"copy", "use"}),
    ({"copies": [(1, 4, 4)]}, {"copy", "use"}),
    ({"copies": [(0, 0, E)]}, {"copy", "use"}),
    ({"blocks": [(1, 4, 1)]}, {"copy", "use"}),
    (
        {
            "blocks": [(2, 3, 2), (1, 4, 4)],
            "copies": [(1, 1, 1), (1, 2, 0)],
            "more": [[A, 1, 2, 1, 1], [A, 2, 1, 2, 2]],
        },
        {"copy"},
    ),
    ({"more": [[A, 0, 2, 3, 3]]}, {"write-back"}),
    ({"more": [[A, 1, 2, 1, 1]]}, set()),
]


@every(("changed", "rules"), WRONG)
def test_what_is_wrong_with_copies_is_named(changed, rules):
    assert {violation.rule for violation in violations(TASK, plan(**changed))} == rules


def test_they_are_asked_for():
    plain = resolve_task(five_ops(), CHIP)
    assert {violation.rule for violation in violations(plain, plan())} == {"range"}
    with pytest.raises(WorkloadError, match="copies is 'backing' or 'all', not 'some'"):
        resolve_task(five_ops(), CHIP, copies="some")
    with pytest.raises(WorkloadError, match="timed by the costs only; leave out the simulator"):
        resolve_task(five_ops(), CHIP, "event", copies="all", costs=KnownCosts(plain.costs, plain.program, CHIP))
    assert "copies" not in resolve_task(five_ops(), CHIP, copies="backing").settings
