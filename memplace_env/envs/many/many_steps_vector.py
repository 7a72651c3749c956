"""A batch of steps of different programs, decided and observed by compiled kernels on all cores."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import ArrayLike, NDArray

from memplace_env._lib.threads import in_chunks
from memplace_env._lib.units import PS
from memplace_env.envs.many.drawn import Drawn
from memplace_env.envs.many.many_steps import StepsManyEnv, saved_fractions
from memplace_env.envs.many.many_vector import ManyProgramsVectorEnv
from memplace_env.envs.many.steps_rows import observe_episodes, step_episodes
from memplace_env.envs.native_vector import Bools, Info
from memplace_env.envs.placement_env import Observation
from memplace_env.envs.steps.env import check_levels
from memplace_env.envs.steps.observation import OBSERVATION_SIZE, in_form
from memplace_env.envs.steps.problem import StepsProblem
from memplace_env.envs.steps.step_kernels import ESTIMATE, HEAD, MASK
from memplace_env.envs.steps.step_tables import LEVELS
from memplace_env.program.program import Ints


class StepsManyVectorEnv(ManyProgramsVectorEnv[StepsManyEnv]):
    """`num_envs` episodes of `StepsManyEnv` in one; takes the same arguments, and those below.

    Args:
        num_envs: number of episodes.
        max_episode_steps: ignored; an episode has a fixed length.
        autoreset_mode: see `PlacementVectorEnv`.
    """

    def __init__(
        self,
        num_envs: int,
        max_episode_steps: int | None = None,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        **kwargs: Any,
    ) -> None:
        del max_episode_steps
        env = StepsManyEnv(**kwargs)
        super().__init__(num_envs, env, autoreset_mode, 4 * OBSERVATION_SIZE, HEAD)

    def action_masks(self) -> NDArray[np.bool_]:
        """Return bool[B, 3], the levels that have room for the next entry of every episode."""
        return (self.rows.heads[:, MASK, None] >> np.arange(LEVELS) & 1).astype(bool)

    def _allocate(self) -> None:
        self._native_ps, self._native_s = np.ones(self.num_envs, dtype=np.int64), np.ones(self.num_envs)
        self._decisions = np.empty(self.num_envs, dtype=np.int64)

    def _turn_to(self, index: int, drawn: Drawn[StepsProblem]) -> None:
        super()._turn_to(index, drawn)
        tables = drawn.problem.tables
        self._native_ps[index], self._decisions[index] = tables.native_ps, tables.decision[0]
        self._native_s[index] = drawn.problem.one_shot.native_report.latency_s

    def _play(self, actions: ArrayLike, live: Bools) -> tuple[Observation, NDArray[np.float64], Bools, Info]:
        wanted, rows = check_levels(actions, (self.num_envs,)), self.rows
        moves = np.empty((2, self.num_envs), dtype=np.int64)
        seen = np.empty((self.num_envs, OBSERVATION_SIZE), dtype=np.float32)

        def chunk(a: int, b: int) -> None:
            into = moves[:, a:b], self._decisions[a:b], rows.heads[a:b], seen[a:b]
            step_episodes(*rows.like, *rows.part(a, b), wanted[a:b], *into)

        in_chunks(chunk, self.num_envs)
        gains, played = moves
        over = (rows.heads[:, MASK] == 0) & live
        info = {**self._first_info_of(), "reassigned": np.zeros(self.num_envs)}
        self._evaluate(np.flatnonzero(over), info)
        info |= {"played": played, "illegal": played != wanted}
        estimate_ps = rows.heads[:, ESTIMATE]
        saved = saved_fractions(self._backing_ps, estimate_ps, gains, info["latency_s"], over, self.env.dense)
        return in_form(seen, self.env.flat), self._scale * saved, over, info

    def _evaluate(self, ended: Ints, info: Info) -> None:
        """Write what the compiler makes of finished episodes into infos; those of one program in one batch."""
        together: dict[StepsProblem, list[int]] = {}
        for index in ended.tolist():
            together.setdefault(self.rows.played[index].problem, []).append(index)
        for problem, same in together.items():
            scores = problem.scores(np.stack([self.rows.states[index] for index in same]))
            info["latency_s"][same], info["speedup"][same] = scores.latency_s, scores.speedup
            info["reassigned"][same] = scores.reassigned

    def _observe(self) -> Observation:
        seen = np.empty((self.num_envs, OBSERVATION_SIZE), dtype=np.float32)
        observe_episodes(*self.rows.like, *self.rows.matrices, np.arange(self.num_envs), seen)
        return in_form(seen, self.env.flat)

    def _fill(self, which: Ints, observations: Observation) -> None:
        seen = np.empty((self.num_envs, OBSERVATION_SIZE), dtype=np.float32)
        observe_episodes(*self.rows.like, *self.rows.matrices, which, seen)
        if isinstance(observations, dict):
            for key, array in in_form(seen[which], flat=False).items():  # type: ignore[union-attr]
                observations[key][which] = array
        else:
            observations[which] = seen[which]

    def _first_info_of(self) -> Info:
        estimate_ps = self.rows.heads[:, ESTIMATE].astype(np.float64)
        return {
            "latency_s": estimate_ps * PS,
            "speedup": self._native_ps / estimate_ps,
            "native_latency_s": self._native_s.copy(),
            "decision": self._decisions.copy(),
            "action_mask": self.action_masks().astype(np.int8),
            **self._names(),
        }
