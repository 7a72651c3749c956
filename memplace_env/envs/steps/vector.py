"""A batch of episodes in steps, decided and observed by compiled kernels on all cores."""

from __future__ import annotations

from typing import Any

from gymnasium.vector import AutoresetMode

from memplace_env.envs.batch.sequential_vector import SequentialVectorEnv
from memplace_env.envs.steps.env import StepsEnv


class StepsVectorEnv(SequentialVectorEnv[StepsEnv]):
    """`num_envs` copies of `StepsEnv` in one; takes the same arguments, and those below.

    All episodes of a program are equally long; those that end in the same step are compiled by one call.

    Args:
        num_envs: number of copies.
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
        super().__init__(num_envs, StepsEnv(**kwargs), autoreset_mode)
