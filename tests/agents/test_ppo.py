"""PPO, MaskablePPO and A2C: the factored distribution, masks, budgets, seeds, files, and planted optima."""

import re

import gymnasium as gym
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sb3_contrib.common.maskable.policies import MaskableMultiInputActorCriticPolicy
from torch.distributions import Categorical

from memplace_agents.built_in_agents import CURVES, POLICY
from memplace_agents.evaluator import GameEvaluator, OneShotEvaluator
from memplace_agents.game import GreedyPlayer
from memplace_agents.learning import safe_files
from memplace_agents.ppo import A2CAgent, MaskablePPOAgent, PPOAgent
from memplace_agents.ppo.factored import FactoredCategorical, FactoredRolloutBuffer
from memplace_agents.ppo.graph_actor_critic import GraphActorCritic
from memplace_agents.ppo.ppo_agent import GAME_KIND, ONE_SHOT_KIND
from memplace_agents.ppo.vec_env import GameSearchEnv, OneShotSearchEnv, ranks
from memplace_env._lib.errors import AgentError, EnvError
from memplace_env.envs.malloc_game import MallocGameEnv
from memplace_env.envs.one_shot import OneShotEnv
from memplace_env.placement.simulator import evaluate_plan
from memplace_env.placement.synthetic import planted, random_dag
from memplace_env.placement.validation import violations
from tests.patience import patience

AGENTS = [PPOAgent, MaskablePPOAgent, A2CAgent]
FORMULATIONS = ["one-shot", "game"]


def planted_env(topology="chain", ops=6, seed=2):
    return OneShotEnv(planted(topology, ops=ops, seed=seed, accelerator="nnp-i").program, "nnp-i", costs="roofline")


def small_env(formulation):
    if formulation == "one-shot":
        return planted_env(ops=8)
    return MallocGameEnv(random_dag(3, ops=5, largest=60_000_000), "tpu-v4i")


@st.composite
def masked_logits(draw):
    """Logits float32[B, N, L] and a mask that leaves something to choose everywhere."""
    shape = draw(st.tuples(*[st.integers(1, 4)] * 3))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    mask = rng.random(shape) < 0.6
    mask[..., 0] |= ~mask.any(-1)
    return torch.from_numpy(rng.normal(0, 3, shape).astype(np.float32)), torch.from_numpy(mask)


def factored(logits, mask):
    distribution = FactoredCategorical().proba_distribution(logits)
    distribution.apply_masking(mask.flatten(1).numpy())
    return distribution


@given(masked_logits())
def test_factored_agrees_with_torch(case):
    logits, mask = case
    ours, theirs = factored(logits, mask), Categorical(logits=logits.masked_fill(~mask, -1e9))
    actions = theirs.sample()
    torch.testing.assert_close(ours.log_prob(actions.float()), theirs.log_prob(actions))
    torch.testing.assert_close(ours.entropy(), theirs.entropy(), atol=1e-5, rtol=1e-5)
    assert (ours.mode() == theirs.probs.argmax(-1)).all()


@given(masked_logits(), st.integers(0, 2**32))
def test_factored_plays_nothing_that_is_masked(case, seed):
    torch.manual_seed(seed)
    distribution = factored(*case)
    for actions in (distribution.sample(), distribution.mode()):
        assert case[1].gather(-1, actions[..., None]).all()
    assert torch.isfinite(distribution.entropy()).all()


def test_factored_samples_have_the_right_frequencies():
    torch.manual_seed(0)
    logits = torch.tensor([[[0.0, 1.0, 2.0], [2.0, 0.0, -1.0]]]).expand(20_000, -1, -1)
    distribution = FactoredCategorical().proba_distribution(logits)
    frequencies = torch.nn.functional.one_hot(distribution.sample(), 3).float().mean(0)
    torch.testing.assert_close(frequencies, distribution.log_probs[0].exp(), atol=0.02, rtol=0)


