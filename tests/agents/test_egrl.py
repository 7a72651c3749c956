"""EGRL as an agent: budgets, seeds, policies, and planted optima."""

import runpy
from dataclasses import asdict

import gymnasium as gym
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from memplace_agents.built_in_agents import POLICY
from memplace_agents.egrl import EGRL, EGRLConfig
from memplace_agents.egrl.egrl_config import CONFIGS
from memplace_agents.egrl.population import genome_of
from memplace_agents.learning.graph_policy import Graph, GraphPolicy, LevelNetwork, forward_of
from memplace_agents.learning.policy_file import load_policy
from memplace_agents.search.cheap_plans import cheap_plans, first_assignments
from memplace_agents.search.evaluator import OneShotEvaluator
from memplace_env._lib.errors import AgentError
from memplace_env.envs.one_shot import OneShotEnv
from memplace_env.placement.simulator import evaluate_plan
from memplace_env.placement.synthetic import TOPOLOGIES, random_dag
from memplace_env.placement.validation import violations
from memplace_env.program.builder import ProgramBuilder
from memplace_env.program.program import TensorKind
from tests.agents.egrl import small
from tests.agents.planted import optimum_ps, planted_env, reach
from tests.source import ROOT
from tests.thorough import examples

# Budgets and seeds.


def test_another_seed_and_torchs_own_state_matter_as_they_should():
    runs = []
    for seed, noise in ((7, 0), (7, 1), (8, 0)):
        torch.manual_seed(noise)
        before = torch.random.get_rng_state()
        calls = []
        look = lambda progress, calls=calls: calls.append(progress.latency_s)  # noqa: E731
        EGRL(small("paper")).solve(planted_env(ops=10), budget=30, seed=seed, callback=look)
        assert (torch.random.get_rng_state() == before).all()
        runs.append(calls)
    assert runs[0] == runs[1]
    assert runs[0] != runs[2]


@pytest.mark.parametrize("budget", [1, 2, 5, 6, 7, 13, 14, 100])
@pytest.mark.parametrize("name", ["default", "paper", "imitating", "refine-only"])
def test_budgets_are_spent_exactly(name, budget):
    solution = EGRL(small(name, gradient_steps=0.1)).solve(planted_env(), budget=budget)
    assert solution.evaluations == budget
    assert solution.plan is not None


@examples(8)
@given(st.integers(0, 10**6), st.sampled_from(["nnp-i", "tpu-v4i"]))
def test_it_is_never_slower_than_the_best_rule(seed, chip):
    dtype = "int8" if chip == "nnp-i" else "bfloat16"
    env = OneShotEnv(random_dag(seed, ops=6, dtype=dtype, largest=60_000_000), chip)
    plans = list(dict.fromkeys(cheap_plans(env.problem).values()))
    latencies_ps = [evaluate_plan(env.task, plan).latency_ps for plan in plans]
    for budget in (1, 2, len(plans), len(plans) + 5):
        solution = EGRL(small()).solve(env, budget=budget)
        assert solution.report.latency_ps <= min(latencies_ps[:budget])
        assert violations(env.task, solution.plan) == []


@pytest.mark.parametrize("name", ["default", "paper", "imitating", "refine-only"])
def test_nothing_to_decide_is_no_endless_search(name):
    builder = ProgramBuilder("empty", "int8")
    x, y = builder.tensor("x", 10, TensorKind.INPUT), builder.tensor("y", 10, TensorKind.OUTPUT)
    builder.op("Relu", [x], [y], vector_ops=10)
    solution = EGRL(small(name)).solve(OneShotEnv(builder.build(), "nnp-i"), budget=30, time_limit=20)
    assert solution.report.latency_s == solution.native_latency_s
    assert solution.seconds < 20


# Policies.


@pytest.mark.parametrize("name", ["default", "paper", "imitating"])
def test_several_workloads_give_a_solution_each_and_one_policy(name):
    envs = [planted_env(ops=6), planted_env("fan-out", ops=11)]
    calls = [[], []]
    trained = EGRL(small(name, gradient_steps=0.2)).train(envs, budget=60, callback=[own.append for own in calls])
    assert len(trained.solutions) == 2
    for env, solution, own in zip(envs, trained.solutions, calls, strict=True):
        assert violations(env.task, solution.plan) == []
        assert solution.evaluations == own[-1].evaluations == 60
        logits = trained.policy(Graph.of(env.problem))
        assert logits.shape == (env.program.num_ops, 2, 3)
        assert torch.isfinite(logits).all()


