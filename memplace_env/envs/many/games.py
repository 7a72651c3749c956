"""The game with another program in each episode."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple

import gymnasium as gym

from memplace_env._lib.errors import EnvError
from memplace_env._lib.foreign import described
from memplace_env._lib.units import PS
from memplace_env.envs.arguments import checked_options, checked_seed
from memplace_env.envs.malloc_game.env import MallocGameEnv
from memplace_env.envs.malloc_game.problem import MallocGameProblem
from memplace_env.envs.many.draws import SYNTHETIC, draws_of
from memplace_env.envs.many.game_rows import rows_of
from memplace_env.envs.many.setting import Setting, known_settings, without_state
from memplace_env.envs.many.unit import MOST_LOADED, gain_scale, optimum_infos
from memplace_env.envs.placement_env import Observation
from memplace_env.envs.registration import Formulation
from memplace_env.placement.synthetic import planted_optimum_ps
from memplace_env.program.program import Ints

REWARDS: Final = ("gain", "percent")
"""Names of rewards."""


class DrawnGame(NamedTuple):
    """The game of a setting, with what its rewards and infos need.

    Attributes:
        setting: the setting.
        problem: its game.
        rows: see `game_rows.rows_of`.
        scale: factor of rewards by name, from fractions of the latency with everything in the backing memory.
        optimal_s: latency of a planted optimum, seconds; None where none is known.
    """

    setting: Setting
    problem: MallocGameProblem
    rows: tuple[Ints, ...]
    scale: Mapping[str, float]
    optimal_s: float | None

    @property
    def backing_s(self) -> float:
        """Latency with everything in the backing memory, seconds."""
        return self.problem.all_backing_ps * PS


@lru_cache(maxsize=MOST_LOADED)
def drawn_game(setting: Setting) -> DrawnGame:
    """Return the game of a setting, made once and shared by all environments of the process.

    Raises:
        MemPlaceError: naming what cannot be resolved.
    """
    problem = MallocGameProblem(setting.task())
    optimum_ps = planted_optimum_ps(problem.task)
    optimal_s = None if optimum_ps is None else optimum_ps * PS
    known = known_settings(Formulation.GAME).get(setting)
    if known is not None:
        best_s = known.cheap_s
    elif optimal_s is not None:
        best_s = optimal_s
    else:
        states = problem.new_states(1)
        problem.finish_greedily(states)
        best_s = problem.latency_s(states).item()
    scale = {"gain": gain_scale(problem.all_backing_ps * PS, best_s), "percent": 100.0}
    return DrawnGame(setting, problem, rows_of(problem), scale, optimal_s)


class MallocGameManyEnv(MallocGameEnv):
    """Play mallocGame on programs that `reset` draws, one for all of them in spaces that never change.

    ## Description
    Everything is as in `MallocGameEnv`, but each `reset` draws a program, its batch, dims and dtype, and a chip, from
    the environment's own generator. `many.draws` says how; docs/environments.md counts what there is. Before the first
    `reset` the program is the first of the list.

    ## Reward
    `reward="gain"` (default): the drop of the estimated latency, in percent of what the best cheap plan of this program
    gains over everything in the backing memory: a return of 100 is as good as that plan, more is better. Cheap plans
    are those of XLA's solver with its public options and of the greedy player; of programs outside the list the greedy
    player alone; of synthetic ones the planted optimum is 100. A gain below 1 % of the latency counts as 1 %, so that
    no reward grows beyond all bounds. `"percent"`: as `MallocGameEnv`, in percent of the latency with everything in
    the backing memory. Both telescope, so learn with gamma = 1.

    ## Options of `reset`
    `program`, `accelerator`, `batch`, `dims`, `dtype`: what is drawn agrees with those given. If nothing of the split
    does, the setting is what they say and need not belong to the split, with defaults as in `gym.make`.

    ## Info
    As `MallocGameEnv`, and the setting: `program`, `accelerator`, `dims` and `dtype` as texts, `batch` as a number, 0
    where it is fixed. `env.unwrapped.setting.options` are the options that draw it again. The synthetic distribution
    adds `optimal_latency_s` and `optimal_return`, NaN if no optimum is planted on this chip.

    ## Arguments
    `split`: "train", "validation", "test" or "synthetic". `render_mode`, `observation`: as `MallocGameEnv`. `reward`:
    see above. `skip_forced`: as there, but on by default.

    ## Version history
    - v0: first version.
    """

    def __init__(
        self,
        split: str = "train",
        render_mode: str | None = None,
        observation: str = "dict",
        reward: str = "gain",
        skip_forced: bool = True,
    ) -> None:
        if reward not in REWARDS:
            raise EnvError(f"reward must be one of {', '.join(REWARDS)}, not {described(reward)}.")
        self.draws, self.reward, self._names_optimum = draws_of(Formulation.GAME, split), reward, split == SYNTHETIC
        first = drawn_game(self.draws.first)
        task = first.problem.task
        super().__init__(task, "", render_mode, observation, "percent", skip_forced=skip_forced)
        self._turn_to(first)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Draw a setting, see above, and begin its game.

        Raises:
            EnvError: for an invalid seed or invalid options.
            MemPlaceError: naming what options cannot be resolved.
        """
        checked = without_state(checked_options(options))
        gym.Env.reset(self, seed=checked_seed(seed))
        self._turn_to(drawn_game(self.draws.draw(self.np_random, checked)))
        observation, info = super().reset()
        return observation, info | self.named

    def step(self, action: Any) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Play one decision; see `MallocGameEnv.step`."""
        observation, reward, terminated, truncated, info = super().step(action)
        return observation, reward, terminated, truncated, info | self.named

    def info_of(self, game: DrawnGame) -> dict[str, Any]:
        """Return the part of infos that names what is played."""
        optimum = optimum_infos(game.optimal_s, game.backing_s, game.scale[self.reward]) if self._names_optimum else {}
        return game.setting.info | optimum

    def _turn_to(self, game: DrawnGame) -> None:
        self.setting, self.problem, self.task = game.setting, game.problem, game.problem.task
        self.reward_scale, self.named = game.scale[self.reward], self.info_of(game)
        self._states = self.problem.new_states(1)