def test_masked_options_get_no_gradient():
    logits = torch.randn(2, 3, 4, requires_grad=True)
    mask = torch.ones(2, 3, 4, dtype=torch.bool)
    mask[..., 1] = False
    distribution = factored(logits, mask)
    (distribution.log_prob(distribution.sample()).sum() + distribution.entropy().sum()).backward()
    assert torch.isfinite(logits.grad).all()
    assert (logits.grad[..., 1] == 0).all()
    assert (logits.grad[..., 0] != 0).any()


def graph_policy(env, **options):
    torch.manual_seed(0)
    return GraphActorCritic(env.observation_space, env.action_space, lambda _: 1e-3, hidden=16, depth=2, **options)


def observations(env, rows):
    single, _ = env.reset()
    return {key: torch.from_numpy(np.stack([value] * rows)) for key, value in single.items()}


def test_graph_policy_runs_once_for_equal_rows_and_gives_the_same_for_each():
    env = planted_env(ops=8)
    policy, seen = graph_policy(env), observations(env, 3)
    actions, values, log_probs = policy(seen)
    calls = []
    policy.actor.body.register_forward_hook(lambda *_: calls.append(1))
    again, once, entropy = policy.evaluate_actions(seen, actions.float())
    assert len(calls) == 1
    other = {key: value.clone() for key, value in seen.items()}
    other["nodes"][0] *= 0.5
    values_of, log_probs_of, entropy_of = policy.evaluate_actions(other, actions)
    assert len(calls) == 1 + 3
    torch.testing.assert_close(again, values)
    torch.testing.assert_close(once, log_probs.flatten())
    torch.testing.assert_close(log_probs_of.reshape(3, -1)[1:], log_probs[1:])
    torch.testing.assert_close(entropy_of[1:], entropy[1:])
    torch.testing.assert_close(values_of[1:], values[1:])
    assert (entropy_of[0] != entropy[0]).any()


@settings(max_examples=10)
@given(st.integers(0, 1000))
def test_graph_policy_respects_the_mask_of_the_observation(seed):
    env = OneShotEnv(random_dag(seed, ops=6, largest=60_000_000), "nnp-i")
    actions, _, log_probs = graph_policy(env, lean=0.0)(observations(env, 20))
    assert env.problem.mask[np.arange(env.problem.num_decisions), actions.numpy()].all()
    assert (log_probs[:, env.problem.mask.sum(1) == 1] == 0).all()


def test_buffers_keep_choices_apart():
    env = planted_env(ops=4)
    policy, seen, rows = graph_policy(env), observations(env, 6), 6
    buffer = FactoredRolloutBuffer(1, env.observation_space, env.action_space, "cpu", n_envs=rows)
    with torch.no_grad():
        actions, values, log_probs = policy(seen)
    rewards, ended = np.arange(rows, dtype=np.float32), np.ones(rows)
    buffer.reset()
    buffer.add({k: v.numpy() for k, v in seen.items()}, actions.numpy(), rewards, ended, values, log_probs)
    buffer.compute_returns_and_advantage(values, ended)
    (samples,) = buffer.get(rows)
    assert samples.old_log_prob.shape == samples.advantages.shape == (rows * env.problem.num_decisions,)
    torch.testing.assert_close(policy.evaluate_actions(samples.observations, samples.actions)[1], samples.old_log_prob)
    advantage = samples.returns - samples.old_values
    torch.testing.assert_close(samples.advantages.reshape(rows, -1), advantage[:, None].expand(rows, 8))


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=8))
def test_ranks_count_wins_and_losses(rewards):
    values = np.array(rewards, dtype=float)
    wins = np.sign(values[:, None] - values).sum(axis=1)
    np.testing.assert_allclose(ranks(values), wins / max(len(values) - 1, 1), atol=1e-6)


