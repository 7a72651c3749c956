"""Games of an environment that draws its programs: several programs at a time, for training alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from memplace_agents.learning.rollouts import Bools, Turn
from memplace_agents.plan_gradient.in_turn.game_episodes import GameEpisodes
from memplace_agents.saved_values import load_random, random_state
from memplace_agents.search.cheap_plans import offer_cheap_plans
from memplace_agents.search.evaluator import GameEvaluator
from memplace_env.envs.malloc_game import MallocGameEnv
from memplace_env.envs.many.draws import Draws
from memplace_env.envs.many.many_games import drawn_game
from memplace_env.envs.many.setting import Setting
from memplace_env.program.program import Ints

TOGETHER = 8
"""Programs that are played side by side; our choice."""


class _Part(NamedTuple):
    """Games of one drawn program: its setting, and the factor of rewards."""

    setting: Setting
    games: GameEpisodes
    scale: float


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
        self._evaluator, self._rng = evaluator, np.random.default_rng(seed)
        self._draws: Draws = evaluator.env.draws  # type: ignore[attr-defined]
        self._counts = [len(part) for part in np.array_split(np.arange(count), min(TOGETHER, count))]
        self._parts = [self._drawn(part, {}) for part in self._counts]

    def _drawn(self, count: int, options: Mapping[str, Any]) -> _Part:
        setting = self._draws.draw(self._rng, options)
        drawn = drawn_game(setting)
        evaluator = GameEvaluator(MallocGameEnv(drawn.problem.task), budget=count)
        return _Part(setting, GameEpisodes(evaluator, count), 1 / drawn.gain)

    def begin(self) -> None:
        """Offer the plans of the rules for the environment's own program."""
        offer_cheap_plans(self._evaluator)

    def demonstration(self) -> None:
        """Return None: the programs are left again."""

    def turn(self) -> Turn:
        """Return the present decisions."""
        observation, legal, _ = zip(*(part.games.turn() for part in self._parts), strict=True)
        return Turn(np.concatenate(observation), np.concatenate(legal), np.zeros(sum(self._counts), dtype=np.int64))

    def step(self, actions: Ints) -> tuple[NDArray[np.float64], Bools]:
        """Play a decision in each game; finished games count while the budget lasts."""
        rewards, ended = [], []
        for index, some in enumerate(np.split(actions, np.cumsum(self._counts)[:-1])):
            part = self._parts[index]
            reward, over = part.games.step(some)
            rewards.append(reward * part.scale)
            ended.append(over)
            if over.all():  # games of one program have the same length
                self._evaluator.spend(min(len(over), self._evaluator.remaining))
                self._parts[index] = self._drawn(len(over), {})
        return np.concatenate(rewards), np.concatenate(ended)

    def state_dict(self) -> dict[str, Any]:
        """Return the programs and their games under way."""
        parts = [{"setting": part.setting.options, "games": part.games.state_dict()} for part in self._parts]
        return {"random": random_state(self._rng), "parts": parts}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Return to a state that `state_dict` gave."""
        saved: Sequence[dict[str, Any]] = state["parts"]
        for index, (count, part) in enumerate(zip(self._counts, saved, strict=True)):
            self._parts[index] = self._drawn(count, part["setting"])
            self._parts[index].games.load_state_dict(part["games"])
        load_random(self._rng, state["random"])
