"""Episodes that follow plans, and their files: data for imitation and offline learning."""

from memplace_env.envs.datasets.minari_folder import write_minari
from memplace_env.envs.datasets.plan_episodes import PlanEpisode, PlanFollower, states_along

__all__ = ["PlanEpisode", "PlanFollower", "states_along", "write_minari"]
