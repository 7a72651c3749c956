"""Tiled costs: the roofline plus the costs of tiling."""

from memplace_env.machine.costs.tiled.tiled_costs import Tiled

__all__ = ["Tiled"]
