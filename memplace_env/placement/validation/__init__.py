"""Validation: the independent checker of plans, which must find nothing before a latency counts."""

from memplace_env.placement.validation.block_rules import Violation
from memplace_env.placement.validation.validator import require_valid, violations

__all__ = ["Violation", "require_valid", "violations"]
