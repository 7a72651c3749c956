"""Small worlds for tree searches."""

from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st

from memplace_agents.muzero.batched_search import search
from memplace_agents.muzero.gumbel import Gumbel
from memplace_agents.muzero.search_types import ROOT_INDEX, RecurrentOutput, RootOutput
from tests.references.reference_search import Evaluation

STATES = 40


class World(NamedTuple):
    """A small world: by state and action the next state and the reward, by state the value, policy, legal actions."""

    next_state: np.ndarray
    reward: np.ndarray
    value: np.ndarray
    logits: np.ndarray
    legal: np.ndarray

    def root(self, states):
        return RootOutput(self.value[states], self.logits[states])

    def evaluation(self, state, reward=0.0):
        arrays = (self.value[state].item(), self.logits[state].tolist(), self.legal[state].tolist())
        return Evaluation(state, reward, *arrays)

    def evaluate(self, state, action):
        return self.evaluation(self.next_state[state, action].item(), self.reward[state, action].item())


class WorldModel:
    """Plays in a world; keeps a state number for each node. `masked` says whether it knows legal actions."""

    def __init__(self, world, roots, num_simulations, masked=True):
        self.world, self.masked = world, masked
        self.states = np.full((len(roots), num_simulations + 1), -1)
        self.states[:, ROOT_INDEX] = roots
        self.games = np.arange(len(roots))

    def evaluate(self, parents, actions, node):
        world, states = self.world, self.states[self.games, parents]
        assert (states >= 0).all()
        next_states = self.states[:, node] = world.next_state[states, actions]
        legal = world.legal[next_states] if self.masked else None
        rewards = world.reward[states, actions]
        return RecurrentOutput(rewards, world.value[next_states], world.logits[next_states], legal)


def random_world(seed, actions, *, ends=0.15, forbidden=0.3, coarse=False):
    """`coarse` numbers are few, so that there are ties."""
    rng = np.random.default_rng(seed)
    legal = (rng.random((STATES, actions)) >= forbidden) & (rng.random((STATES, 1)) >= ends)
    reward, logits = rng.normal(size=(2, STATES, actions)) * [[[1.0]], [[2.0]]]
    value = rng.normal(size=STATES)
    if coarse:
        reward, value, logits = np.round(reward), np.round(value), np.round(logits / 2)
    return World(rng.integers(0, STATES, (STATES, actions)), reward, value, logits, legal)


class GameGenerators:
    """Gumbel noise from one generator for each game, so that no game depends on the others."""

    def __init__(self, games, seed=0):
        self.generators = [np.random.default_rng([seed, game]) for game in games]

    def gumbel(self, size):
        assert size[0] == len(self.generators)
        return np.concatenate([rng.gumbel(size=(1, size[1])) for rng in self.generators])


def run_search(world, roots, num_simulations, settings, seed=0, discount=1.0, masked=True):
    """Search from root states with one generator for each game."""
    roots, rng = np.asarray(roots), GameGenerators(range(len(roots)), seed)
    model = WorldModel(world, roots, num_simulations, masked)
    options = {"num_simulations": num_simulations, "rng": rng, "settings": settings, "discount": discount}
    return search(model, world.root(roots), world.legal[roots], **options)


gumbels = st.builds(
    Gumbel,
    max_num_considered_actions=st.integers(1, 6),
    c_visit=st.sampled_from([0.0, 1.0, 50.0]),
    c_scale=st.sampled_from([0.0, 0.1, 1.0]),
    normalise=st.booleans(),
    noise_scale=st.sampled_from([0.0, 1.0]),
)
worlds = st.builds(
    random_world,
    st.integers(0, 2**32),
    st.integers(1, 6),
    ends=st.sampled_from([0.0, 0.15, 0.6]),
    forbidden=st.sampled_from([0.0, 0.3]),
    coarse=st.booleans(),
)
counts = st.integers(1, 40)