class OwnNetwork(LevelNetwork):
    """One layer, on the node features alone."""

    def __init__(self, levels, noise=0.0):
        super().__init__(levels)
        self.layer, self.noise = torch.nn.Linear(19, 2 * levels), noise

    def inputs(self, problem):
        return Graph.of(problem).nodes

    def forward(self, inputs):
        logits = self.layer(inputs).unflatten(-1, (2, self.levels))
        return logits + self.noise * torch.rand(()).item() if self.noise else logits


class Reversed(GraphPolicy):
    """Ours, with its logits turned around."""

    def forward(self, graph):
        return -super().forward(graph).masked_fill(~graph.mask, 0.0)


@pytest.mark.parametrize("name", ["default", "imitating", "paper"])
@pytest.mark.parametrize("network", [OwnNetwork, Reversed, "examples/own_network.py"])
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_a_network_of_ones_own_is_trained_and_kept(name, network, tmp_path):
    if isinstance(network, str):
        pytest.importorskip("torch_geometric")
        network = runpy.run_path(ROOT / network)["SagePolicy"]
    env = planted_env(ops=6)
    trained = EGRL(small(name), network=network, out=tmp_path).train([env, planted_env(ops=5)], budget=50)
    assert type(trained.policy) is network
    saved = load_policy(tmp_path / POLICY, network)
    assert (genome_of(saved) == genome_of(trained.policy)).all()
    likely = saved(saved.inputs(env.problem)).masked_fill(~Graph.of(env.problem).mask, -1e9).argmax(-1)
    started = EGRL(small(name), network=network, policy=tmp_path / POLICY).solve(env, budget=1)
    assert started.plan == env.problem.compile(likely.flatten().numpy()).plan


@pytest.mark.parametrize("noise", [0.0, 1e-9])
def test_populations_of_ones_own_networks_are_their_members(noise):
    """In one call, or member by member where no call can be batched."""
    env, members = planted_env(ops=6), [OwnNetwork(3, noise) for _ in range(3)]
    forward = forward_of(members[0], env.problem)
    logits = forward(torch.from_numpy(np.stack([genome_of(member) for member in members])))
    for row, member in zip(logits, members, strict=True):
        expected = member(member.inputs(env.problem)).masked_fill(~forward.graph.mask, torch.finfo(torch.float32).min)
        torch.testing.assert_close(row, expected)


def test_networks_that_do_not_fit_are_refused():
    flat = type("Flat", (OwnNetwork,), {"forward": lambda self, inputs: inputs})
    with pytest.raises(AgentError, match="Flat returned logits of shape"):
        EGRL(small(), network=flat).solve(planted_env(ops=5), budget=1)
    for network in (3, torch.nn.Linear, LevelNetwork):
        with pytest.raises(AgentError, match="must be a class derived from LevelNetwork"):
            EGRL(network=network)
    with pytest.raises(AgentError, match="policy must be a OwnNetwork"):
        EGRL(network=OwnNetwork, policy=GraphPolicy(3, 8, 2))


def likely_plan(policy, env):
    """Return the plan that the compiler makes of a policy's most likely assignment."""
    return env.problem.compile(policy(Graph.of(env.problem)).argmax(-1).flatten().numpy()).plan


@pytest.mark.parametrize("name", ["default", "paper", "imitating", "refine-only", "pg"])
@pytest.mark.parametrize("seed", range(3))
def test_the_first_evaluation_of_a_given_policy_is_its_most_likely_assignment(name, seed):
    torch.manual_seed(seed)
    envs, policy = [planted_env(ops=6), planted_env("diamond", ops=7, seed=seed)], GraphPolicy(3, 8, 2)
    trained = EGRL(small(name), policy=policy).train(envs, budget=1)
    for env, solution in zip(envs, trained.solutions, strict=True):
        assert solution.evaluations == 1
        assert solution.plan == likely_plan(policy, env)
    assert (genome_of(trained.policy) == genome_of(policy)).all()


def test_policies_are_saved_and_tuned_on(tmp_path):
    env, other = planted_env(ops=6), planted_env("diamond", ops=9)
    trained = EGRL(small(), out=tmp_path).train([env], budget=60)
    saved = load_policy(tmp_path / POLICY, GraphPolicy)
    assert (genome_of(saved) == genome_of(trained.policy)).all()
    config = small(hidden=32, depth=3)  # the shape is the policy's
    for given_ in (saved, tmp_path / POLICY, str(tmp_path / POLICY)):
        tuned = EGRL(config, policy=given_).train([other], budget=60)
        assert tuned.policy.options == saved.options
        assert (genome_of(tuned.policy) != genome_of(saved)).any()
        optimum = evaluate_plan(other.task, likely_plan(saved, other))
        assert tuned.solutions[0].report.latency_ps <= optimum.latency_ps
    assert (genome_of(saved) == genome_of(trained.policy)).all()


