"""Each rule of the plan validator broken once: a plan that cannot run then passes, or is called something else."""

import types
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from memplace_env.envs.malloc_game import MallocGameProblem
from memplace_env.machine.accelerator import MemoryLevel
from memplace_env.placement.compiler import place_levels
from memplace_env.placement.resolve_task import make_task
from memplace_env.placement.synthetic.random_programs import random_dag
from memplace_env.placement.task import Task
from memplace_env.placement.validation import block_rules, validator
from memplace_env.placement.validation.block_rules import MOST
from tests.by_hand import machine
from tests.mutation import decides, noted, unnoticed, with_limits
from tests.placement.plan import test_validate, test_validate_alias, test_validate_copies, test_validate_in_place
from tests.placement.plan.test_validate import GOOD, TASK, reserving, with_block, with_copy
from tests.placement.plan.test_validate_in_place import chain
from tests.program.test_alias import X, update
from tests.references.reference_plan import can_run
from tests.strategies import with_idle_ops

BACK, AGAIN = [2, 0, 1, 1, 1], [2, 1, 0, 2, 2]
TRIP = replace(
    GOOD,
    allocations=np.vstack([GOOD.allocations, [2, 0, 40, 2, 3]]),
    transfers=np.vstack([GOOD.transfers, BACK, AGAIN]),
)
"""A tensor goes back and comes again."""
LATE = replace(
    test_validate_alias.with_block(0, end=3), transfers=np.vstack([test_validate_alias.COPIES, [1, 1, 0, 0, 0]])
)
"""A tensor that another replaces is copied twice."""
LOOSER = (
    "index < len(lows):",
    "(index < len(lows) and lows[index] <= h",
    "(index < len(lows) and lows[index] < high + 1",
)
SAME = (
    *("strange =", "for row in np.flatnonzero(strange", "served =", "served |=", "holds =", "same =", "if (same &"),
    *("if len(plan.allocations):", "if same.any()", "is_result =", "produced = (level ==", "rule = hint if resident"),
    *("served_validly = any((op <= end", "served_validly = any(((start[row] <= op + 1"),
    *(
        "suspect = top >= ",
        "suspect = top > (capacity - most)[level] - 1",
        "while leaving and leaving[0][0] < first - 1",
    ),
    *(f"if index and tops[index - 1] > low or {rest}" for rest in LOOSER),
    *("if block_ready[blocks[0]] > last + 1:", "if backing_ready[copied] > last + 1:"),
    *("used = int(op[op <", "if block_ready[into[0]] > last + 1"),
)
"""Short cuts, whose findings others look at again; and what follows from another condition."""


