"""The observation as Gymnasium's own graph type."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.utils import RecordConstructorArgs


class GraphObservation(
    gym.ObservationWrapper[spaces.GraphInstance, Any, dict[str, Any]], RecordConstructorArgs
):
    """Turns the `nodes` and `edge_index` of a one-shot observation into a `GraphInstance`.

    Nodes keep their features; edges carry none (in EGRL an edge only says who reads whom); `edge_links` is int32
    [E, 2]. For libraries that understand `spaces.Graph`; Stable-Baselines3 does not.
    """

    def __init__(self, env: gym.Env[dict[str, Any], Any]) -> None:
        RecordConstructorArgs.__init__(self)
        gym.ObservationWrapper.__init__(self, env)
        inner = env.observation_space
        if not isinstance(inner, spaces.Dict) or not {"nodes", "edge_index"} <= set(inner):
            raise TypeError(f"GraphObservation wraps environments with `nodes` and `edge_index`, not {inner}.")
        features = inner["nodes"].shape[1]  # type: ignore[index]
        self.observation_space = spaces.Graph(
            node_space=spaces.Box(0, 1, (features,), np.float32), edge_space=None
        )

    def observation(self, observation: dict[str, Any]) -> spaces.GraphInstance:
        """The same graph in the other form."""
        links = observation["edge_index"].T.astype(np.int32)
        return spaces.GraphInstance(nodes=observation["nodes"], edges=None, edge_links=links)
