"""Registered environments: the checkers of Gymnasium and Stable-Baselines3, determinism, pickling, forks, latencies.

Each id is made once for all checks. CI takes the first id of each family of programs and of each chip, in each
formulation, and the generic ones; `pytest tests/test_all_envs.py --thorough` takes every id.
"""

import json
import pickle
import warnings

import gymnasium as gym
import numpy as np
from gymnasium.utils.env_checker import check_env
from stable_baselines3.common.env_checker import check_env as sb3_check_env

import memplace_env
from memplace_env.envs.malloc_game.step import step_all
from memplace_env.envs.placement_env import formulation_of
from memplace_env.envs.registration import DRAWN, Formulation, formulation_of_id
from memplace_env.envs.splits import family_of
from memplace_env.envs.steps.step_kernels import step_and_observe_all
from memplace_env.placement.compiler import resident
from memplace_env.placement.validation import violations
from tests.envs.golden import GOLDEN, latencies
from tests.offenders import offenders

GENERIC = {
    "MemPlace-v0": {"workload": "synthetic:diamond?ops=9&seed=1"},
    "MemPlaceSteps-v0": {"workload": "synthetic:diamond?ops=9&seed=1"},
    "MallocGame-v0": {"workload": "synthetic:diamond?ops=9&seed=1&accelerator=tpu-v4i"},
}
FORMULATIONS = (Formulation.ONE_SHOT, Formulation.STEPS, Formulation.GAME)
"""Formulations with environments of their own."""
TINY = [each.traits.env_id("Tiny") for each in FORMULATIONS]
MANY_IDS = tuple(
    formulation.traits.env_id(name) for formulation in Formulation if formulation.traits.drawn for name in DRAWN
)
IDS = sorted(env_id for env_id in gym.registry if env_id.startswith(("MemPlace", "MallocGame")))


def sample():
    """The ids of no program, tiny ones or many, and of each formulation the first of each family, chip and variant."""
    firsts = {}
    for formulation in FORMULATIONS:
        traits = formulation.traits
        for name, settings in traits.settings.items():
            chip = settings.get("accelerator", traits.accelerator)
            for kind in (family_of(name, settings), chip):
                firsts.setdefault((formulation, kind), traits.env_id(name))
        for name in traits.variants:
            firsts.setdefault((formulation, name.rpartition("-")[2]), traits.env_id(name))
    return sorted({*GENERIC, *TINY, *MANY_IDS, *firsts.values()})


def pytest_generate_tests(metafunc):
    if "env_id" in metafunc.fixturenames:
        metafunc.parametrize("env_id", IDS if metafunc.config.getoption("thorough") else sample())


def test_what_is_registered():
    traits = [formulation.traits for formulation in FORMULATIONS]
    named = {each.env_id(name) for each in traits for name in each.named}
    assert set(IDS) == {*GENERIC, *TINY, *MANY_IDS, *named}
    memplace_env.register_envs()
    assert gym.make("memplace_env:MemPlace-ResNet50-v0").spec.kwargs["workload"] == "ResNet50"


def test_every_check_holds(env_id):
    env = gym.make(env_id, **GENERIC.get(env_id, {}))
    checks = (golden_latencies, formulation, checkers, runs, states, copies, infos, masks)
    failed = offenders(lambda check: check(env), [(check,) for check in checks])
    env.close()
    assert not failed, "\n".join(failed)


def golden_latencies(env):
    """Latencies that the version of an id stands for: if they change, the version must rise."""
    if env.spec.id not in (*GENERIC, *MANY_IDS):
        assert latencies(env.unwrapped) == json.loads(GOLDEN.read_text())[env.spec.id]


def formulation(env):
    assert formulation_of(env) is env.unwrapped.formulation is formulation_of_id(env.spec.id)


def checkers(env):
    check_env(env.unwrapped, skip_render_check=True)
    with warnings.catch_warnings():
        # Advice, not a fault: graphs and sequences are two-dimensional, since networks want them so.
        warnings.filterwarnings("ignore", "Your observation (nodes|edge_index|lookahead) has an unconventional shape")
        sb3_check_env(env, skip_render_check=True)