def hostile():
    """Plans that break a rule, with their tasks: those of the validator's own tests, and some for single rules."""
    own = (test_validate.test_each_corruption_is_named, TASK)
    aliases = (test_validate_alias.test_nothing_else_is_shared, test_validate_alias.TASK)
    for marked, task in (own, aliases):
        (table,) = [mark.args[1] for mark in marked.pytestmark if mark.name == "parametrize"]
        yield from ((task, row[0]) for row in table)
    yield from ((test_validate_copies.TASK, test_validate_copies.plan(**row[0])) for row in test_validate_copies.WRONG)
    pinned = replace(TASK, settings={"pins": {"a": "fast@40"}})
    yield from ((pinned, with_block("a", offset=offset)) for offset in (39, 40, 41))
    yield replace(TASK, settings={"pins": {"w": "fast@0"}}), with_block("w", offset=1)
    yield TASK, GOOD
    yield TASK, None
    yield TASK, replace(GOOD, program_sha256="0")
    yield TASK, replace(GOOD, accelerator_sha256="0")
    yield TASK, replace(GOOD, use_level=GOOD.use_level[:-1])
    yield TASK, replace(GOOD, use_level=np.full_like(GOOD.use_level, 9))
    yield TASK, replace(GOOD, transfers=np.repeat(GOOD.transfers, 2, axis=0))
    yield TASK, replace(GOOD, allocations=np.repeat(GOOD.allocations[:1], 2 * MOST, axis=0))
    yield TASK, replace(TRIP, transfers=TRIP.transfers[[0, 1, 3]])
    copies = np.vstack([test_validate_alias.COPIES, [1, 1, 0, 0, 1]])
    yield test_validate_alias.TASK, replace(LATE, transfers=copies)
    early = TRIP.allocations.copy()
    early[[1, 4], [4, 3]] = 2, 1
    for copies in (
        [BACK, [2, 1, 0, 1, 2]],
        [[2, 0, 1, 1, 2], BACK, AGAIN],
        [[1, 1, 0, 0, 0], [1, 0, 1, 1, 1]],
        [[1, 1, 0, 0, 1], [1, 1, 0, 0, 0], [1, 0, 1, 2, 2]],
    ):
        yield TASK, replace(TRIP, allocations=early, transfers=np.array(copies))
    early = with_block("y", start=1)
    yield TASK, replace(early, transfers=with_copy(1, start=2).transfers)
    for changes in ({"tensor": 99}, {"level": 9}, {"offset": -1}, {"start": 9}, {"end": 99}, {"offset": 2**62}):
        yield TASK, with_block("a", **changes)
    fast, slow = TASK.accelerator.levels
    tight = replace(TASK, accelerator=machine(levels=(fast, replace(slow, capacity_bytes=99))))
    yield tight, tight.make_plan(np.full_like(GOOD.use_level, tight.backing), GOOD.allocations[:0])
    for name in ("tensor", "level", "start"):
        yield TASK, with_block("a", **{name: -1})
    yield TASK, with_copy(0, start=-1)
    for changes in (
        {"tensor": 99},
        {"target": 9},
        {"start": 9},
        {"end": 99},
        {"end": 2},
        {"target": -1},
        {"start": -1},
    ):
        yield TASK, with_copy(0, **changes)


def in_place():
    """Plans with results in an operand's place, and copies of that operand before and while it is overwritten."""
    near, program = MemoryLevel("near", 60, 10**10, 10**10, 0, 1.0), with_idle_ops(chain(), [1], 0)
    fast, slow = TASK.accelerator.levels
    task = make_task(program, machine(levels=(fast, near, slow)))
    level = np.where(np.isin(program.use_tensor, test_validate_in_place.BLOCKS[:, 0]), 0, 2)
    blocks = test_validate_in_place.BLOCKS + np.array([0, 0, 0, 1, 1])
    blocks[0, 3] = 0
    again = np.vstack([blocks, [1, 1, 0, 2, 3]])
    for copies in ([], [[1, 0, 2, 1, 1]], [[1, 0, 2, 1, 2]], [[1, 0, 2, 2, 2]], [[2, 0, 2, 3, 3]]):
        yield task, task.make_plan(level, blocks, np.array(copies, dtype=np.int64).reshape(-1, 5))
    for window in ([2, 2], [1, 1]):
        yield task, task.make_plan(level, again, np.array([[1, 0, 2, 1, 1], [1, 2, 1, *window]]))
    for offset in (1, 39, 41):
        yield task, task.make_plan(level, blocks + np.array([0, 0, offset, 0, 0]) * (blocks[:, :1] == 2), blocks[:0])


