"""Every agent in the registry keeps the contract that third parties' agents are held to."""

import pytest

from memplace_agents import agent_specs, make_agent
from memplace_env.testing import check_agent

SLOW = {"game-local-search"}
"""Besides those that learn."""


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow if spec.learns or name in SLOW else ())
        for name, spec in agent_specs().items()
    ],
)
def test_shipped_agents_pass(name):
    check_agent(make_agent(name), budget=40)
