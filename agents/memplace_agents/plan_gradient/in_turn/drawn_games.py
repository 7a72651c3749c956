"""Games of an environment that draws its programs: several programs at a time, for training alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from memplace_agents.learning.rollouts import Bools, Turn
from memplace_agents.plan_gradient.in_turn.game_episodes import PERCENT, GameEpisodes, go_on
from memplace_agents.saved_values import load_random, random_state
from memplace_agents.search.cheap_plans import offer_cheap_plans
from memplace_agents.search.evaluator import GameEvaluator
from memplace_env.envs.malloc_game import GameBatch, MallocGameProblem
from memplace_env.envs.malloc_game.env import drawn_game
from memplace_env.envs.many.drawn import Drawn
from memplace_env.program.program import Ints

TOGETHER = 8
"""Programs that are played side by side; our choice."""


class DrawnGames:
    """`count` games side by side, of programs that give way to others when their games end; see `rollouts.Episodes`.

    Games of all programs count; the plan of the search is that of the rules for the environment's own program. Rewards
    are percents of the gain of the best rule's plan, as gains differ by orders of magnitude between programs.

    Args:
        evaluator: evaluator of the environment that draws.
        count: number of games.
        seed: seed of the programs drawn.
    """

    entries, length = 0, 512
    inputs, actions = GameEpisodes.inputs, GameEpisodes.actions

    def __init__(self, evaluator: GameEvaluator, count: int, seed: int) -> None:
        assert evaluator.env.programs is not None
        self._evaluator, self._rng, self._draws = evaluator, np.random.default_rng(seed), evaluator.env.programs
        self._groups = np.array_split(np.arange(count), min(TOGETHER, count))  # games of one program each
        self._drawn = [self._draw({}) for _ in self._groups]
        problems = [one.problem for one, group in zip(self._drawn, self._groups, strict=True) for _ in group]
        self._batch = GameBatch(problems, [problem.first_state for problem in problems], flat=True)
        self._rows = self._batch.observe()

    def _draw(self, options: Mapping[str, Any]) -> Drawn[MallocGameProblem]:
        return drawn_game(self._draws.draw(self._rng, options))

    def begin(self) -> None:
        """Offer the plans of the rules for the environment's own program."""
        offer_cheap_plans(self._evaluator)

    def demonstration(self) -> None:
        """Return None: the programs are left again."""

    def turn(self) -> Turn:
        """Return the present decisions."""
        return Turn(self._rows, self._batch.legal(), np.zeros(len(self._batch), dtype=np.int64))

    def step(self, actions: Ints) -> tuple[NDArray[np.float64], Bools]:
        """Play a decision in each game; finished games count while the budget lasts."""
        batch, self._rows = self._batch, self._batch.empty(len(actions))
        scale = np.repeat([1 / one.gain for one in self._drawn], [len(group) for group in self._groups])
        rewards = PERCENT * batch.step(actions, self._rows).gains / batch.all_backing_ps * scale
        ended = batch.done()
        for index, group in enumerate(self._groups):
            if ended[group].all():  # games of one program have the same length
                self._evaluator.spend(min(len(group), self._evaluator.remaining))
                self._drawn[index] = self._draw({})
                problem = self._drawn[index].problem
                batch.begin(group, [problem] * len(group), [problem.first_state] * len(group))
                self._rows[group] = batch.observe(group)
        return rewards, ended

    def state_dict(self) -> dict[str, Any]:
        """Return the programs and their games under way."""
        parts = [
            {"setting": one.setting.options, "states": torch.from_numpy(self._batch.stacked(group))}
            for one, group in zip(self._drawn, self._groups, strict=True)
        ]
        return {"random": random_state(self._rng), "parts": parts}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Return to a state that `state_dict` gave."""
        for index, (group, part) in enumerate(zip(self._groups, state["parts"], strict=True)):
            self._drawn[index] = self._draw(part["setting"])
            go_on(self._batch, group.tolist(), self._drawn[index].problem, part["states"])
        self._rows = self._batch.observe()
        load_random(self._rng, state["random"])
