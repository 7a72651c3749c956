"""Animations of the smallest environments, for the pages that specify them."""

from io import BytesIO
from typing import Any

import gymnasium as gym
from PIL import Image

from memplace_agents import Exact
from memplace_env.envs.datasets import PlanFollower
from memplace_env.envs.registration import Formulation

MILLISECONDS = 900
"""Time that a frame is shown."""


def animation(name: str) -> bytes:
    """Return a GIF of an episode of a formulation's Tiny environment, which follows the exact agent's plan."""
    formulation = Formulation(name)
    env: Any = gym.make(formulation.traits.env_id("Tiny"), render_mode="rgb_array").unwrapped
    plan = Exact().solve(formulation.base.traits.env_id("Tiny")).plan
    actions = PlanFollower(env, plan).episode(seed=0).actions
    env.reset()
    frames = [env.render()]
    for action in actions:
        env.step(action)
        frames.append(env.render())
    shown = [Image.fromarray(frame).resize((720, 480)).quantize(64) for frame in frames]
    out = BytesIO()
    shown[0].save(out, "GIF", save_all=True, append_images=shown[1:], duration=MILLISECONDS, loop=0, optimize=True)
    return out.getvalue()
