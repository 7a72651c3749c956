"""Plans executed: the real network runs in the plan's own memory, and must give what a plain run gives."""

from memplace_env.execution.executor import Executor
from memplace_env.execution.result import ROUNDING, TOLERANCE, Difference, Execution
from memplace_env.execution.schedule import Copies

__all__ = ["ROUNDING", "TOLERANCE", "Copies", "Difference", "Execution", "Executor"]
