"""Greedy-DP of the EGRL paper: one op at a time, all others frozen."""

from __future__ import annotations

import numpy as np

from memplace_agents.search.agent import Agent
from memplace_agents.search.cheap_plans import first_assignments, offer_cheap_plans
from memplace_agents.search.evaluator import OneShotEvaluator


class GreedyDP(Agent[OneShotEvaluator]):
    """Tries all L x L levels of an op's weights and results, keeps the best reward, goes on to the next op.

    After the last op it begins again, until a whole pass changes nothing or the budget ends. As in the paper it
    assumes that ops do not depend on each other, and it is guided by the reward alone, so that assignments which the
    compiler would have to change are never chosen. The paper does not specify its first assignment or its rule for
    ties; ours begins with the plans of all rules (`cheap_plans`) and the best of their assignments, and a tie changes
    nothing. Ops without a choice are skipped.
    """

    def run(self, evaluator: OneShotEvaluator, seed: int) -> None:
        """Pass over the ops until nothing changes or the budget is spent; nothing is random."""
        problem = evaluator.env.problem
        levels = problem.accelerator.num_levels
        choices = np.stack(np.meshgrid(range(levels), range(levels), indexing="ij"), axis=-1).reshape(-1, 2)
        ops = np.flatnonzero(problem.decides.reshape(-1, 2).any(axis=1))
        offer_cheap_plans(evaluator)
        starts = first_assignments(problem, evaluator.incumbent)[: evaluator.remaining]
        if not len(starts):
            return
        rewards = evaluator(starts).reward
        best_assignment, best_reward, changed = starts[rewards.argmax()], rewards.max(), True
        while changed and evaluator.remaining > 0:
            changed = False
            for op in ops:
                trials = np.repeat(best_assignment[None], len(choices), axis=0)
                trials[:, 2 * op : 2 * op + 2] = choices
                rewards = evaluator(trials).reward
                if len(rewards) and rewards.max() > best_reward:
                    best_assignment, best_reward, changed = trials[rewards.argmax()], rewards.max(), True
