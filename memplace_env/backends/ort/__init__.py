"""Execution of plans: the real network runs in the plan's own memory and must give the results of a plain run."""

from memplace_env.backends.ort.execution_result import ROUNDING, TOLERANCE, Execution, ResultDifference
from memplace_env.backends.ort.executor import Executor
from memplace_env.backends.ort.plan_steps import CopyMoment

__all__ = ["ROUNDING", "TOLERANCE", "CopyMoment", "Execution", "Executor", "ResultDifference"]
