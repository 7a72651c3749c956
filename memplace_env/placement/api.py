"""Public functions that take a program and a chip: each makes a Task of them and hands that on."""

from __future__ import annotations

from numpy.typing import ArrayLike

from memplace_env.machine.accelerator import Accelerator
from memplace_env.machine.costs import CostsLike
from memplace_env.placement.compiler.compile import Compiled, place_levels
from memplace_env.placement.compiler.heuristics import native_plan
from memplace_env.placement.compiler.placing_order import Order
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.resolve_task import make_task
from memplace_env.placement.simulator import Report, Simulator, evaluate_plan
from memplace_env.placement.validation import Violation, violations
from memplace_env.program.program import Program


def validate(
    program: Program, accelerator: Accelerator, plan: MemoryPlan, *, costs: CostsLike = None
) -> list[Violation]:
    """Return every rule that the plan breaks, see `validation.violations`; an empty list means that it can run.

    Raises:
        PlanError: if it is no MemoryPlan.
    """
    return violations(make_task(program, accelerator, costs=costs), plan)


def simulate(
    program: Program,
    accelerator: Accelerator,
    plan: MemoryPlan,
    simulator: str | Simulator | None = None,
    *,
    costs: CostsLike = None,
) -> Report:
    """Validate a plan, then time it.

    Raises:
        PlanError: if it is no MemoryPlan, or not valid for this program and accelerator.
    """
    return evaluate_plan(make_task(program, accelerator, costs=costs, simulator=simulator), plan)


def compile_levels(
    program: Program,
    accelerator: Accelerator,
    levels: ArrayLike,
    order: Order = "weights-before-results",
    *,
    costs: CostsLike = None,
) -> Compiled:
    """Make a plan of the requested levels: the rectifier in EGRL's compiler, whose own rules are not published.

    Bytes are granted in execution order: each weight, at the first op that reads it, and each result of an op gets the
    requested level or, where that has no bytes left for its lifetime, the next one down that has. Addresses are
    chosen afterwards, knowing all lifetimes (`compiler.packing`); what finds none, which is rare, goes down as well. So
    the levels decide, and asking for too much costs. Graph inputs and outputs live in the backing memory in any case.
    Where `Program.inplace` allows, a result takes the bytes and the address of an operand in its level.

    On machines with resident weights a weight's block lasts the whole inference, see `compiler.resident`; with
    streamed weights it is filled by a transfer that no op waits for, see `compiler.streamed`.

    Args:
        program: the program whose tensors are placed.
        accelerator: the chip on which they are placed.
        levels: int[K], the level requested for each tensor, 0..L-1.
        order: in which order tensors are granted bytes, see `compiler.placing_order.schedule_of`.
        costs: see `CostsLike`; transfers and what ops reserve depend on it.

    Raises:
        ActionError: if the levels have another shape or another range, or there is no such order.
    """
    return place_levels(make_task(program, accelerator, costs=costs), levels, order)


def native(
    program: Program,
    accelerator: Accelerator,
    simulator: str | Simulator | None = None,
    *,
    costs: CostsLike = None,
) -> MemoryPlan:
    """Return the plan of a production compiler's heuristic: each tensor into the fastest level with room.

    Weights that ops only pick rows from (embedding tables) stay in the backing memory, as compilers keep them: one
    could fill a level and serve a few rows. Done in three orders, op by op with weights first, op by op with results
    first, and all results before all weights, each with and without results in place where the program allows them, and
    the fastest plan kept (by `simulator`, default the cost arrays). Where several fastest banks serve at once, tensors
    also take them in turns. Where results must lie in fast memory and no order finds room, addresses are searched for.
    EGRL's own baseline, Intel's compiler, is not published; this one is our choice, meant to be honest and not weak.
    """
    return native_plan(make_task(program, accelerator, costs=costs, simulator=simulator))
