"""Tiled costs: the roofline, and what tiling adds to it."""

from memplace_env.costs.tiled.model import Tiled

__all__ = ["Tiled"]