def runs(env):
    """Two runs and a fork in the middle see, earn and end the same; a fork is independent."""
    actions = rollout(env, seed=3)[1]
    first, again = rollout(env, 3, actions)[0], rollout(env, 3, actions)[0]
    assert_same(again, first)
    core = env.unwrapped
    core.reset(seed=3)
    for action in actions[: len(actions) // 2]:
        core.step(action)
    fork, plan = core.fork(), core.plan()
    assert fork.plan() == plan
    rest = [fork.step(action) for action in actions[len(actions) // 2 :]]
    assert core.plan() == plan, "playing on in the fork leaves the original as it is"
    assert_same(rest, first[len(actions) // 2 :])
    assert_same([core.step(action) for action in actions[len(actions) // 2 :]], rest)
    assert violations(core.task, core.plan()) == []


def rollout(env, seed, actions=None, longest=60):
    """Steps of one episode (or its beginning), and the actions played."""
    env.reset(seed=seed)
    env.action_space.seed(seed)
    steps, played = [], []
    for index in range(longest if actions is None else len(actions)):
        played.append(env.action_space.sample() if actions is None else actions[index])
        steps.append(env.step(played[-1]))
        if steps[-1][2]:
            break
    return steps, played


def states(env):
    core = env.unwrapped
    core.reset(seed=4)
    before = core.plan()
    core.step(env.action_space.sample())
    state, plan = core.get_state(), core.plan()
    core.reset(seed=4)
    assert core.plan() == before
    core.set_state(state)
    assert core.plan() == plan


def copies(env):
    assert gym.envs.registration.EnvSpec.from_json(env.spec.to_json()).make().action_space == env.action_space
    env.reset()
    copy = pickle.loads(pickle.dumps(env.unwrapped))
    compiled = len(kernel_of(env).signatures)
    action = env.action_space.sample()
    assert_same(copy.step(action), env.unwrapped.step(action))
    assert len(kernel_of(env).signatures) <= max(compiled, 1), "a copy that needs machine code of its own is slow"


def kernel_of(env):
    """The kernel that steps the environment."""
    kernels = {
        Formulation.ONE_SHOT: resident.place_all,
        Formulation.STEPS: step_and_observe_all,
        Formulation.GAME: step_all,
    }
    return kernels[env.unwrapped.formulation]


def infos(env):
    """The keys and types are the same after a reset and after a step."""
    started, taken = env.reset()[1], env.step(env.action_space.sample())[4]
    assert started.keys() == taken.keys()
    assert {key: type(value) for key, value in started.items()} == {key: type(value) for key, value in taken.items()}


def masks(env):
    """Masks are booleans, equal to those of the observation, and leave every decision an action."""
    observation, _ = env.reset()
    legal = env.unwrapped.action_masks()
    sizes = getattr(env.action_space, "nvec", np.array([3]))
    assert legal.shape == (sizes.sum(),)
    assert legal.dtype == bool
    seen = observation["action_mask"] if isinstance(observation, dict) else observation[: len(legal)]
    assert (legal == seen).all()
    assert legal.reshape(len(sizes), -1).any(axis=1).all()


def assert_same(ours, theirs):
    if isinstance(theirs, dict):
        assert set(ours) == set(theirs)
        for key in theirs:
            assert_same(ours[key], theirs[key])
    elif isinstance(theirs, tuple | list):
        assert len(ours) == len(theirs)
        for a, b in zip(ours, theirs, strict=True):
            assert_same(a, b)
    elif isinstance(theirs, np.ndarray) and theirs.dtype == object:
        for a, b in zip(ours, theirs, strict=True):
            assert_same(a, b)
    else:
        assert np.asarray(ours).dtype == np.asarray(theirs).dtype
        np.testing.assert_array_equal(ours, theirs)
