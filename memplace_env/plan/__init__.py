"""Plans: where every use of every tensor is served, with blocks and transfers, and the checker of all that."""

from memplace_env.plan.blocks import Violation
from memplace_env.plan.plan import MemoryPlan
from memplace_env.plan.validator import require_valid, violations

__all__ = ["MemoryPlan", "Violation", "require_valid", "violations"]
