"""Policy gradients for whole plans, without a value function."""

from memplace_agents.plan_gradient.plan_gradient_agent import PlanGradient
from memplace_agents.plan_gradient.plan_gradient_config import PlanGradientConfig

__all__ = ["PlanGradient", "PlanGradientConfig"]
