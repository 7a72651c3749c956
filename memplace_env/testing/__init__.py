"""Checks of third parties' cost models, simulators and agents.

    >>> from memplace_env.testing import RandomCosts, check_cost_model
    >>> check_cost_model(RandomCosts(3))

`RandomCosts` is a cost model with random arrays.
"""

from memplace_env.testing.agents import check_agent
from memplace_env.testing.cost_models import RandomCosts, check_cost_model
from memplace_env.testing.simulators import check_simulator

__all__ = ["RandomCosts", "check_agent", "check_cost_model", "check_simulator"]
