"""The one-shot problem in steps: one decision for each entry that has a choice."""

from memplace_env.envs.steps.env import StepsEnv, StepsVectorEnv
from memplace_env.envs.steps.problem import StepsProblem
from memplace_env.envs.steps.steps_batch import StepsBatch

__all__ = ["StepsBatch", "StepsEnv", "StepsProblem", "StepsVectorEnv"]
