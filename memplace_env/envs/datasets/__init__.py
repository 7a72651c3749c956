"""Episodes that follow plans, and their files: data for imitation and offline learning."""

from memplace_env.envs.datasets.episodes import Episode, PlanFollower
from memplace_env.envs.datasets.minari_folder import write_minari

__all__ = ["Episode", "PlanFollower", "write_minari"]
