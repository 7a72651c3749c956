"""Games side by side, each finished one counted by the search's evaluator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from memplace_agents.learning.entry_features import seen_along
from memplace_agents.learning.rollouts import Bools, Turn
from memplace_agents.learning.saved_tensors import below, like
from memplace_agents.plan_gradient.in_turn.on_policy import Demonstration
from memplace_agents.saved_values import number, whole
from memplace_agents.search.cheap_plans import cheap_plans, offer_cheap_plans
from memplace_agents.search.evaluator import GameEvaluator
from memplace_agents.search.preferences import finished
from memplace_env.envs.malloc_game import GameBatch, MallocGameProblem
from memplace_env.envs.malloc_game.flat import flat_space
from memplace_env.envs.malloc_game.plan_actions import actions_of, preferences_of_plan
from memplace_env.envs.malloc_game.state import USE
from memplace_env.program.program import Ints

PERCENT = 100.0
"""Rewards are percents of the latency with everything in the backing memory."""
RANDOM_GAMES, FAR = 16, 2.0
"""Games that show how far random play is, and the latency over the best from which it is far; our choice. Where it is
near, as in BERT, imitation only keeps a policy from trying: it learns more from scratch."""


class GameEpisodes:
    """`count` games of `MallocGame` side by side; see `rollouts.Episodes`.

    Args:
        evaluator: counts the finished games.
        count: number of games.

    Attributes:
        best: int64[U], actions of the best game, those known without a search included; None before there is one.
        far: whether random games take more than `FAR` times as long as the best one known without a search.
    """

    inputs, actions = flat_space().shape[0], 3

    def __init__(self, evaluator: GameEvaluator, count: int) -> None:
        self._evaluator = evaluator
        self.problem = evaluator.env.problem
        self.entries = self.length = self.problem.num_decisions
        self._batch = GameBatch([self.problem] * count, [self.problem.first_state] * count, flat=True)
        self._rows = self._batch.observe()
        self.best: Ints | None = None
        self.far = False
        self._best_s = np.inf
        self._shown: Demonstration | None = None

    def begin(self) -> None:
        """Offer the plans of the rules, and play the games that follow them."""
        offer_cheap_plans(self._evaluator)
        plans = cheap_plans(self.problem).values()
        preferences = np.stack([preferences_of_plan(self.problem, plan) for plan in plans])
        self._offer(finished(self.problem, preferences)[: self._evaluator.remaining])
        states = self.problem.new_states(RANDOM_GAMES)
        self.problem.finish_randomly(states, 0)
        self.far = bool(self.problem.latency_s(states).mean() > FAR * self._best_s)

    def turn(self) -> Turn:
        """Return the present decisions."""
        return Turn(self._rows, self._batch.legal(), self._batch.heads[:, USE].copy())

    def step(self, actions: Ints) -> tuple[NDArray[np.float64], Bools]:
        """Play a decision in each game; finished games count while the budget lasts."""
        batch, self._rows = self._batch, self._batch.empty(len(actions))
        rewards = PERCENT * batch.step(actions, self._rows).gains / batch.all_backing_ps
        ended = batch.done()
        if ended.any():
            which = np.flatnonzero(ended)
            self._count(which[: self._evaluator.remaining], rewards)
            batch.begin(which, [self.problem] * len(which), [self.problem.first_state] * len(which))
            self._rows[which] = batch.observe(which)
        return rewards, ended

    def _count(self, counted: Ints, rewards: NDArray[np.float64]) -> None:
        """Count finished games; rewards take the difference to what a black box or a noisy measurement says."""
        problem, states = self.problem, self._batch.stacked(counted)
        latency_s = self._offer(states)
        if problem.task.is_black_box or self._evaluator.noisy:
            rewards[counted] += PERCENT * problem.return_correction(states, latency_s)

    def _offer(self, states: Ints) -> NDArray[np.float64]:
        """Count finished games, and keep the best; return their latencies in seconds."""
        latency_s = self._evaluator.offer_states(states)
        if len(latency_s) and latency_s.min() < self._best_s:
            self._best_s, self._shown = float(latency_s.min()), None
            self.best = actions_of(self.problem, self.problem.plan(states[latency_s.argmin()]))
        return latency_s

    def demonstration(self) -> Demonstration | None:
        """Return the decisions of the best game that have a choice, where random play is far from it; else None."""
        if self._shown is None and self.best is not None and self.far:
            seen = seen_along(self.problem, self.best)
            free = seen.legal.sum(axis=1) > 1
            if free.any():
                self._shown = Demonstration(Turn(*(column[free] for column in seen)), self.best[free])
        return self._shown

    def state_dict(self) -> dict[str, Any]:
        """Return the games under way and the best one."""
        best = None if self.best is None else {"actions": torch.from_numpy(self.best), "latency_s": self._best_s}
        return {"states": torch.from_numpy(np.stack(self._batch.states)), "best": best, "far": self.far}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Return to a state that `state_dict` gave."""
        go_on(self._batch, range(len(self._batch)), self.problem, state["states"])
        self._rows = self._batch.observe()
        self._shown = None
        self.best, self._best_s, self.far = None, np.inf, bool(whole(int(state["far"]), 0, 1))
        if (best := state["best"]) is not None:
            self.best = below(like(best["actions"], np.zeros(self.length, dtype=np.int64)), self.actions)
            self._best_s = number(best["latency_s"], 0.0)


def go_on(batch: GameBatch, which: Sequence[int], problem: MallocGameProblem, saved: Any) -> None:
    """Let games of a program go on from saved states, a tensor int64[n, size]; raise an error if they are none."""
    states = like(saved, problem.new_states(len(which)))
    batch.begin(which, [problem] * len(which), [problem.checked_state(state) for state in states])
