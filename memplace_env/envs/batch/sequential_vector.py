"""Vector environments of several decisions: a batch of episodes, of one program or of those that each draws."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, TypeVar

import numpy as np
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode
from numpy.typing import ArrayLike, NDArray

from memplace_env._lib.errors import EnvError
from memplace_env._lib.foreign import described
from memplace_env.envs.batch.batch import Batch
from memplace_env.envs.batch.sequential_env import SequentialEnv
from memplace_env.envs.batch.vector_env import Bools, Info, PlacementVectorEnv
from memplace_env.envs.placement_env import Observation, row_of
from memplace_env.program.program import Ints

Env = TypeVar("Env", bound=SequentialEnv[Any, Any])


class SequentialVectorEnv(PlacementVectorEnv[Env]):
    """`num_envs` episodes of a `SequentialEnv` in one.

    Environments with `programs` draw theirs from a stream each, seeded as Gymnasium's `SyncVectorEnv` seeds its
    environments, whenever an episode begins. Options of `reset` hold for the episodes that it begins.

    Args:
        num_envs: number of episodes.
        max_episode_steps: ignored; episodes have a fixed length.
        autoreset_mode: see `PlacementVectorEnv`.
        copy: whether each step returns new arrays; with False they are overwritten by the next step, which saves the
            time to allocate them.
        arguments: those of the single environment.

    Attributes:
        batch: the episodes.
        problem: the problem of all episodes; None with `programs`.
    """

    single: ClassVar[type[SequentialEnv[Any, Any]]]
    """Class of the single environment."""

    def __init__(
        self,
        num_envs: int,
        max_episode_steps: int | None = None,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        copy: bool = True,
        **arguments: Any,
    ) -> None:
        del max_episode_steps
        env: Any = self.single(**arguments)
        problem, start, scale = env.problem, env.start_of(env.problem), env.scale
        one = env.new_batch([problem], [start])
        seen = env.form_of(one.observe())
        arrays = seen.values() if isinstance(seen, dict) else [seen]
        super().__init__(num_envs, env, autoreset_mode, one.nbytes + sum(array.nbytes for array in arrays))
        self.problem = problem if env.programs is None else None
        self.batch: Batch[Any] = env.new_batch([problem] * self.num_envs, [start] * self.num_envs)
        self._scale = np.full(self.num_envs, scale)
        self._generators: list[np.random.Generator | None] = [None] * self.num_envs
        self._reused = None if copy else self.batch.observe()

    @property
    def states(self) -> list[Ints]:
        """The states, int64[size] each."""
        return self.batch.states

    @property
    def n_steps(self) -> int:
        """Steps of an episode, about; of episodes of several programs their mean, rounded up."""
        steps = [self.env.steps_of(problem) for problem in self.batch.problems]
        return -(-sum(steps) // len(steps))

    def preload(self) -> None:
        """Load all programs of a split, see `SequentialEnv.preload`."""
        self.env.preload()

    def action_masks(self) -> NDArray[np.bool_]:
        """Return bool[B, 3], the legal actions of every episode."""
        return self.batch.legal()

    def sample_mask(self) -> tuple[NDArray[np.int8], ...]:
        """Return the same as int8[3] for each episode, in the form that `action_space.sample` takes."""
        return tuple(self.action_masks().astype(np.int8))

    def _play(self, actions: ArrayLike, live: Bools) -> tuple[Observation, NDArray[np.float64], Bools, Info]:
        checked = self.env.checked_actions(actions, (self.num_envs,))
        seen = self.batch.empty(self.num_envs) if self._reused is None else self._reused
        rewards, info = self.env.play(self.batch, checked, self._scale, seen)
        return self.env.form_of(seen), rewards, self.batch.done() & live, info

    def _begin(self, which: Bools, options: Mapping[str, Any], seeds: Sequence[int | None]) -> Info:
        rows, env, problems = np.flatnonzero(which).tolist(), self.env, self.batch.problems
        option_states = self._checked_starts(options, rows)
        if env.programs is not None:
            # All are drawn and made before the first begins, so that a wrong option leaves everything as it was.
            drawn = [env.drawn(env.programs.draw(self._generator(row, seeds[row]), options)) for row in rows]
            for row, one in zip(rows, drawn, strict=True):
                self._scale[row] = env.scale_of(one)
                for key, value in env.info_of(one).items():
                    self._episode_info[key][row] = value
            begun = [one.problem for one in drawn]
        else:
            begun = [problems[row] for row in rows]
        starts = [env.start_of(*pair) for pair in zip(begun, option_states, strict=True)]
        self.batch.begin(rows, begun, starts)
        info = env.first_infos(self.batch)
        for row, state in zip(rows, option_states, strict=True):
            if state is not None and "skipped" in info:
                info["skipped"][row] -= state[self.batch.DECIDED]
        return info

    def _generator(self, row: int, seed: int | None) -> np.random.Generator:
        """Return the random stream of an environment, begun anew if there is a seed."""
        generator = self._generators[row]
        if generator is None or seed is not None:
            generator = self._generators[row] = seeding.np_random(seed)[0]
        return generator

    def _checked_starts(self, options: Mapping[str, Any], rows: list[int]) -> list[Ints | None]:
        """Return the given state from which each of the episodes `rows` begins, None for its start.

        Raises:
            EnvError: if no decisions lead to a state, or it is the end of an episode.
        """
        state = options.get("state")
        if state is None or self.problem is None or (isinstance(state, np.ndarray) and state.ndim == 1):
            return [self.env.checked_start(options)] * len(rows)
        if not isinstance(state, list | tuple | np.ndarray) or len(state) != self.num_envs:
            raise EnvError(
                f"options['state'] is one state int64[{self.problem.size}] for all environments, or a list or array of "
                f"{self.num_envs}, one for each, not {described(state)}."
            )
        return [self.problem.checked_start(state[row]) for row in rows]

    def _observe(self) -> Observation:
        return self.env.form_of(self.batch.observe(into=self._reused))

    def _show(self, which: Ints, observations: Observation) -> None:
        first: Any = self.env.form_of(self.batch.observe(which))
        if isinstance(observations, dict):
            for key, array in observations.items():
                array[which] = first[key]
        else:
            observations[which] = first

    def _row(self, observations: Observation, index: int) -> Observation:
        return row_of(observations, index)
