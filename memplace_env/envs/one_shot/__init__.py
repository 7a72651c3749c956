"""The one-shot formulation: all tensors assigned at once, as in EGRL."""

from memplace_env.envs.one_shot.env import OneShotEnv
from memplace_env.envs.one_shot.problem import OneShotProblem
from memplace_env.envs.one_shot.reward import Scores
from memplace_env.envs.one_shot.vector import OneShotVectorEnv

__all__ = ["OneShotEnv", "OneShotProblem", "OneShotVectorEnv", "Scores"]