def test_one_shot_steps_go_through_the_evaluator():
    env = OneShotEnv(planted_env(ops=8).task, reward="egrl")
    evaluator = OneShotEvaluator(planted_env(ops=8), budget=5)
    venv = OneShotSearchEnv(evaluator, 3)
    assignments = np.random.default_rng(0).integers(0, 3, (2, 3, 16))
    venv.reset()
    _, rewards, done, _ = venv.step(assignments[0])
    np.testing.assert_array_equal(rewards, ranks(env.score(assignments[0])[0]))
    assert done.all()
    _, rewards, _, _ = venv.step(assignments[1])
    np.testing.assert_array_equal(rewards, [*ranks(env.score(assignments[1, :2])[0]), 0])
    assert evaluator.remaining == 0
    best = env.score(np.concatenate(assignments)[:5])[1].latency_s.min()
    assert evaluator.solution("test", 0).report.latency_s == best


def test_games_count_as_they_end():
    env = small_env("game")
    evaluator = GameEvaluator(env, budget=5)
    venv = GameSearchEnv(evaluator, 3)
    venv.reset()
    rng, latencies = np.random.default_rng(0), []
    for step in range(1, 2 * env.problem.num_decisions + 1):
        legal = np.stack(venv.env_method("action_masks"))
        _, _, done, infos = venv.step((rng.random(legal.shape) * legal).argmax(1))
        assert done.tolist() == [step % env.problem.num_decisions == 0] * 3
        latencies += [info["latency_s"] for info in infos if done.all()]
        assert evaluator.evaluations == min(len(latencies), 5)
    assert evaluator.solution("test", 0).report.latency_s == min(latencies[:5])


@pytest.mark.parametrize("formulation", FORMULATIONS)
@pytest.mark.parametrize("agent", AGENTS)
def test_solutions_are_valid_and_add_up(agent, formulation):
    env, calls = small_env(formulation), []
    solution = agent().solve(env, budget=50, seed=1, callback=calls.append)
    assert violations(env.task, solution.plan) == []
    report = evaluate_plan(env.task, solution.plan)
    assert report.latency_s == solution.report.latency_s == solution.history[-1].latency_s
    assert solution.evaluations == calls[-1].evaluations == 50
    assert solution.outcome == "feasible"
    latencies = [progress.latency_s for progress in solution.history]
    assert latencies == sorted(set(latencies), reverse=True)


@pytest.mark.parametrize("formulation", FORMULATIONS)
@pytest.mark.parametrize("agent", AGENTS)
def test_same_seed_same_plan(agent, formulation):
    env = planted_env(ops=20) if formulation == "one-shot" else small_env(formulation)
    calls = {run: [] for run in range(3)}
    plans = [
        agent().solve(env, budget=48, seed=(7, 7, 8)[run], callback=lambda p, run=run: calls[run].append(p[::2])).plan
        for run in calls
    ]
    assert plans[0] == plans[1]
    assert calls[0] == calls[1]
    if formulation == "one-shot":
        assert calls[0] != calls[2]


@pytest.mark.parametrize("formulation", FORMULATIONS)
def test_budget_and_time_limit_end_a_search(formulation):
    env = small_env(formulation)
    assert PPOAgent().solve(env, budget=1).evaluations == 1
    solution = A2CAgent().solve(env, budget=10**7, time_limit=0.5)
    assert solution.seconds < patience(10)
    assert solution.evaluations < 10**7


class ReachedError(Exception):
    """Ends a search that has reached its optimum."""


def reach(agent, env):
    """Search within 4,000 plans for the optimum of a planted program."""
    optimum = env.task.costs.compute_ps.sum()

    def look(progress):
        latency_ps = round(progress.latency_s * 1e12)
        assert latency_ps >= optimum
        if latency_ps == optimum:
            raise ReachedError

    with pytest.raises(ReachedError):
        agent.solve(env, budget=4000, callback=look)


@pytest.mark.parametrize(("topology", "seed"), [("chain", 2), ("diamond", 2), ("fan-out", 5)])
@pytest.mark.parametrize("agent", [PPOAgent, A2CAgent])
def test_planted_optima_are_reached(agent, topology, seed):
    """On some programs; on others they end within a few per cent of the optimum."""
    reach(agent(entropy=0.3), planted_env(topology, seed=seed))


