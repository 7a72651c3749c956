"""Steps and games as pure functions for JAX, for `jit`, `vmap` and `scan`; needs the extra `jax`.

`jax_steps` and `jax_game` have `init` and `step`; `jax_arrays` pads programs to one size and goes back to plans.
"""

from memplace_env.envs.jax.gymnax_face import GymnaxFace
from memplace_env.envs.jax.jax_arrays import plans, replayed, split_problems, stacked
from memplace_env.envs.jax.jax_game_tables import GameParams, GameState, game_params
from memplace_env.envs.jax.jax_steps import StepsParams, StepsState, steps_params

__all__ = [
    "GameParams",
    "GameState",
    "GymnaxFace",
    "StepsParams",
    "StepsState",
    "game_params",
    "plans",
    "replayed",
    "split_problems",
    "stacked",
    "steps_params",
]
