"""Greedy-DP as EGRL describes it: one op at a time, all others frozen."""

from __future__ import annotations

import numpy as np

from agents.base import Agent
from agents.evaluator import MapEvaluator
from memplace_env.registration import Formulation


class GreedyDP(Agent[MapEvaluator]):
    """Tries all L x L levels of an op's weights and results, keeps the best reward, goes on to the next op.

    After the last op it begins again, until a whole pass changes nothing or the budget ends. As in the paper it
    assumes that ops do not depend on each other, and it is guided by the reward alone, so that maps which the
    compiler would have to change are never chosen. The paper does not tell its first map nor what it does on ties;
    ours are everything in the backing memory, and the choice that stands stays. Ops that a map does not decide
    about are skipped.
    """

    name = "greedy-dp"
    formulations = (Formulation.ONE_SHOT,)

    def run(self, evaluator: MapEvaluator, seed: int) -> None:
        """Nothing is random, so the seed changes nothing."""
        problem = evaluator.env.problem
        levels = problem.accelerator.num_levels
        choices = np.stack(np.meshgrid(range(levels), range(levels), indexing="ij"), axis=-1).reshape(-1, 2)
        ops = np.flatnonzero(problem.decides.reshape(-1, 2).any(axis=1))
        best_map = np.full(problem.map_size, problem.accelerator.backing)
        first = evaluator(best_map[None]).reward
        best_reward, changed = first.max(initial=-np.inf), True
        while changed and evaluator.remaining > 0:
            changed = False
            for op in ops:
                trials = np.repeat(best_map[None], len(choices), axis=0)
                trials[:, 2 * op : 2 * op + 2] = choices
                rewards = evaluator(trials).reward
                if len(rewards) and rewards.max() > best_reward:
                    best_map, best_reward, changed = trials[rewards.argmax()], rewards.max(), True
