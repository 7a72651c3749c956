"""States that are handed in: only those that legal play leads to are taken, whoever made them."""

import pickle

import gymnasium as gym
import numpy as np
import pytest

from memplace_env._lib.errors import EnvError, MemPlaceError
from memplace_env.envs.malloc_game import MallocGameEnv, known
from memplace_env.envs.malloc_game.state import BLOCKS, ESTIMATE, HEAD, LIVE, PAST, USE
from tests.fuzz import Wrong
from tests.fuzz.kinds import states as campaign
from tests.offenders import every
from tests.test_all_envs import GENERIC

WORKLOAD = "synthetic:diamond?ops=9&seed=1&accelerator=tpu-v4i"


def played(env, decisions, seed=0):
    rng = np.random.default_rng(seed)
    env.reset()
    for _ in range(decisions):
        env.step(int(rng.choice(env.legal_actions())))
    return env.get_state()


@pytest.fixture(scope="module")
def env():
    return MallocGameEnv(WORKLOAD)


@pytest.fixture(scope="module")
def other():
    """Remembers no state of `env`."""
    return MallocGameEnv(WORKLOAD)


@pytest.mark.parametrize("decisions", [0, 1, 14, None])
def test_states_travel(env, other, decisions):
    decisions = env.problem.num_decisions if decisions is None else decisions
    state = played(env, decisions)
    other.set_state(state)
    pickle.loads(pickle.dumps(env)).set_state(state)
    assert np.array_equal(other.get_state(), state)
    if decisions < env.problem.num_decisions:
        assert other.step(2)[1] == env.step(2)[1]


def test_states_of_planners_are_taken(env, other):
    for finish in (env.problem.finish_greedily, lambda states: env.problem.finish_randomly(states, 3)):
        states = played(env, 9)[None].copy()
        finish(states)
        other.set_state(states[0])
        assert other.plan() == env.problem.plan(states[0])


@every("place", [*range(HEAD), "any"])
@every("by", [1, -1, 2**40, -(2**62)])
def test_every_field_is_checked(env, place, by):
    state = played(env, 20)
    rng = np.random.default_rng(5)
    for where in rng.integers(HEAD, len(state), 20) if place == "any" else [place]:
        spoilt = state.copy()
        spoilt[where] += by
        with pytest.raises(EnvError, match=r"^No legal play of this game leads to this state; pass one that"):
            env.set_state(spoilt)
    assert np.array_equal(env.get_state(), state)


def test_states_of_another_game_are_refused(env):
    elsewhere = MallocGameEnv("synthetic:diamond?ops=9&seed=2&accelerator=tpu-v4i")
    state = played(elsewhere, 20)
    assert len(state) == env.problem.size
    with pytest.raises(EnvError, match="No legal play"):
        env.set_state(state)


@every(
    ("turned", "sentence"),
    [
        (lambda state: state[:-1], r"int64\[\d+\], as get_state gives it, not int64\[\d+\]"),
        (lambda state: state[None], r"not int64\[1, \d+\]"),
        (lambda state: state.astype(float), "not float64"),
        (lambda state: state.astype(">i8"), "not >i8"),
        (lambda state: state.tolist(), "not list"),
        (lambda state: None, "not NoneType"),
    ],
)
def test_what_is_no_state(env, turned, sentence):
    with pytest.raises(EnvError, match=sentence):
        env.set_state(turned(played(env, 3)))


def test_views_are_states_too(env, other):
    other.set_state(np.repeat(played(env, 7), 2)[::2])


def test_states_that_were_given_out_are_not_played_again(env, monkeypatch):
    state = played(env, 12)
    monkeypatch.setattr(known, "is_reached", None)
    env.set_state(state)
    env.fork().set_state(state)


def test_few_states_are_remembered(monkeypatch):
    monkeypatch.setattr(known, "_MOST", 5)
    env = MallocGameEnv(WORKLOAD)
    states = [played(env, decisions) for decisions in range(12)]
    assert len(env.problem.known._digests) <= 5
    for state in states:
        env.set_state(state)


def test_lists_of_blocks_that_lead_out_of_the_state(env):
    """States with wild indices, which would end the process in a kernel, are refused."""
    state = played(env, 30)
    for field in (BLOCKS, LIVE, PAST, USE):
        for value in (-(2**63), -1, 2**40, 2**63 - 1):
            spoilt = state.copy()
            spoilt[field] = value
            with pytest.raises(EnvError):
                env.set_state(spoilt)


def test_assignments_are_states():
    env = gym.make("MemPlace-v0", **GENERIC["MemPlace-v0"]).unwrapped
    for state in ([0] * 17, np.full(18, 9), np.full(18, -1), np.zeros(18), "state", 3):
        with pytest.raises(MemPlaceError, match=r"of shape \(18,\)|levels"):
            env.set_state(state)
    env.set_state(None)
    assert env.plan() == env.problem.native_plan


def test_some_cases_of_the_campaign(tmp_path):
    prepared, taken = campaign.prepare(tmp_path), 0
    for number in range(300):
        try:
            taken += campaign.case(prepared, np.random.default_rng([1, number]), tmp_path)
        except MemPlaceError:
            continue
    assert 10 < taken < 150


def test_the_campaign_would_tell(tmp_path, monkeypatch):
    games = campaign.prepare(tmp_path)[:3]
    monkeypatch.setattr(known.KnownStates, "check", lambda self, state: np.array(state))
    monkeypatch.setattr(campaign, "_spoil", lambda state, other, rng: state + (np.arange(len(state)) == ESTIMATE))
    with pytest.raises(Wrong):
        campaign.case(games, np.random.default_rng(0), tmp_path)
