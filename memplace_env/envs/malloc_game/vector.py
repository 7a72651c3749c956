"""A batch of games, played and observed by compiled kernels on all cores."""

from __future__ import annotations

from typing import Any

from gymnasium.vector import AutoresetMode

from memplace_env.envs.batch.sequential_vector import SequentialVectorEnv
from memplace_env.envs.malloc_game.env import MallocGameEnv


class MallocGameVectorEnv(SequentialVectorEnv[MallocGameEnv]):
    """`num_envs` games of `MallocGameEnv` in one; takes the same arguments, and those below.

    Args:
        num_envs: number of games.
        max_episode_steps: ignored; a game has a fixed length.
        autoreset_mode: see `PlacementVectorEnv`.
        copy: see `SequentialVectorEnv`.
    """

    def __init__(
        self,
        num_envs: int,
        max_episode_steps: int | None = None,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        copy: bool = True,
        **kwargs: Any,
    ) -> None:
        del max_episode_steps
        super().__init__(num_envs, MallocGameEnv(**kwargs), autoreset_mode, copy)
