"""Policy-gradient algorithms of Stable-Baselines3 and sb3-contrib."""

from memplace_agents.ppo.ppo_agent import A2CAgent, MaskablePPOAgent, PPOAgent

__all__ = ["A2CAgent", "MaskablePPOAgent", "PPOAgent"]