def test_machines_and_policies_must_have_equally_many_levels(tmp_path):
    two, three = planted_env(chip="tpu-v4i"), planted_env()
    with pytest.raises(AgentError, match=r"\[2, 3\] memory levels"):
        EGRL(small()).train([two, three], budget=10)
    with pytest.raises(AgentError, match="is for 3 memory levels, the machine has 2"):
        EGRL(small(), policy=GraphPolicy(3, 8, 2)).solve(two, budget=10)
    with pytest.raises(AgentError, match="at least one environment"):
        EGRL(small()).train([], budget=10)
    with pytest.raises(AgentError, match="There is no file"):
        EGRL(small(), policy=tmp_path / "none.pt")


@pytest.mark.parametrize(
    "change",
    [
        *({field: -1} for field in asdict(EGRLConfig()) if not isinstance(getattr(EGRLConfig(), field), bool)),
        *({field: 1.1} for field in ("boltzmann", "mutation", "refine")),
        *({field: 0} for field in ("tournament", "batch", "hidden", "depth")),
        *({field: float("nan")} for field in ("lean", "learning_rate", "refine", "boltzmann")),
        {"learning_rate": float("inf")},
        {"elites": 0},
        {"elites": 20},
        {"elites": 30},
        {"refine": 1.0},
    ],
)
def test_settings_that_make_no_sense_are_errors(change):
    with pytest.raises(AgentError, match=rf"^EGRLConfig[. ].*{next(iter(change))}") as caught:
        EGRLConfig(**change)
    assert "\n" not in str(caught.value)


def test_something_must_search():
    with pytest.raises(AgentError, match="all off"):
        EGRLConfig(evolution=False, gradient=False, refine=0.0)


# Planted optima. No assignment that is known without a search reaches any of these.

DEFAULT_REACHES = [("chain", 1), ("chain", 4), ("diamond", 1), ("diamond", 4), ("fan-out", 1)]


@pytest.mark.parametrize(("topology", "seed"), DEFAULT_REACHES)
def test_planted_optima_are_reached(topology, seed):
    """Eight ops, within 1,000 assignments."""
    env = planted_env(topology, ops=8, seed=seed)
    assert env.problem.evaluate(first_assignments(env.problem)).latency_s.min() * 1e12 > 1.01 * optimum_ps(env)
    reach(EGRL(), env, budget=1000)


@pytest.mark.parametrize("topology", sorted(TOPOLOGIES))
def test_evolution_alone_reaches_planted_optima(topology):
    """The published method without its gradients, within 2,000 assignments."""
    reach(EGRL(CONFIGS["paper-ea"]), planted_env(topology, ops=6, seed=0), budget=2000)


@pytest.mark.slow
@pytest.mark.parametrize("topology", sorted(TOPOLOGIES))
def test_the_published_method_reaches_planted_optima(topology):
    """Within 2,000 assignments."""
    reach(EGRL(CONFIGS["paper"]), planted_env(topology, ops=6, seed=0), budget=2000)


@pytest.mark.slow
def test_the_published_gradient_ends_at_one_constant_assignment():
    """On ResNet50: all weights in the backing memory, all results in the middle level, as the page on agents says."""
    trained = EGRL(CONFIGS["paper-pg"]).train(["MemPlace-ResNet50-v0"], budget=1000)
    problem = gym.make("MemPlace-ResNet50-v0").unwrapped.problem
    decided = trained.policy(Graph.of(problem)).argmax(-1)
    free = torch.from_numpy(problem.decides.reshape(-1, 2))
    assert (decided[:, 0][free[:, 0]] == 2).all()
    assert (decided[:, 1][free[:, 1]] == 1).all()
    scores = OneShotEvaluator("MemPlace-ResNet50-v0", budget=1)(decided.flatten().numpy()[None])
    assert scores.reward.item() == pytest.approx(0.8079, abs=1e-4)


@pytest.mark.parametrize("name", ["default", "paper-ea", "refine-only"])
@pytest.mark.parametrize("topology", sorted(TOPOLOGIES))
def test_no_plan_beats_a_planted_optimum(name, topology):
    env = planted_env(topology, ops=7, seed=2)
    assert EGRL(small(name)).solve(env, budget=300).report.latency_ps >= optimum_ps(env)
