"""The rules: plans without a search, in milliseconds, with which every search begins."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from memplace_agents.search.accounting import Evaluator
from memplace_agents.xla_msa import PUBLIC_SETS, default_plan
from memplace_env.envs.malloc_game import MallocGameProblem
from memplace_env.envs.one_shot import OneShotProblem
from memplace_env.envs.steps import StepsProblem
from memplace_env.placement.compiler import HEURISTICS, all_backing, place_levels
from memplace_env.placement.compiler.density import all_density_levels
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.task import Task, derived

BEST_FIRST = ("all-fastest", "density-greedy 8", "density-greedy 5", "density-greedy 10", "native")
"""Rules of which each adds most to the best plan of those before it, on the registered training and validation
workloads; the other rules add 0.04 % of the proven gain there. Our choice."""


def cheap_plans(problem: OneShotProblem | StepsProblem | MallocGameProblem) -> dict[str, MemoryPlan]:
    """Return the plan of each rule by its name, those that are mostly best first.

    All but games: the compiler's heuristics and density-greedy's variants. Games: XLA's public option sets, the greedy
    player, and everything in the backing memory. Rules read the cost arrays; a black box is asked for native only.
    """
    task = problem.task
    if not isinstance(problem, MallocGameProblem):
        return _rules(task)
    states = problem.new_states(1)
    problem.finish_greedily(states)
    first, *others = ((f"xla-msa {public.name}", default_plan(task, public.options)) for public in PUBLIC_SETS)
    return dict([first, ("greedy-player", problem.plan(states[0])), *others, ("all-backing", all_backing(task))])


@derived
def _rules(task: Task) -> dict[str, MemoryPlan]:
    _, *variants = (place_levels(task, levels).plan for levels in all_density_levels(task))
    rules = {name: rule(task) for name, rule in HEURISTICS.items()}
    rules |= {f"density-greedy {number}": plan for number, plan in enumerate(variants, 2)}
    names = [name for name in dict.fromkeys((*BEST_FIRST, *rules)) if not len(task.homeless(rules[name]))]
    return {name: rules[name] for name in names}


def offer_cheap_plans(evaluator: Evaluator) -> None:
    """Offer the plan of each rule, equal ones once, until the budget is spent; after other stages only the best plan.

    One plan is offered in any case.
    """
    best = evaluator.incumbent
    plans = cheap_plans(evaluator.env.problem).values() if best is None else [best]
    first, *others = {plan.to_json(): plan for plan in plans}.values()
    evaluator.offer(first)
    for plan in others:
        if evaluator.remaining > 0:
            evaluator.offer(plan)


def first_assignments(problem: OneShotProblem, incumbent: MemoryPlan | None = None) -> NDArray[np.int64]:
    """Return the first assignments of a search, int64[M, 2T], each once.

    They are those of the best plan so far, if there is one; of every rule's plan; and the one that native requests.
    """
    plans = [*([] if incumbent is None else [incumbent]), *cheap_plans(problem).values()]
    assignments = problem.assignments_of(np.array([plan.tensor_levels(problem.program) for plan in plans]))
    assignments = np.concatenate([assignments, problem.native_assignment[None]])
    # The order decides ties in searches, so of equal rows the first is kept where it is.
    _, first = np.unique(assignments, axis=0, return_index=True)
    distinct: NDArray[np.int64] = assignments[np.sort(first)]
    return distinct
