"""Games side by side, each finished one counted by the search's evaluator."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from memplace_agents.cheap_plans import cheap_plans, offer_cheap_plans
from memplace_agents.evaluator import GameEvaluator
from memplace_agents.game.preferences import finished
from memplace_agents.learning.on_policy import Demonstration
from memplace_agents.learning.rollouts import Bools, Turn
from memplace_agents.learning.saved_tensors import below, like
from memplace_agents.saved_values import number
from memplace_env.envs.malloc_game.flat import empty_flat, flat_space
from memplace_env.envs.malloc_game.plan_actions import actions_of, preferences_of_plan
from memplace_env.envs.malloc_game.state import USE
from memplace_env.program.program import Ints

PERCENT = 100.0
"""Rewards are percents of the latency with everything in the backing memory."""


class GameEpisodes:
    """`count` games of `MallocGame` side by side; see `rollouts.Episodes`.

    Args:
        evaluator: counts the finished games.
        count: number of games.
        skip_forced: whether decisions with a single legal action are played without asking.

    Attributes:
        best: int64[U], actions of the best game, those known without a search included; None before there is one.
    """

    inputs, actions = flat_space().shape[0], 3

    def __init__(self, evaluator: GameEvaluator, count: int, skip_forced: bool = False) -> None:
        self._evaluator, self._skip_forced = evaluator, skip_forced
        self.problem = evaluator.env.problem
        self.entries = self.length = self.problem.num_decisions
        self._first = self.problem.first_choice if skip_forced else self.problem.first_state
        self._set(np.repeat(self._first[None], count, axis=0))
        self.best: Ints | None = None
        self._best_s = np.inf

    def _set(self, states: Ints) -> None:
        self._states, self._profiles = states, self.problem.profiles(states, flat=True)
        self._rows = self.problem.observe_flat(states)

    def begin(self) -> None:
        """Offer the plans of the rules, and play the games that follow them."""
        offer_cheap_plans(self._evaluator)
        plans = cheap_plans(self.problem).values()
        preferences = np.stack([preferences_of_plan(self.problem, plan) for plan in plans])
        self._offer(finished(self.problem, preferences)[: self._evaluator.remaining])

    def turn(self) -> Turn:
        """Return the present decisions."""
        return Turn(self._rows, self.problem.legal(self._states), self._states[:, USE].copy())

    def step(self, actions: Ints) -> tuple[NDArray[np.float64], Bools]:
        """Play a decision in each game; finished games count while the budget lasts."""
        problem, states = self.problem, self._states
        rows = empty_flat(len(states))
        gains = problem.step(states, actions, self._profiles, rows, self._skip_forced)[0]
        rewards = PERCENT * gains / problem.all_backing_ps
        ended = problem.done(states)
        if ended.any():
            which = np.flatnonzero(ended)
            counted = which[: self._evaluator.remaining]
            latency_s = self._offer(states[counted])
            if problem.task.is_black_box or self._evaluator.noisy:
                rewards[counted] += PERCENT * problem.return_correction(states[counted], latency_s)
            states[which] = self._first
            self._profiles[which] = problem.profiles(self._first[None], flat=True)
            rows[which] = problem.observe_flat(self._first[None])
        self._rows = rows
        return rewards, ended

    def _offer(self, states: Ints) -> NDArray[np.float64]:
        """Count finished games, and keep the best; return their latencies in seconds."""
        latency_s = self._evaluator.offer_states(states)
        if len(latency_s) and latency_s.min() < self._best_s:
            self._best_s = float(latency_s.min())
            self.best = actions_of(self.problem, self.problem.plan(states[latency_s.argmin()]))
        return latency_s

    def demonstration(self) -> Demonstration | None:
        """Return the decisions of the best game that have a choice."""
        if self.best is None:
            return None
        problem, states = self.problem, self.problem.new_states(1)
        profiles, rows, turns = problem.profiles(states, flat=True), problem.observe_flat(states), []
        for use in range(self.length):
            legal = problem.legal(states)[0]
            if legal.sum() > 1:
                turns.append((rows[0].copy(), legal, use))
            problem.step(states, self.best[use : use + 1], profiles, rows)
        if not turns:
            return None
        turn = Turn(*(np.array(column) for column in zip(*turns, strict=True)))
        return Demonstration(turn, self.best[turn.entry])

    def state_dict(self) -> dict[str, Any]:
        """Return the games under way and the best one."""
        best = None if self.best is None else {"actions": torch.from_numpy(self.best), "latency_s": self._best_s}
        return {"states": torch.from_numpy(self._states), "best": best}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Return to a state that `state_dict` gave."""
        states = like(state["states"], self._states)
        for row in states:
            self.problem.known.check(row)
        self._set(states)
        self.best, self._best_s = None, np.inf
        if (best := state["best"]) is not None:
            self.best = below(like(best["actions"], np.zeros(self.length, dtype=np.int64)), self.actions)
            self._best_s = number(best["latency_s"], 0.0)
