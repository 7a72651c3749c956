"""Environments for Stable-Baselines3 in which the search's evaluator counts every plan."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata
from stable_baselines3.common.vec_env.base_vec_env import VecEnvStepReturn

from memplace_agents.evaluator import GameEvaluator, OneShotEvaluator
from memplace_env.envs.malloc_game import MallocGameVectorEnv
from memplace_env.envs.malloc_game.state import USE
from memplace_env.envs.one_shot import OneShotVectorEnv
from memplace_env.envs.wrappers.sb3 import SB3VecEnv


class OneShotSearchEnv(SB3VecEnv):
    """One-shot environments of which each step evaluates `num_envs` assignments within the budget.

    The algorithm gets the ranks of the rewards within the step instead of the rewards, see `ranks`.
    """

    def __init__(self, evaluator: OneShotEvaluator, num_envs: int) -> None:
        self._evaluator = evaluator
        super().__init__(OneShotVectorEnv(num_envs, workload=evaluator.env.task))

    def step_wait(self) -> VecEnvStepReturn:
        """Evaluate the assignments; those beyond the budget get 0."""
        assert self._actions is not None
        result = self._evaluator(self._actions)
        rewards = np.zeros(self.num_envs, dtype=np.float32)
        rewards[: len(result.reward)] = ranks(result.reward)
        return self.reset(), rewards, np.ones(self.num_envs, dtype=bool), [{} for _ in rewards]


class GameSearchEnv(SB3VecEnv):
    """`num_envs` games side by side; those that end count while the budget lasts."""

    def __init__(self, evaluator: GameEvaluator, num_envs: int) -> None:
        self._evaluator = evaluator
        # The evaluator calls a black box once for each game, so the vector environment does without.
        self._games = MallocGameVectorEnv(num_envs, workload=replace(evaluator.env.task, simulator=None))
        super().__init__(self._games)

    def step_wait(self) -> VecEnvStepReturn:
        """Play a decision; all games have the same length and end together."""
        problem, states, surplus = self._evaluator.env.problem, self._games.states, np.zeros(0)
        if states[0, USE] == problem.num_decisions - 1:
            # The vector environment begins new games at once, so the last decision is played here as well.
            last = states[: self._evaluator.remaining].copy()
            problem.play(last, np.asarray(self._actions)[: len(last)])
            if len(last):
                fractions = problem.return_correction(last, self._evaluator.offer_states(last))
                surplus = self._games.env.reward_scale * fractions
        observation, rewards, done, infos = super().step_wait()
        rewards[: len(surplus)] += surplus
        return observation, rewards, done, infos


def ranks(rewards: NDArray[np.float64]) -> NDArray[np.float32]:
    """Return float32[B] in [-1, 1]: how many rewards each one beats less how many beat it, over B - 1.

    The reward of an assignment that does not fit is far below those of assignments that do, and the share that fits is
    close to 1 for most of a search: in units of the rewards' standard deviation the differences among those that fit
    would vanish. Evolution strategies do the same (Wierstra et al., Natural Evolution Strategies, JMLR 2014).
    """
    share = (2 * rankdata(rewards) - len(rewards) - 1) / max(len(rewards) - 1, 1)
    return np.asarray(share, dtype=np.float32)
