"""Steps and games with the names that gymnax's environments have; gymnax itself is not needed."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from memplace_env.envs.jax import jax_game, jax_steps


class GymnaxFace:
    """`reset(key, params)` and `step(key, state, action, params)` for code that was written for gymnax.

    Episodes begin anew in the step that ends them, as there. The legal actions are `state.mask`.

    Args:
        params: `StepsParams` or `GameParams`.
    """

    num_actions = 3

    def __init__(self, params: Any) -> None:
        self.default_params = params
        self.rules: ModuleType = jax_steps if isinstance(params, jax_steps.StepsParams) else jax_game

    def reset(self, key: Array, params: Any = None) -> tuple[Array, Any]:
        """Return the first observation and state."""
        state, seen = self.rules.init(key, self.default_params if params is None else params)
        return seen, state

    def step(
        self, key: Array, state: Any, action: Array, params: Any = None
    ) -> tuple[Array, Any, Array, Array, dict[str, Array]]:
        """Return observation, state, reward, whether the episode ended, and infos, among them the observation before
        a new beginning."""
        params = self.default_params if params is None else params
        state, last, reward, over = self.rules.step(state, action, params)
        first, begun = self.reset(key, params)
        state = jax.tree.map(lambda new, old: jnp.where(over, new, old), begun, state)
        return jnp.where(over, first, last), state, reward, over, {"final_observation": last}
