"""A player of environments that draw their programs: one program after the other, for training alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from memplace_agents.muzero.muzero_config import MuZeroConfig
from memplace_agents.muzero.muzero_rollout import MuZeroRollout, RolloutTargets
from memplace_agents.muzero.networks import MuZeroNetwork
from memplace_agents.muzero.player import MuZeroPlayer
from memplace_agents.muzero.trainer import BestGame
from memplace_agents.saved_values import whole
from memplace_agents.search.cheap_plans import offer_cheap_plans
from memplace_agents.search.evaluator import GameEvaluator
from memplace_env._lib.units import ceil_div
from memplace_env.envs.malloc_game.env import MallocGameEnv, drawn_game
from memplace_env.envs.many.setting import Setting


class DrawnPlayer:
    """Plays each drawn program for the rounds that its games take, and leaves it for the next.

    Games of all programs count; the plan of the search is that of the rules for the environment's own program.

    Args:
        config: every constant; the tree alone plays.
        evaluator: evaluator of the environment that draws.
        seed: has no effect.

    Attributes:
        evaluator: as passed in.
        player: of the present program; None before the first.
    """

    def __init__(self, config: MuZeroConfig, evaluator: GameEvaluator, seed: int = 0) -> None:
        self._config, self.evaluator = replace(config, first_games=0, sampling=0.0, annealing=0.0), evaluator
        assert evaluator.env.programs is not None
        self._draws = evaluator.env.programs
        self.player: MuZeroPlayer | None = None
        self._rounds_left = self._counted = 0

    @property
    def done(self) -> bool:
        """True if budget or time is spent."""
        return self.evaluator.remaining <= 0

    def begin(self, network: MuZeroNetwork | None) -> None:
        """Evaluate the plans of the rules for the environment's own program."""
        offer_cheap_plans(self.evaluator)

    def advance(self, rng: np.random.Generator) -> bool:
        """Return True: a drawn program is played with search alone."""
        return True

    def computes(self, network: MuZeroNetwork) -> bool:
        """Return whether a network's outputs for the first decision of the environment's own program are finite."""
        return MuZeroPlayer(self._config, self.evaluator).computes(network)

    def play(self, network: MuZeroNetwork, rng: np.random.Generator) -> MuZeroRollout | None:
        """Play a round of decisions with search; None if budget or time ended it."""
        if self.player is None or self._rounds_left == 0:
            self._turn_to(self._draws.draw(rng, {})).begin(None)
        assert self.player is not None
        self._rounds_left -= 1
        rollout = self.player.play(network, rng)
        self.evaluator.spend(self.player.evaluator.evaluations - self._counted)
        self._counted = self.player.evaluator.evaluations
        return rollout

    def _turn_to(self, setting: Setting) -> MuZeroPlayer:
        """Begin with a drawn program; return its player, whose games count here, too."""
        env = MallocGameEnv(drawn_game(setting).problem.task)
        self._setting = setting
        self.player = MuZeroPlayer(self._config, GameEvaluator(env, budget=max(self.evaluator.remaining, 1)))
        self._rounds_left = ceil_div(env.problem.num_decisions, self._config.decisions)
        self._counted = 0
        return self.player

    @property
    def demonstration(self) -> BestGame | None:
        """The best game of the present program; None before the first."""
        return None if self.player is None else self.player.demonstration

    def targets(self, rollout: MuZeroRollout) -> RolloutTargets:
        """Return what a rollout of the present program teaches."""
        assert self.player is not None
        return self.player.targets(rollout)

    def scalars(self) -> dict[str, float]:
        """Return the figures of the last round, by TensorBoard tag."""
        return {} if self.player is None else self.player.scalars()

    def state_dict(self) -> dict[str, Any]:
        """Return all that the player remembers, as plain values."""
        now = self.player and {"setting": self._setting.options, "player": self.player.state_dict()}
        return {"evaluator": self.evaluator.state_dict(), "rounds_left": self._rounds_left, "now": now}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Return to a state that `state_dict` gave."""
        self.evaluator.load_state_dict(state["evaluator"])
        if state["now"] is not None:
            player = self._turn_to(self._draws.draw(np.random.default_rng(0), state["now"]["setting"]))
            player.load_state_dict(state["now"]["player"])
            player.evaluator.budget += player.evaluator.evaluations
            self._counted = player.evaluator.evaluations
        self._rounds_left = whole(state["rounds_left"])
