"""The observation as Gymnasium's own graph type."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.utils import RecordConstructorArgs

from memplace_env._lib.errors import EnvError


class GraphObservation(gym.ObservationWrapper[spaces.GraphInstance, Any, dict[str, Any]], RecordConstructorArgs):
    """Convert the `nodes` and `edge_index` of a one-shot observation into a `GraphInstance`.

    Nodes keep their features; each edge has the one feature 1.0, since edges have no features here (as in EGRL) but
    Gymnasium's graphs allow no links without; `edge_links` is int32[E, 2]. For libraries that support `spaces.Graph`;
    Stable-Baselines3 does not.

    Raises:
        EnvError: if the environment has other observations.
    """

    def __init__(self, env: gym.Env[dict[str, Any], Any]) -> None:
        RecordConstructorArgs.__init__(self)
        gym.ObservationWrapper.__init__(self, env)
        inner = env.observation_space
        if not isinstance(inner, spaces.Dict) or not {"nodes", "edge_index"} <= set(inner):
            raise EnvError(f"GraphObservation wraps environments with `nodes` and `edge_index`, not {inner}.")
        nodes = inner["nodes"]
        assert nodes.shape is not None
        self.observation_space = spaces.Graph(
            node_space=spaces.Box(0, 1, nodes.shape[1:], np.float32), edge_space=spaces.Box(0, 1, (1,), np.float32)
        )

    def observation(self, observation: dict[str, Any]) -> spaces.GraphInstance:
        """Return the observation as a `GraphInstance`."""
        links = observation["edge_index"].T.astype(np.int32)
        return spaces.GraphInstance(
            nodes=observation["nodes"], edges=np.ones((len(links), 1), np.float32), edge_links=links
        )
