"""Every agent keeps the contract that third parties' agents are held to, whatever things cost, in any settings."""

import pytest

from memplace_agents import EGRL, MuZero, make_agent
from memplace_agents.registry import agent_specs
from memplace_env._lib.errors import AgentError
from memplace_env.testing import check_agent
from tests.agents import egrl, muzero, third_party
from tests.agents.plan_gradient import small_ppo
from tests.agents.planted import planted_env

SPECS = agent_specs()
SLOW = {name for name, spec in SPECS.items() if spec.learns} | {"game-local-search"}


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.slow if name in SLOW else ()) for name in SPECS])
def test_shipped_agents_pass(name):
    check_agent(make_agent(name), budget=40)


SETTINGS = {
    **{f"egrl, {name}": lambda name=name: EGRL(egrl.small(name)) for name in egrl.VARIANTS},
    **{f"muzero, {model}": lambda model=model: MuZero(muzero.small(model)) for model in muzero.MODELS},
    "ppo": small_ppo,
}


@pytest.mark.parametrize("name", SETTINGS)
def test_learners_pass_in_other_settings(name):
    check_agent(SETTINGS[name](), budget=45, seed=7, time_limit=0.1)


@pytest.mark.parametrize("kind", [third_party.Theirs, third_party.Player])
def test_a_strangers_agent_keeps_to_the_contract(kind):
    check_agent(kind())


def test_a_strangers_agent_that_breaks_it_is_told_so():
    class Greedy(third_party.Theirs):
        """Evaluates without asking how much is left."""

        def run(self, evaluator, seed):
            for _ in range(5):
                evaluator.spend(50)
                super().run(evaluator, seed)
                evaluator.offer(evaluator.env.problem.native_plan)

    with pytest.raises(AgentError, match=r"Agent 'theirs' evaluated .* plans with a budget of 100; count every plan"):
        check_agent(Greedy(), planted_env(ops=6))


def test_an_interrupt_ends_a_search_with_the_best_plan_so_far():
    """Any agent handles an interrupt; before it has a plan, the interrupt is raised."""

    def interrupt(progress):
        raise KeyboardInterrupt

    solution = third_party.Theirs().solve(planted_env(ops=6), budget=1000, callback=interrupt)
    assert solution.plan is not None
    assert solution.evaluations == 16

    class Stopped(third_party.Theirs):
        def run(self, evaluator, seed):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Stopped().solve(planted_env(ops=6), budget=1000)
