"""The one-shot problem in steps: one decision for each entry that has a choice."""

from memplace_env.envs.steps.env import StepsEnv
from memplace_env.envs.steps.problem import StepsProblem
from memplace_env.envs.steps.steps_batch import StepsBatch
from memplace_env.envs.steps.vector import StepsVectorEnv

__all__ = ["StepsBatch", "StepsEnv", "StepsProblem", "StepsVectorEnv"]
