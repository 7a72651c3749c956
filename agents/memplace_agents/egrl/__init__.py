"""EGRL: evolution of graph policies and Boltzmann chromosomes with policy gradients, and refinement."""

from memplace_agents.egrl.egrl_agent import EGRL
from memplace_agents.egrl.egrl_config import EGRLConfig

__all__ = ["EGRL", "EGRLConfig"]
