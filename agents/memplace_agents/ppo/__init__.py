"""Policy gradients: PPO, on one learner for each formulation."""

from memplace_agents.ppo.ppo_agent import PPOAgent
from memplace_agents.ppo.ppo_config import PPOConfig

__all__ = ["PPOAgent", "PPOConfig"]
