"""Rules as agents: one plan or a few, without a search."""

from __future__ import annotations

import numpy as np

from memplace_agents.search.agent import Agent
from memplace_agents.search.cheap_plans import offer_cheap_plans
from memplace_agents.search.evaluator import Evaluator, GameEvaluator, OneShotEvaluator
from memplace_agents.xla_msa import PUBLIC_SETS, MsaOptions, default_plan
from memplace_env._lib.errors import AgentError
from memplace_env._lib.hints import instead
from memplace_env.envs.registration import Formulation
from memplace_env.placement.compiler import HEURISTICS, at_home, place_levels
from memplace_env.placement.compiler.compile import evaluate_assignments
from memplace_env.placement.compiler.density import all_density_levels
from memplace_env.placement.compiler.placing_order import schedule_of


class BestRule(Agent[Evaluator]):
    """Returns the best of the plans of all rules, see `cheap_plans`."""

    deterministic = True

    def run(self, evaluator: Evaluator, seed: int) -> None:
        """Offer the plan of each rule; nothing is random."""
        offer_cheap_plans(evaluator)


class CompilersRule(Agent[Evaluator]):
    """Returns the plan of one of the compiler's heuristics, without search; native, the baseline, by default.

    Args:
        rule: a name of `memplace_env.placement.compiler.HEURISTICS`.

    Raises:
        AgentError: if there is no rule of that name.
    """

    budgeted = False
    deterministic = True

    def __init__(self, rule: str = "native") -> None:
        if rule not in HEURISTICS:
            raise AgentError(f"The compiler has no rule {rule!r}; {instead(rule, HEURISTICS)}")
        self.rule = rule

    def run(self, evaluator: Evaluator, seed: int) -> None:
        """Offer the one plan; nothing is random."""
        evaluator.offer(HEURISTICS[self.rule](evaluator.env.task))


class DensityGreedy(Agent[OneShotEvaluator]):
    """Fills each level by time saved for the bytes held and for how long, in up to ten variants; keeps the best plan.

    The rule is in `memplace_env.placement.compiler.density`. It decides on tensors, not on ops, so that its plans may
    be finer than any assignment of the environment. It reads the cost arrays even if the simulator is a black box.
    """

    deterministic = True

    def run(self, evaluator: OneShotEvaluator, seed: int) -> None:
        """Offer the plans of the variants, or only the fastest where the costs tell which it is; nothing is random."""
        task = evaluator.env.task
        variants = all_density_levels(task)[: evaluator.remaining]
        if task.is_black_box or evaluator.noisy:
            for levels in variants:
                evaluator.offer(at_home(task, place_levels(task, levels).plan))
            return
        if len(variants):
            schedule = schedule_of(task, "weights-before-results")
            distinct = np.stack(list({levels.tobytes(): levels for levels in variants}.values()))
            compiled = evaluate_assignments(schedule, distinct, np.arange(task.program.num_tensors), threads=1)
            evaluator.spend(len(variants) - 1)
            evaluator.offer(at_home(task, place_levels(task, distinct[compiled.latency_ps.argmin()]).plan))


class GreedyPlayer(Agent[GameEvaluator]):
    """Plays the action that lowers the estimated latency most; ties go to NoCopy, then Copy, then Drop."""

    budgeted = False
    deterministic = True

    def run(self, evaluator: GameEvaluator, seed: int) -> None:
        """Play one game, in milliseconds; nothing is random."""
        states = evaluator.env.problem.new_states(1)
        evaluator.env.problem.finish_greedily(states)
        evaluator.offer_states(states)


class XlaMsa(Agent[Evaluator]):
    """Runs XLA's memory-space assignment: one pass of greedy placement, buffer by buffer, see `xla_msa.assign`.

    Solves environments of either formulation, one-shot and mallocGame, as long as the machine has two levels.

    Args:
        options: the options, or the name of a public set; XLA's open-source ones if None.

    Raises:
        AgentError: if there is no public set of that name.
    """

    formulations = (Formulation.ONE_SHOT, Formulation.GAME)  # more than those it is listed for
    budgeted = False
    deterministic = True

    def __init__(self, options: MsaOptions | str | None = None) -> None:
        if isinstance(options, str):
            sets = {public.name: public.options for public in PUBLIC_SETS}
            if options not in sets:
                raise AgentError(f"There is no public option set {options!r}; {instead(options, sets)}")
            options = sets[options]
        self.options = options or MsaOptions()

    def run(self, evaluator: Evaluator, seed: int) -> None:
        """Offer one plan, in well under a second; nothing is random."""
        evaluator.offer(default_plan(evaluator.env.task, self.options))
