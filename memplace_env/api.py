"""The public functions that take a program and a chip: each makes a Task of them and hands that on."""

from __future__ import annotations

from numpy.typing import ArrayLike

from memplace_env.accelerator import Accelerator
from memplace_env.compiler.compile import Compiled, place_mapping
from memplace_env.compiler.heuristics import native_plan
from memplace_env.compiler.schedule import Order
from memplace_env.costs import CostModel
from memplace_env.plan import MemoryPlan, Violation, violations
from memplace_env.resolve import make_task
from memplace_env.simulator import Report, Simulator, judge_plan
from memplace_env.workload.program import Program

Costs = str | CostModel | None
"""A cost model, by name or itself; None takes the accelerator's."""


def validate(program: Program, accelerator: Accelerator, plan: MemoryPlan, *, costs: Costs = None) -> list[Violation]:
    """Every rule that the plan breaks; an empty list means that the plan can run. See `plan.validator.violations`."""
    return violations(make_task(program, accelerator, costs=costs), plan)


def simulate(
    program: Program,
    accelerator: Accelerator,
    plan: MemoryPlan,
    simulator: str | Simulator | None = None,
    *,
    costs: Costs = None,
) -> Report:
    """Validate a plan, then time it.

    Raises:
        PlanError: if the plan is not valid for this program and accelerator.
    """
    return judge_plan(make_task(program, accelerator, costs=costs, simulator=simulator), plan)


def compile_mapping(
    program: Program,
    accelerator: Accelerator,
    mapping: ArrayLike,
    order: Order = "weights-before-results",
    *,
    costs: Costs = None,
) -> Compiled:
    """Make a mapping real: the rectifier that EGRL's compiler is (its own rules are not published).

    Who steps back is decided by bytes, in execution order: each weight, at the first op that reads it, and each result
    of an op gets the level it asks for or, where that has no bytes left for its lifetime, the next one down that has.
    Addresses are chosen afterwards, knowing all lifetimes (`compiler.packing`); what finds none, which is rare, goes
    down as well. So the map decides, and asking for too much costs. Graph inputs and outputs live in the backing
    memory whatever the mapping says.

    On machines with resident weights a weight's block lasts the whole inference, see `compiler.resident`; with
    streamed weights it is filled by a transfer that no op waits for, see `compiler.streamed`.

    Args:
        program: what to place.
        accelerator: where.
        mapping: int[K], the level wanted for each tensor, 0..L-1.
        order: who asks for bytes first, see `compiler.schedule.schedule_of`.
        costs: see `Costs`; transfers and what ops reserve depend on it.

    Raises:
        ActionError: if the mapping has another shape or another range.
    """
    return place_mapping(make_task(program, accelerator, costs=costs), mapping, order)


def native(
    program: Program,
    accelerator: Accelerator,
    simulator: str | Simulator | None = None,
    *,
    costs: Costs = None,
) -> MemoryPlan:
    """What a production compiler's heuristic does: each tensor into the fastest level with room.

    Weights that ops only pick rows from (embedding tables) stay in the backing memory, as compilers keep them: one
    could fill a level and serve a few rows. Done in three orders, op by op with weights first, op by op with results
    first, and all results before all weights, and the fastest plan kept (by `simulator`, default the cost arrays).
    EGRL's own baseline, Intel's compiler, is not published; this one is our choice, meant to be honest and not weak.
    """
    return native_plan(make_task(program, accelerator, costs=costs, simulator=simulator))
