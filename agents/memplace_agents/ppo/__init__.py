"""Proximal policy optimisation by Stable-Baselines3 and sb3-contrib, in all three formulations."""

from memplace_agents.ppo.ppo_agent import PPO
from memplace_agents.ppo.ppo_config import PPOConfig

__all__ = ["PPO", "PPOConfig"]
