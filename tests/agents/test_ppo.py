"""The library's PPO: what counts, drawn programs, several programs, policies, and how many steps an episode has."""

import gymnasium as gym
import numpy as np
import pytest

from memplace_agents import PPO
from memplace_agents.built_in_agents import POLICY
from memplace_agents.ppo import ppo_run
from memplace_agents.ppo.actor_critic import ActorCritic
from memplace_agents.ppo.counted_envs import CountedEpisodes
from memplace_agents.ppo.ppo_config import PPOSettings
from memplace_agents.search.cheap_plans import cheap_plans
from memplace_agents.search.evaluator import GameEvaluator, StepsEvaluator, evaluator_for
from memplace_env._lib.errors import AgentError
from memplace_env._lib.units import PS
from memplace_env.envs.many.drawn import LEAST_GAIN
from memplace_env.envs.wrappers import MeasurementNoise
from memplace_env.placement.simulator import evaluate_plan
from memplace_env.testing import check_agent
from tests.agents.plan_gradient import env_of, small_ppo
from tests.agents.test_learning_agent import plain

FORMULATIONS = ["one-shot", "steps", "game"]


@pytest.mark.parametrize("formulation", FORMULATIONS)
def test_a_search_begins_with_the_rules(formulation):
    env = env_of(formulation)
    solution = small_ppo().solve(env, budget=90, seed=1)
    assert solution.evaluations == 90
    rules = [evaluate_plan(env.task, plan).latency_s for plan in cheap_plans(env.problem).values()]
    assert solution.report.latency_s <= min(rules)


def test_steps_are_played_by_the_contract():
    check_agent(small_ppo(), env_of("steps"), budget=45, seed=7, time_limit=0.1)


@pytest.mark.parametrize("formulation", ["steps", "game"])
@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_episodes_count_as_they_end_and_returns_are_those_of_their_latencies(formulation, noise):
    env, rng, seen = env_of(formulation), np.random.default_rng(0), []
    evaluator = evaluator_for(MeasurementNoise(env, noise) if noise else env, PPO.formulations, budget=400)
    offer = evaluator.offer_ended
    evaluator.offer_ended = lambda *ended: seen.append(offer(*ended)) or seen[-1]
    episodes = CountedEpisodes([evaluator], 3, 0)
    while evaluator.evaluations < 9:
        legal = np.stack(episodes.env_method("action_masks"))
        episodes.step((rng.random(legal.shape) * legal).argmax(1))
        assert evaluator.evaluations == len(episodes.returns)
    over = evaluator.baseline_s / np.concatenate(seen)
    assert episodes.returns == pytest.approx((over if formulation == "steps" else 100 * (1 - 1 / over)).tolist())
    assert noise or evaluator.best_speedup == over.max()


@pytest.mark.parametrize("family", ["MallocGame", "MemPlaceSteps"])
def test_drawn_programs_are_trained_on_and_resumed(family):
    """Episodes of all programs count; a run that goes on from a saved state is the unbroken run."""

    def run(rounds, state=None):
        env = gym.make(f"{family}-Synthetic-v0").unwrapped
        evaluator = evaluator_for(env, PPO.formulations, budget=10_000)
        made = small_ppo().new_run([evaluator], 3)
        made.begin() if state is None else made.load_state_dict(state)
        first = evaluator.evaluations
        for _ in range(rounds):
            made.step()
        return made, evaluator.evaluations - first

    half, counted = run(60)
    assert counted >= 4
    whole, resumed = run(75)[0], run(15, half.state_dict())[0]
    assert plain(whole.state_dict()) == plain(resumed.state_dict())


@pytest.mark.parametrize("formulation", ["steps", "game"])
def test_rewards_of_several_programs_have_the_unit_of_their_best_rules(formulation):
    evaluators = [evaluator_for(env_of(formulation, seed), PPO.formulations, budget=400) for seed in (3, 4)]
    run = small_ppo().new_run(evaluators, 0)
    run.begin()
    for program, evaluator in enumerate(evaluators):
        row = next(row for row in range(4) if run._envs._of[row] == program)
        gain = 1 - evaluator.best_latency_s / (evaluator.env.problem.all_backing_ps * PS)
        assert run._envs._return_of(row, evaluator.best_latency_s) == pytest.approx(100 * min(gain / LEAST_GAIN, 1))
        assert (run._envs._of == program).sum() == 2


def test_schedules_fall_with_the_budget_and_falls_are_kept(monkeypatch):
    monkeypatch.setattr(ppo_run, "LATEST", 2)
    run = small_ppo().new_run([GameEvaluator(env_of("game"), budget=400)], 0)
    run.begin()
    for left in (1.0, 0.5, 0.1):
        monkeypatch.setattr(GameEvaluator, "fraction_left", left)
        run.step()
        assert run._model.ent_coef == pytest.approx(0.01 * left)
        assert run._model.policy.optimizer.param_groups[0]["lr"] == pytest.approx(1e-3 * left)
        assert run._model.rollout_buffer.gae_lambda == 1
    for returns, peak, fall in (([7000.0] * 2, 7000, 0), ([5000.0] * 2, 7000, 2000), ([7500.0] * 2, 7500, 2000)):
        run._envs.returns = returns
        run._look_back()
        assert (run._peak, run._fall) == (peak, fall)


def test_foreign_policies_and_environments_are_refused():
    for formulation in FORMULATIONS:
        with pytest.raises(AgentError, match="5 inputs and 1 x 3 actions"):
            PPO(policy=ActorCritic(5, 4, 1, 3)).solve(env_of(formulation), budget=1)
    for others in (("one-shot", "one-shot"), ("game", "steps")):
        with pytest.raises(AgentError, match="trains on games"):
            PPO().train([env_of(*other) for other in zip(others, (3, 4), strict=True)])
    with pytest.raises(AgentError, match=r"PPOSettings\.envs must be a whole number, not 1\.5"):
        PPOSettings(envs=1.5)
    with pytest.raises(AgentError, match=r"PPOSettings\.width must be a whole number, not 'a'"):
        PPOSettings(width="a")


def test_a_policy_plays_its_greedy_plan_first(tmp_path):
    env = env_of("steps")
    small_ppo(out=tmp_path).solve(env, budget=60)
    evaluator = StepsEvaluator(env, budget=400)
    run = small_ppo(policy=tmp_path / POLICY).new_run([evaluator], 9)
    run.begin()
    rules = evaluator.evaluations
    first = run._envs.play_greedily(run._model, 0)
    assert evaluator.evaluations == rules + 1
    assert run._envs.play_greedily(run._model, 0) == first


@pytest.mark.parametrize("family", ["MemPlaceSteps", "MallocGame", "MemPlace"])
def test_episodes_have_so_many_steps(family):
    vector = gym.make_vec(f"{family}-Tiny-v0", num_envs=2).unwrapped
    env, steps, over = gym.make(f"{family}-Tiny-v0").unwrapped, 0, False
    env.reset(seed=0)
    while not over:
        over, steps = env.step(env.action_space.sample())[2], steps + 1
    assert env.n_steps == vector.n_steps == steps


def test_steps_of_games_that_skip_what_is_forced():
    env = gym.make("MallocGame-Tiny-v0", skip_forced=True).unwrapped
    drawn = gym.make_vec("MallocGame-Synthetic-v0", num_envs=3).unwrapped
    drawn.reset(seed=0)
    counts = [drawn.env.steps_of(problem) for problem in drawn.batch.problems]
    assert 1 <= env.n_steps < env.problem.num_decisions
    assert sum(counts) / 3 <= drawn.n_steps < sum(counts) / 3 + 1
