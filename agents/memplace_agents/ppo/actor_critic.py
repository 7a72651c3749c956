"""Policies of Stable-Baselines3 and sb3-contrib as files of ours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from gymnasium import spaces
from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy
from stable_baselines3.common.policies import ActorCriticPolicy

from memplace_agents.learning.policy_file import PolicyNetwork


class ActorCritic(PolicyNetwork):
    """The library's policy and critic, two networks with two hidden tanh layers each.

    Args:
        inputs: length of the observation.
        width: width of the hidden layers.
        decisions: decisions of an action, 1 in games and steps, where the policy masks actions.
        actions: choices of each decision.

    Attributes:
        net: the policy.
    """

    KIND: ClassVar[str] = "ppo-policy/1"
    OPTIONS: ClassVar[Mapping[str, type]] = {"inputs": int, "width": int, "decisions": int, "actions": int}

    def __init__(self, inputs: int, width: int, decisions: int, actions: int) -> None:
        super().__init__()
        self.options = {"inputs": inputs, "width": width, "decisions": decisions, "actions": actions}
        seen, layers = spaces.Box(0, 1, (inputs,), np.float32), [width, width]
        self.net: ActorCriticPolicy | MaskableActorCriticPolicy
        if decisions == 1:
            self.net = MaskableActorCriticPolicy(seen, spaces.Discrete(actions), lambda _: 0.0, layers)
        else:
            kinds = spaces.MultiDiscrete([actions] * decisions)
            self.net = ActorCriticPolicy(seen, kinds, lambda _: 0.0, layers)
