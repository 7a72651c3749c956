"""For those who bring parts of their own: checks of cost models, simulators and agents, and plain references.

    >>> from memplace_env.testing import RandomCosts, check_cost_model
    >>> check_cost_model(RandomCosts(3))

`reference`, `reference_plan`, `reference_compiler`, `reference_game` and `reference_costs` tell the rules in plain
Python, slow and readable; `random_costs` has a cost model that says anything at all; `strategies` has Hypothesis
strategies.
"""

from memplace_env.testing.agents import check_agent
from memplace_env.testing.cost_models import check_cost_model
from memplace_env.testing.random_costs import RandomCosts
from memplace_env.testing.simulators import check_simulator

__all__ = ["RandomCosts", "check_agent", "check_cost_model", "check_simulator"]
