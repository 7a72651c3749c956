"""Greedy-DP of the EGRL paper: one op at a time, all others frozen."""

from __future__ import annotations

import numpy as np

from memplace_agents.base import Agent
from memplace_agents.evaluator import OneShotEvaluator


class GreedyDP(Agent[OneShotEvaluator]):
    """Tries all L x L levels of an op's weights and results, keeps the best reward, goes on to the next op.

    After the last op it begins again, until a whole pass changes nothing or the budget ends. As in the paper it
    assumes that ops do not depend on each other, and it is guided by the reward alone, so that assignments which the
    compiler would have to change are never chosen. The paper does not specify its first assignment or its rule for
    ties; ours begins with everything in the backing memory, and a tie changes nothing. Ops without a choice are
    skipped.
    """

    def run(self, evaluator: OneShotEvaluator, seed: int) -> None:
        """Pass over the ops until nothing changes or the budget is spent; nothing is random."""
        problem = evaluator.env.problem
        levels = problem.accelerator.num_levels
        choices = np.stack(np.meshgrid(range(levels), range(levels), indexing="ij"), axis=-1).reshape(-1, 2)
        ops = np.flatnonzero(problem.decides.reshape(-1, 2).any(axis=1))
        best_assignment = np.full(problem.num_decisions, problem.accelerator.backing)
        first = evaluator(best_assignment[None]).reward
        best_reward, changed = first.max(initial=-np.inf), True
        while changed and evaluator.remaining > 0:
            changed = False
            for op in ops:
                trials = np.repeat(best_assignment[None], len(choices), axis=0)
                trials[:, 2 * op : 2 * op + 2] = choices
                rewards = evaluator(trials).reward
                if len(rewards) and rewards.max() > best_reward:
                    best_assignment, best_reward, changed = trials[rewards.argmax()], rewards.max(), True
