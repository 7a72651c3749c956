"""EGRL: evolution of graph policies and Boltzmann chromosomes with policy gradients, and refinement."""

from agents.egrl.agent import EGRL
from agents.egrl.config import EGRLConfig

__all__ = ["EGRL", "EGRLConfig"]
