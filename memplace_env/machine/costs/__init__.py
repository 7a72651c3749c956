"""Costs: what a program's ops, uses and copies take on a chip, as arrays, and the models that compute them."""

from memplace_env.machine.costs.cost_arrays import Costs, OpTimes, op_times, whole_op_ps
from memplace_env.machine.costs.cost_model import (
    CostModel,
    CostsLike,
    KnownCosts,
    cost_model_names,
    costs_of,
    resolve_cost_model,
    whole_costs_of,
)
from memplace_env.machine.costs.measured import Measured, op_key
from memplace_env.machine.costs.roofline import Roofline
from memplace_env.machine.costs.tiled import Tiled

__all__ = [
    "CostModel",
    "Costs",
    "CostsLike",
    "KnownCosts",
    "Measured",
    "OpTimes",
    "Roofline",
    "Tiled",
    "cost_model_names",
    "costs_of",
    "op_key",
    "op_times",
    "resolve_cost_model",
    "whole_costs_of",
    "whole_op_ps",
]
