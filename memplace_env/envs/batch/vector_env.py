"""Base of the vector environments: autoreset modes, and the form of infos."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Generic, TypeVar

import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import ArrayLike, NDArray

from memplace_env._lib.errors import EnvError
from memplace_env._lib.foreign import described
from memplace_env._lib.threads import cached_property
from memplace_env.envs.arguments import checked_count, checked_options, checked_seed
from memplace_env.envs.placement_env import Observation, PlacementEnv
from memplace_env.program.program import Ints

Env = TypeVar("Env", bound=PlacementEnv[Any])
Bools = NDArray[np.bool_]
Info = dict[str, NDArray[Any]]


class PlacementVectorEnv(VectorEnv[Observation, NDArray[np.int64], NDArray[Any]], Generic[Env]):
    """`num_envs` copies of an environment in one, played by compiled kernels on all cores.

    Equal to Gymnasium's `SyncVectorEnv` of the same environment in the same mode: observations, rewards, flags, infos.

    Args:
        num_envs: number of copies.
        env: a single environment, whose task all copies share.
        bytes_each: memory that each copy takes.
        autoreset_mode: when an episode that ended begins anew: `NEXT_STEP` (by the next step, whose action is ignored
            and whose reward is 0), `SAME_STEP` (at once; infos have the last observation and info as `final_obs` and
            `final_info`) or `DISABLED` (by `reset(options={"reset_mask": bool[num_envs]})`). The default is NEXT_STEP,
            as in Gymnasium: `vectorization_mode="sync"` then gives the same, and some of its vector wrappers take no
            other mode.

    Raises:
        EnvError: for an invalid number or mode, more copies than memory can hold, a render mode, as a batch draws
            nothing, or graphs.
    """

    metadata = {"render_modes": [], "autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012

    def __init__(self, num_envs: int, env: Env, autoreset_mode: AutoresetMode | str, bytes_each: int) -> None:
        if env.graph:
            raise EnvError("A native vector environment shows no graphs; pass vectorization_mode='sync', too.")
        if env.render_mode is not None:
            raise EnvError(
                f"A vector environment draws nothing, so it has no render_mode={env.render_mode!r}; leave it out, or "
                "pass vectorization_mode='sync' to draw each environment."
            )
        self.num_envs = checked_count(num_envs, bytes_each)
        try:
            self.autoreset_mode = AutoresetMode(autoreset_mode)
        except Exception as error:  # comparing or showing a foreign object may raise anything
            modes = ", ".join(repr(mode.value) for mode in AutoresetMode)
            raise EnvError(f"autoreset_mode must be one of {modes}, not {described(autoreset_mode)}.") from error
        self.env, self.formulation = env, env.formulation
        self.metadata = {**self.metadata, "autoreset_mode": self.autoreset_mode}
        self.single_observation_space = env.observation_space
        self.single_action_space = env.action_space
        self._first_info = env.reset()[1]
        self._episode_info = {key: blank_info(value, self.num_envs) for key, value in env.episode_info.items()}
        for key, value in env.episode_info.items():
            self._episode_info[key][:] = value
        self._ended = np.zeros(self.num_envs, dtype=bool)

    @property
    def n_steps(self) -> int:
        """Steps of an episode, about; of episodes of several programs their mean."""
        return self.env.n_steps

    @property
    def mask_slice(self) -> slice | None:
        """The part of a flat observation that is the action mask; None if it has none."""
        return self.env.mask_slice

    @cached_property
    def observation_space(self) -> spaces.Space[Any]:  # type: ignore[override]
        """Batched space; made on demand, since its bounds alone take as much memory as the observations."""
        return batch_space(self.single_observation_space, self.num_envs)

    @cached_property
    def action_space(self) -> spaces.Space[Any]:  # type: ignore[override]
        """Batched space, made on demand."""
        return batch_space(self.single_action_space, self.num_envs)

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin all episodes, or those of `options["reset_mask"]`, bool[num_envs].

        Environments that draw nothing ignore the seeds; the others begin a stream each, from `seed + i` or `seed[i]`.
        `options["state"]`, in games and steps: one state from which all of them begin, or a list or array of
        `num_envs` states. Episodes that follow by autoreset begin at their start.

        Raises:
            EnvError: for invalid seeds, options, masks or states.
        """
        checked = checked_options(options)
        which, seeds = self._checked_mask(checked.get("reset_mask")), self._checked_seeds(seed)
        begun = self._begin(which, checked, seeds)
        super().reset(seed=seeds[0])
        self._ended &= ~which  # only now: an option may name a program that does not exist
        info = {key: blank_info(value, self.num_envs) for key, value in self._first_info.items()}
        self._write_first_info(info, begun, which)
        return self._observe(), _with_masks(info, which)

    def step(
        self, actions: ArrayLike
    ) -> tuple[Observation, NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        """Play an action in every environment.

        Returns:
            Observations, rewards float64[B], terminations, truncations (all False), and infos as arrays.

        Raises:
            ActionError: if the actions have the wrong shape, dtype or range.
            EnvError: if an episode has ended and was not begun anew (`DISABLED`).
        """
        idle = self._ended
        if self.autoreset_mode == AutoresetMode.DISABLED and idle.any():
            raise EnvError(
                f"The episodes {np.flatnonzero(idle).tolist()} have ended; begin them anew by "
                "reset(options={'reset_mask': terminations}), or choose another autoreset_mode."
            )
        observations, rewards, over, info = self._play(actions, ~idle)
        info |= {key: values.copy() for key, values in self._episode_info.items()}
        if idle.any():
            self._begin_anew(idle, observations, info)
        infos: dict[str, Any] = {}
        self._ended = over.copy()
        if self.autoreset_mode == AutoresetMode.SAME_STEP and over.any():
            infos = self._final(observations, info, over)
            self._begin_anew(over, observations, info)
            self._ended[:] = False
        return observations, rewards, over, np.zeros_like(over), infos | _with_masks(info, np.ones_like(over))

    @abstractmethod
    def _play(self, actions: ArrayLike, live: Bools) -> tuple[Observation, NDArray[np.float64], Bools, Info]:
        """Return observations, rewards, terminations and infos after an action in the `live` environments.

        All are new arrays of length B. The other environments get reward 0 and do not end; the rest is arbitrary there.
        """

    @abstractmethod
    def _begin(self, which: Bools, options: Mapping[str, Any], seeds: Sequence[int | None]) -> Info:
        """Begin the episodes `which` bool[B] anew; return infos about their first states, arrays of length B.

        Only the rows `which` of the infos are read; what is left out is as in the single environment.

        Args:
            which: the episodes.
            options: options of `reset`; empty for episodes that follow by autoreset.
            seeds: a seed for each environment, or None where its random stream goes on.

        Raises:
            EnvError: for invalid options; nothing has begun then.
        """

    def _begin_anew(self, which: Bools, observations: Observation, info: Info) -> None:
        """Begin the episodes `which` anew, and write their first observations and infos."""
        self._write_first_info(info, self._begin(which, {}, [None] * self.num_envs), which)
        self._show(np.flatnonzero(which), observations)

    @abstractmethod
    def _show(self, which: Ints, observations: Observation) -> None:
        """Write the present observations of the environments `which` int64[n] into their rows."""

    @abstractmethod
    def _observe(self) -> Observation:
        """Return the present observations of all environments."""

    @abstractmethod
    def _row(self, observations: Observation, index: int) -> Observation:
        """Return one row of the observations that later steps do not change."""

    def _write_first_info(self, info: Info, begun: Info, which: Bools) -> None:
        for key, value in (self._first_info | self._episode_info | begun).items():
            info[key][which] = value[which] if isinstance(value, np.ndarray) else value

    def _final(self, observations: Observation, info: Info, over: Bools) -> dict[str, Any]:
        last = np.full(self.num_envs, None, dtype=object)
        for index in np.flatnonzero(over):
            last[index] = self._row(observations, int(index))
        final = {key: value.copy() for key, value in info.items()}
        for value in final.values():
            value[~over] = None if value.dtype == object else 0
        return _with_masks({"final_obs": last}, over) | _with_masks({"final_info": _with_masks(final, over)}, over)

    def _checked_seeds(self, seed: Any) -> list[int | None]:
        """Return a seed for each environment; one integer is the seed of the first, the others count on."""
        if not isinstance(seed, list | tuple) and not (isinstance(seed, np.ndarray) and seed.ndim):
            first = checked_seed(seed)
            return [None if first is None else first + index for index in range(self.num_envs)]
        if len(seed) != self.num_envs:
            raise EnvError(
                f"There are {len(seed)} seeds for {self.num_envs} environments; pass one each, or one integer."
            )
        return [checked_seed(value) for value in seed]

    def _checked_mask(self, mask: Any) -> Bools:
        if mask is None:
            return np.ones(self.num_envs, dtype=bool)
        if not isinstance(mask, np.ndarray) or mask.dtype != bool or mask.shape != (self.num_envs,) or not mask.any():
            raise EnvError(
                f"reset_mask is a boolean array of shape ({self.num_envs},) with a True in it, not {described(mask)}."
            )
        return mask


def blank_info(value: Any, count: int) -> NDArray[Any]:
    """Return the array of an info like `value` that no environment has yet: of zeros, or None where it is no number."""
    if isinstance(value, np.ndarray):
        return np.zeros((count, *value.shape), dtype=value.dtype)
    if isinstance(value, int | float | np.number):
        return np.zeros(count, dtype=type(value))
    return np.full(count, None, dtype=object)


def _with_masks(info: dict[str, Any], present: Bools) -> dict[str, Any]:
    """Return infos in Gymnasium's form: under each key arrays, and under `_key` the rows that have it."""
    return info | {f"_{key}": present.copy() for key in info}
