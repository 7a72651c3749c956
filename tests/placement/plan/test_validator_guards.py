"""Each rule of the plan validator broken once: a plan that cannot run then passes, or is called something else."""

import ast
import types
from dataclasses import replace

import numpy as np

from memplace_env._lib.errors import PlanError
from memplace_env.placement.validation import block_rules, validator
from memplace_env.placement.validation.block_rules import MOST
from tests.mutation import unnoticed
from tests.placement.plan import test_validate, test_validate_alias
from tests.placement.plan.test_validate import GOOD, TASK, reserving, with_block, with_copy


def reports(guard: ast.If) -> bool:
    """Return whether a statement's body reports a violation, directly or by naming what is wrong."""
    text = "\n".join(ast.unparse(statement) for statement in guard.body[:1])
    return "Violation(" in text or "broken.append" in text or text.startswith(("wrong =", "raise", "return broken"))


def plans():
    """Hostile plans with their tasks: those of the validator's own tests, and some for single rules."""
    own = (test_validate.test_each_corruption_is_named, TASK)
    aliases = (test_validate_alias.test_nothing_else_is_shared, test_validate_alias.TASK)
    for marked, task in (own, aliases):
        (table,) = [mark.args[1] for mark in marked.pytestmark if mark.name == "parametrize"]
        yield from ((task, row[0]) for row in table)
    yield TASK, GOOD
    yield TASK, None
    yield TASK, replace(GOOD, program_sha256="0")
    yield TASK, replace(GOOD, accelerator_sha256="0")
    yield TASK, replace(GOOD, use_level=GOOD.use_level[:-1])
    yield TASK, replace(GOOD, use_level=np.full_like(GOOD.use_level, 9))
    yield TASK, replace(GOOD, transfers=np.repeat(GOOD.transfers, 2, axis=0))
    yield TASK, replace(GOOD, allocations=np.repeat(GOOD.allocations[:1], 2 * MOST, axis=0))
    rows, back, again = np.vstack([GOOD.allocations, [2, 0, 40, 2, 3]]), [2, 0, 1, 1, 1], [2, 1, 0, 2, 2]
    yield TASK, replace(GOOD, allocations=rows, transfers=np.vstack([GOOD.transfers, again]))
    yield TASK, replace(GOOD, allocations=rows, transfers=np.vstack([GOOD.transfers, back, again]))
    early = with_block("y", start=1)
    yield TASK, replace(early, transfers=with_copy(1, start=2).transfers)
    for changes in ({"tensor": 99}, {"level": 9}, {"offset": -1}, {"start": 9}, {"end": 99}, {"offset": 2**62}):
        yield TASK, with_block("a", **changes)
    fast, slow = TASK.accelerator.levels
    chip = replace(TASK.accelerator, levels=(fast, replace(slow, capacity_bytes=99)))
    tight = replace(TASK, accelerator=chip)
    yield tight, tight.make_plan(np.full_like(GOOD.use_level, tight.backing), GOOD.allocations[:0])
    for changes in ({"tensor": 99}, {"target": 9}, {"start": 9}, {"end": 99}, {"start": 0, "end": 2}):
        yield TASK, with_copy(0, **changes)


def verdict(task, plan):
    """Return a case: what a validator says of a plan."""

    def case(module: types.ModuleType) -> str:
        check = module.violations if hasattr(module, "violations") else module.broken_blocks
        try:
            return str([violation.message for violation in check(task, plan)])
        except PlanError as error:
            return str(error)
        except Exception as error:  # a broken rule may let anything happen
            return f"{type(error).__name__}: {error}"

    return case


def test_every_rule_of_the_validator_is_noticed_when_it_is_missing():
    cases = [verdict(task, plan) for task, plan in plans()]
    cases.append(lambda module: str(module.require_valid(TASK, GOOD)))

    def required(module):
        try:
            return str(module.require_valid(TASK, with_block("a", offset=2**62)))
        except PlanError as error:
            return str(error)

    assert unnoticed(validator, reports, [*cases, required]) == []


def test_every_rule_of_blocks_is_noticed_when_it_is_missing():
    sound = [(task, plan) for task, plan in plans() if plan is not None and not validator._ranges(task, plan)]
    cases = [verdict(task, plan) for task, plan in sound]
    cases += [verdict(reserving(op, reserved), GOOD) for op, reserved in ((0, 41), (1, 11), (2, 11))]
    assert unnoticed(block_rules, reports, cases) == []
