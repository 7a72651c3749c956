"""Policies for programs that were not trained on: their features, their episodes and their training."""

from memplace_agents.policy.policy_run import PolicyRun, PolicySettings
from memplace_agents.policy.program_episodes import ProgramEpisodes

__all__ = ["PolicyRun", "PolicySettings", "ProgramEpisodes"]
