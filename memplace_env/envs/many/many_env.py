"""Base of the environments that draw another program in each episode."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, NoReturn

import gymnasium as gym
import numpy as np

from memplace_env._lib.errors import EnvError
from memplace_env.envs.arguments import checked_options, checked_seed
from memplace_env.envs.many.drawn import Drawn, checked_unit
from memplace_env.envs.many.draws import SYNTHETIC, draws_of
from memplace_env.envs.many.setting import Setting, without_state
from memplace_env.envs.placement_env import Observation, PlacementEnv
from memplace_env.placement.simulator import Simulator
from memplace_env.program.program import Ints


class ManyProgramsEnv(PlacementEnv[np.int64]):
    """An environment of one formulation that `reset` turns to a drawn program; stands before that in the bases.

    Attributes:
        draws: the distribution.
        unit: unit of rewards.
        setting: what the present episode plays.
        named: the part of infos that names it.
    """

    setting: Setting
    named: Mapping[str, Any]

    def _prepare(self, split: str, reward: str) -> None:
        """Set what drawing needs, before the other bases are set up.

        Raises:
            EnvError: for unknown names.
        """
        self.unit, self.draws = checked_unit(reward), draws_of(self.formulation, split)
        self._names_optimum = split == SYNTHETIC

    @abstractmethod
    def drawn(self, setting: Setting) -> Drawn[Any]:
        """Return the problem of a setting, shared by all environments of the process.

        Raises:
            MemPlaceError: naming what cannot be resolved.
        """

    @abstractmethod
    def first_of(self, drawn: Drawn[Any]) -> Ints:
        """Return the state int64[size] in which an episode of a drawn problem begins; read-only."""

    @abstractmethod
    def _turn_to(self, drawn: Drawn[Any]) -> None:
        """Make a drawn problem that of this environment."""

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Draw a setting, which the options narrow, and begin its episode.

        Raises:
            EnvError: for an invalid seed or invalid options.
            MemPlaceError: naming what options cannot be resolved.
        """
        checked = without_state(checked_options(options))
        gym.Env.reset(self, seed=checked_seed(seed))
        self.turn_to(self.drawn(self.draws.draw(self.np_random, checked)))
        observation, info = super().reset()
        return observation, {**info, **self.named}

    def step(self, action: Any) -> tuple[Observation, Any, bool, bool, dict[str, Any]]:
        """Take a step of the episode."""
        observation, reward, terminated, truncated, info = super().step(action)
        return observation, reward, terminated, truncated, {**info, **self.named}

    def with_simulator(self, simulator: Simulator) -> NoReturn:
        """Refuse: a simulator is equivalent to that of one program.

        Raises:
            EnvError: always.
        """
        raise EnvError("An environment of many programs has no simulator of its own; make that of one program.")

    def turn_to(self, drawn: Drawn[Any]) -> None:
        """Turn to a drawn problem; its episode begins with `reset` of the formulation's environment."""
        self.setting, self.named = drawn.setting, self.names_of(drawn)
        self._turn_to(drawn)

    def names_of(self, drawn: Drawn[Any]) -> dict[str, Any]:
        """Return the part of infos that names what is played."""
        return drawn.setting.info | (drawn.optimum(self.unit) if self._names_optimum else {})
