"""Policies as agents: they play what the environments play, in batches, within the budget and by the seed."""

import gymnasium as gym
import numpy as np
import pytest

from memplace_agents import PolicyAgent
from memplace_env._lib.errors import ActionError, AgentError
from memplace_env.envs.registration import formulation_of_id
from memplace_env.envs.wrappers import MeasurementNoise
from memplace_env.testing import check_agent

IDS = "MemPlace-Tiny-v0", "MemPlaceSteps-Tiny-v0", "MallocGame-Tiny-v0"


def last_legal(observations, masks):
    """The last legal choice of each decision."""
    return masks.shape[-1] - 1 - masks[..., ::-1].argmax(axis=-1)


class Drawing:
    """Draws legal choices, and remembers the batches that it saw."""

    def __init__(self):
        self.batches, self.rng = [], None

    def seed(self, seed):
        self.rng = np.random.default_rng(seed)

    def __call__(self, observations, masks):
        self.batches.append((observations, masks))
        return (self.rng.random(masks.shape) * masks).argmax(axis=-1)


@pytest.mark.parametrize("env_id", IDS)
def test_a_deterministic_policy_plays_one_episode_as_the_environment_does(env_id):
    env = gym.make(env_id).unwrapped
    env.reset()
    over = False
    while not over:
        masks = env.action_masks().reshape(1, -1, env.problem.accelerator.num_levels if env_id == IDS[0] else 3)
        action = last_legal(None, masks)[0]
        over = env.step(action if env_id == IDS[0] else action[0])[2]
    agent = PolicyAgent(last_legal, formulation_of_id(env_id))
    solution = agent.solve(env_id, budget=50)
    assert solution.plan == env.plan()
    assert solution.evaluations == 1
    assert (agent.deterministic, agent.budgeted) == (True, False)


@pytest.mark.parametrize("env_id", IDS)
@pytest.mark.parametrize("form", ["flat", "dict", "graph"])
def test_policies_see_what_environments_show(env_id, form):
    policy = Drawing()
    solution = PolicyAgent(policy, formulation_of_id(env_id), form, policy.seed).solve(env_id, budget=70, seed=1)
    assert solution.evaluations == 70
    assert [len(masks) for _, masks in policy.batches][:: len(policy.batches) - 1] == [1, 5]
    env = gym.make(env_id, observation=form)
    for seen, masks in (policy.batches[0], policy.batches[-1]):
        rows = [
            {key: array[row] for key, array in seen.items()} if form == "dict" else seen[row]
            for row in range(len(masks))
        ]
        assert all(row in env.observation_space for row in rows)
        assert masks.any(axis=-1).all()


def test_policies_keep_the_contract_of_agents():
    for env_id in ("MemPlace-v0", "MallocGame-v0", "MemPlaceSteps-v0"):
        policy = Drawing()
        env = gym.make(env_id, workload="synthetic:diamond?ops=6&seed=1&accelerator=tpu-v4i", accelerator="tpu-v4i")
        for seed in (None, policy.seed):
            act = policy if seed else last_legal
            check_agent(PolicyAgent(act, env.unwrapped.formulation, seed=seed), env)


def test_measured_episodes_count():
    policy = Drawing()
    env = MeasurementNoise(gym.make(IDS[1]), 0.1)
    assert PolicyAgent(policy, "steps", seed=policy.seed).solve(env, budget=30).evaluations == 30


def test_what_cannot_be_played_is_refused():
    class Trained(PolicyAgent):
        """A policy that knows its game."""

        name, formulations = "trained", ("game",)

    assert Trained(last_legal).solve(IDS[2]).plan
    for formulation, form in (("dynamic", "flat"), (None, "flat"), ("game", "pixels")):
        with pytest.raises(AgentError, match="A policy plays one of one-shot, steps, game"):
            PolicyAgent(last_legal, formulation, form)
    with pytest.raises(AgentError, match="mallocGame"):
        Trained(last_legal).solve(IDS[1])
    with pytest.raises(ActionError, match="An action is"):
        PolicyAgent(lambda seen, masks: masks, "game").solve(IDS[2])
    with pytest.raises(AgentError, match=r"of predict's pair take \[0\]"):
        PolicyAgent(lambda seen, masks: (last_legal(seen, masks), None), "game").solve(IDS[2])
    for act, seed in ((3, None), (last_legal, 0)):
        with pytest.raises(AgentError, match="must be a function"):
            PolicyAgent(act, "game", seed=seed)