def test_masked_ppo_reaches_a_planted_optimum_of_the_game():
    """The greedy player does not, nor do 998 of 1,000 random games."""
    env = MallocGameEnv(planted("chain", ops=10, seed=2, accelerator="tpu-v4i").program, "tpu-v4i")
    assert GreedyPlayer().solve(env).report.latency_ps > env.task.costs.compute_ps.sum()
    reach(MaskablePPOAgent(), env)


def test_masked_ppo_never_plays_what_is_illegal():
    env, rng = small_env("game"), np.random.default_rng(0)
    policy = MaskableMultiInputActorCriticPolicy(
        env.observation_space, env.action_space, lambda _: 1e-3, **MaskablePPOAgent.game["policy_kwargs"]
    )
    states = env.problem.new_states(32)
    for _ in range(env.problem.num_decisions):
        legal = env.problem.legal(states)
        actions, _ = policy.predict(env.problem.observe(states)._asdict(), action_masks=legal)
        assert legal[np.arange(32), actions].all()
        env.problem.play(states, rng.integers(0, 3, 32))


@pytest.mark.parametrize("formulation", FORMULATIONS)
def test_policies_are_saved_and_started_from(formulation, tmp_path):
    env = small_env(formulation)
    PPOAgent(out=tmp_path).solve(env, budget=64)
    assert list((tmp_path / CURVES).rglob("events*"))
    other = planted_env(ops=5) if formulation == "one-shot" else MallocGameEnv(random_dag(1, ops=4), "tpu-v4i")
    A2CAgent(policy=tmp_path / POLICY, out=tmp_path / "again").solve(other, budget=1)
    kind = ONE_SHOT_KIND if formulation == "one-shot" else GAME_KIND
    before, after = (safe_files.load(folder / POLICY, kind)["policy"] for folder in (tmp_path, tmp_path / "again"))
    assert before.keys() == after.keys()
    if formulation == "one-shot":  # one round is cut off by the budget, so nothing was learned
        assert all((before[name] == after[name]).all() for name in before)


@pytest.mark.parametrize("formulation", FORMULATIONS)
def test_foreign_policies_are_refused(formulation, tmp_path):
    env = small_env(formulation)
    kind, other = (ONE_SHOT_KIND, GAME_KIND) if formulation == "one-shot" else (GAME_KIND, ONE_SHOT_KIND)
    path = tmp_path / POLICY
    with pytest.raises(AgentError, match="no file"):
        PPOAgent(policy=path).solve(env, budget=1)
    torch.save({"format": "memplace", "kind": kind, "content": {"policy": path}}, path)
    with pytest.raises(AgentError, match=re.escape(str(path))):
        PPOAgent(policy=path).solve(env, budget=1)
    safe_files.save(path, other, {"policy": {}})
    with pytest.raises(AgentError, match=f"{kind}.* is needed"):
        PPOAgent(policy=path).solve(env, budget=1)
    PPOAgent(out=tmp_path / "own").solve(env, budget=1)
    own = safe_files.load(tmp_path / "own" / POLICY, kind)["policy"]
    for value, message in ((torch.nan, "not finite"), (3e38, "computes no numbers")):
        safe_files.save(path, kind, {"policy": {name: torch.full_like(weight, value) for name, weight in own.items()}})
        with pytest.raises(AgentError, match=message):
            PPOAgent(policy=path).solve(env, budget=1)
    for content in ({}, {"policy": 3}, {"policy": {}}, {"policy": {"critic.weight": torch.zeros(3)}}):
        safe_files.save(path, kind, content)
        with pytest.raises(AgentError, match="other layers"):
            PPOAgent(policy=path).solve(env, budget=1)


def test_nonsense_is_refused():
    with pytest.raises(AgentError, match="at least 1"):
        PPOAgent().solve(planted_env(), budget=0)
    with pytest.raises(AgentError, match="time limit"):
        A2CAgent().solve(small_env("game"), time_limit=0)
    with pytest.raises(AgentError, match="entropy"):
        PPOAgent(entropy=-0.1)
    with pytest.raises(EnvError, match="formulation"):
        PPOAgent().solve(gym.make("CartPole-v1"))
