"""Steps and games with the names that gymnax's environments have; gymnax itself is not needed."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from memplace_env.envs.jax import jax_game, jax_steps


class GymnaxFace:
    """`reset(key, params)` and `step(key, state, action, params)`, with params of steps or of a game.

    An episode begins anew in the step that ends it, as there. The legal ones of the three actions are `state.mask`.
    """

    num_actions = 3

    def reset(self, key: Array | None, params: Any) -> tuple[Array, Any]:
        """Return the first observation and state."""
        rules: Any = jax_steps if isinstance(params, jax_steps.StepsParams) else jax_game
        return rules.init(key, params)[::-1]  # type: ignore[no-any-return]

    def step(self, key: Array | None, state: Any, action: Array, params: Any) -> tuple[Array, Any, Array, Array, Any]:
        """Return observation, state, reward, whether the episode ended, and infos with its last observation."""
        rules: Any = jax_steps if isinstance(params, jax_steps.StepsParams) else jax_game
        ended, last, reward, over = rules.step(state, action, params)
        both = jax.tree.map(lambda new, old: jnp.where(over, new, old), self.reset(key, params), (last, ended))
        return *both, reward, over, {"final_observation": last}
