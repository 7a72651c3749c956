"""Policy gradients: PPO and A2C, on one learner for each formulation."""

from memplace_agents.ppo.ppo_agent import A2CAgent, PPOAgent
from memplace_agents.ppo.ppo_config import A2CConfig, PPOConfig

__all__ = ["A2CAgent", "A2CConfig", "PPOAgent", "PPOConfig"]
