"""Steps and games with names that environments have in gymnax 1.0; gymnax itself is not needed."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from gymnasium import spaces
from jax import Array

from memplace_env._lib.errors import EnvError
from memplace_env._lib.foreign import described
from memplace_env.envs.jax import jax_game, jax_steps
from memplace_env.envs.jax.jax_game_tables import GameParams
from memplace_env.envs.malloc_game import flat
from memplace_env.envs.steps import observation


class GymnaxFace:
    """`reset(key, params)` and `step(key, state, action, params)`, with params of steps or of a game.

    An episode begins anew in the step that ends it, as there. The legal ones of the three actions are `state.mask`.
    Other names are `default_params`, `name`, `num_actions`, `action_space(params)` and `observation_space(params)`.
    These spaces are Gymnasium's, so that `sample` takes no key.

    Attributes:
        default_params: what is played where params are None.
    """

    num_actions = 3

    def __init__(self, default_params: Any = None) -> None:
        self.default_params = default_params

    @property
    def name(self) -> str:
        """First part of the ids of what is played by default."""
        return "MallocGame" if self._played(None)[0] is jax_game else "MemPlaceSteps"

    def action_space(self, params: Any = None) -> spaces.Discrete:
        """Return the space of actions, the same for all params."""
        return spaces.Discrete(self.num_actions)

    def observation_space(self, params: Any = None) -> spaces.Box:
        """Return the space of observations of all steps, or of all games."""
        return flat.flat_space() if self._played(params)[0] is jax_game else observation.flat_space()

    def reset(self, key: Array | None, params: Any = None) -> tuple[Array, Any]:
        """Return the first observation and state."""
        rules, params = self._played(params)
        return rules.init(key, params)[::-1]  # type: ignore[no-any-return]

    def step(
        self, key: Array | None, state: Any, action: Array, params: Any = None
    ) -> tuple[Array, Any, Array, Array, Array, dict[str, Array]]:
        """Return observation, state, reward, whether the episode is over, False for cut short, and infos.

        `final_observation` of the infos is the observation before an episode begins anew.
        """
        rules, params = self._played(params)
        ended, last, reward, over = rules.step(state, action, params)
        both = jax.tree.map(lambda new, old: jnp.where(over, new, old), self.reset(key, params), (last, ended))
        cut = jnp.zeros_like(over)
        return *both, reward, over, cut, {"terminated": over, "truncated": cut, "final_observation": last}

    def _played(self, params: Any) -> tuple[Any, Any]:
        """Return rules and params."""
        params = self.default_params if params is None else params
        for kind, rules in ((jax_steps.StepsParams, jax_steps), (GameParams, jax_game)):
            if isinstance(params, kind):
                return rules, params
        raise EnvError(f"Pass params that steps_params or game_params returned, not {described(params)}.")