def sound():
    """Games, maps and plans by hand, with their tasks; not all of those by hand can run."""
    near = MemoryLevel("near", 60, 10**11, 10**11, 0, 1.0)
    for seed in range(40):
        rng, program = np.random.default_rng(seed), random_dag(seed, ops=5, largest=60)
        chip = machine(weights=("resident", "streamed")[seed % 2])
        if seed % 4 < 2:
            problem = MallocGameProblem(make_task(program, chip))
            states = problem.new_states(1)
            problem.finish_randomly(states, seed)
            yield problem.task, problem.plan(states[0])
        else:
            task = make_task(program, replace(chip, levels=(near, *chip.levels)))
            yield task, place_levels(task, rng.integers(0, 3, program.num_tensors).tolist()).plan
    first = make_task(update(X, size=10), machine())
    backing = np.ones(first.program.num_uses, dtype=np.int8)
    for _ in range(20):
        yield TASK, TRIP
        yield first, first.make_plan(backing, np.empty((0, 5), dtype=np.int64), np.array([[X, 0, 1, 2, 3]]))
        yield test_validate_alias.TASK, test_validate_alias.GOOD
        yield test_validate_alias.TASK, LATE
        yield test_validate_copies.TASK, test_validate_copies.plan()


def disturbed():
    """Sound plans, each followed by versions with one more copy and one or two cells changed by a little."""
    rng = np.random.default_rng(0)
    for task, plan in sound():
        yield task, plan
        for _ in range(8):
            parts = {"use_level": plan.use_level[:, None].copy(), "allocations": plan.allocations.copy()}
            copies = plan.transfers
            parts["transfers"] = np.vstack([copies, copies[-1:]]) if rng.random() < 0.3 else copies.copy()
            for name in rng.permutation([name for name in parts if parts[name].size])[: rng.integers(1, 3)]:
                cells = parts[name]
                at = rng.integers(len(cells)), rng.integers(cells.shape[1])
                cells[at] = max(cells[at] + rng.choice([-2, -1, 1, 2]), 0)
            yield task, replace(plan, **(parts | {"use_level": parts["use_level"][:, 0]}))


def verdict(task, plan):
    """Return a case: what a validator says of a plan."""

    def ask(module: types.ModuleType) -> str:
        if hasattr(module, "violations"):
            found = module.violations(task, plan)
        else:
            found = module.broken_blocks(task, plan) + module.broken_roles(task, plan)
        return str([violation.message for violation in found])

    return noted(ask)


def every_use(task: Task, *_: object) -> NDArray[np.bool_]:
    """Stands for the validator's short cut: no use is served so plainly that it needs no second look."""
    return np.ones(task.program.num_uses, dtype=np.bool_)


def test_every_rule_of_the_validator_is_noticed_when_it_is_missing():
    for task, plan in (*in_place(), *disturbed()):
        if (task.program.alias_of < 0).all() and not task.fast_copies:  # the reference knows neither
            assert can_run(task, plan) == (not validator.violations(task, plan))
    cases = [verdict(task, plan) for task, plan in (*hostile(), *in_place(), *disturbed())]
    cases += [with_limits(case, _suspect_uses=every_use) for case in cases]
    cases += [with_limits(verdict(TASK, with_block("y", offset=91, end=2)), MOST=most) for most in (1, 2)]
    cases += [with_limits(verdict(TASK, GOOD), LIMIT_PS=limit) for limit in (49, 50, 51)]
    for plan in (GOOD, with_block("a", offset=2**62)):
        cases.append(noted(lambda module, plan=plan: str(module.require_valid(TASK, plan))))
    assert unnoticed(validator, decides, cases, same=SAME) == []


def test_every_rule_of_blocks_is_noticed_when_it_is_missing():
    plans = [
        (task, plan)
        for task, plan in (*hostile(), *in_place(), *disturbed())
        if plan and not validator._ranges(task, plan)
    ]
    cases = [verdict(task, plan) for task, plan in plans]
    cases += [verdict(reserving(op, reserved), GOOD) for op, reserved in ((0, 41), (1, 11), (2, 11))]
    outside = replace(GOOD, allocations=GOOD.allocations + np.array([0, 0, 99, 0, 0]))
    cases += [with_limits(verdict(TASK, outside), MOST=most) for most in (1, 2, 3)]
    assert unnoticed(block_rules, decides, cases, same=SAME) == []
