"""Environments in threads, forks and other processes get, bit by bit, what plain play gets."""

from __future__ import annotations

import copy
import hashlib
import multiprocessing
import os
import pickle
import signal
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Event
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv

import memplace_env  # noqa: F401
from memplace_env._lib.threads import cached_property

STEPS = 12
WAIT_S = 60.0
"""Time after which a process counts as hanging."""

SETTINGS: dict[str, dict[str, Any]] = {
    "MemPlace-v0": {"workload": "synthetic:diamond?ops=9&seed=1"},
    "MallocGame-v0": {"workload": "synthetic:diamond?ops=9&seed=1&accelerator=tpu-v4i"},
    "MemPlaceSteps-v0": {"workload": "synthetic:diamond?ops=9&seed=1"},
}


def make(env_id: str, **more: Any) -> Any:
    """Return a single environment."""
    return gym.make(env_id, **SETTINGS[env_id], **more)


def make_many(env_id: str, count: int, **more: Any) -> Any:
    """Return our own vector environment."""
    return gym.make_vec(env_id, num_envs=count, **SETTINGS[env_id], **more)


def play(env: Any, seed: int, steps: int = STEPS) -> str:
    """Return a digest of everything that a vector environment returns while random actions are played."""
    said = hashlib.sha256()
    _add(said, env.reset(seed=seed))
    rng = np.random.default_rng(seed)
    shape, high = env.action_space.shape, _levels(env)
    for _ in range(steps):
        _add(said, env.step(rng.integers(0, high, shape)))
    return said.hexdigest()


def in_threads(env_id: str, seed: int) -> bool:
    """Play in eight threads, each with a vector environment large enough for worker threads."""
    seeds = [seed + index for index in range(8)]
    alone = [play(make_many(env_id, 160), one, 8) for one in seeds]
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda one: play(make_many(env_id, 160), one, 8), seeds))
    return together == alone


def in_processes(env_id: str, seed: int, context: str) -> bool:
    """Compare Gymnasium's own vector environment with a process for each copy with the one without."""
    makers = [partial(make, env_id)] * 3
    plain, apart = SyncVectorEnv(makers), AsyncVectorEnv(makers, context=context)
    try:
        return play(plain, seed) == play(apart, seed)
    finally:
        apart.close(terminate=True)
        plain.close()


def in_subprocesses(env_id: str, seed: int) -> bool:
    """Compare Stable-Baselines3's vector environments with and without processes."""
    from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv

    makers, said = [partial(make, env_id)] * 2, []
    for kind in (DummyVecEnv, SubprocVecEnv):
        env, digest, rng = kind(makers), hashlib.sha256(), np.random.default_rng(seed)
        env.seed(seed)
        _add(digest, env.reset())
        for _ in range(STEPS):
            actions = rng.integers(0, _levels(env), (2, *env.action_space.shape))
            seen, rewards, over, _ = env.step(actions)
            _add(digest, (seen, rewards.astype(np.float32), over))  # float32 without processes, float64 with them
        env.close()
        said.append(digest.hexdigest())
    return said[0] == said[1]


def in_forks(env_id: str, seed: int) -> bool:
    """Check that children that are forked while threads work play as their parent does."""
    expected, over = play(make_many(env_id, 160), seed, 8), Event()

    def work(one: int) -> None:
        env = make_many(env_id, 160)
        while not over.is_set():
            play(env, one, 4)

    fork, answers = multiprocessing.get_context("fork"), []
    with ThreadPoolExecutor(3) as pool:
        busy = [pool.submit(work, seed + index) for index in range(3)]
        for _ in range(3):
            ours, theirs = fork.Pipe(duplex=False)
            child = fork.Process(target=_answer, args=(theirs, env_id, seed))
            child.start()
            answers.append(ours.recv() if ours.poll(WAIT_S) else "hangs")
            child.kill() if answers[-1] == "hangs" else child.join()
        over.set()
        for one in busy:
            one.result()
    return answers == [expected] * 3


def as_copies(env_id: str, seed: int) -> bool:
    """Check that pickled and deep copies in the middle of an episode continue as the original does."""
    env = make_many(env_id, 5)
    play(env, seed, 7)
    single = make(env_id)
    single.reset(seed=seed)
    single.step(single.action_space.sample() * 0)
    said = []
    for core, twins in ((env.unwrapped, ()), (single.unwrapped, ())):
        twins = (core, copy.deepcopy(core), pickle.loads(pickle.dumps(core)))
        ends = {_go_on(twin, seed) for twin in twins}
        said.append(len(ends) == 1)
    return all(said)


def with_a_kill(env_id: str, seed: int) -> bool:
    """Kill a process of Gymnasium's vector environment: an error, no hang, and a new environment works."""
    rng = np.random.default_rng(seed)
    env = AsyncVectorEnv([partial(make, env_id)] * 3, context="fork")
    env.reset(seed=seed)
    victim = env.processes[rng.integers(3)]
    os.kill(victim.pid, signal.SIGKILL)
    victim.join()
    try:
        env.step_async(env.action_space.sample())
        env.step_wait(timeout=WAIT_S)
        failed = False
    except (EOFError, OSError):
        failed = True
    env.close(terminate=True)
    return failed and in_processes(env_id, seed, "fork")


def _answer(pipe: Any, env_id: str, seed: int) -> None:
    pipe.send(play(make_many(env_id, 160), seed, 8))


def _go_on(env: Any, seed: int) -> str:
    said, rng = hashlib.sha256(), np.random.default_rng(seed)
    for _ in range(3):
        _add(said, env.step(rng.integers(0, _levels(env), env.action_space.shape)))
    return said.hexdigest()


def _levels(env: Any) -> Any:
    """Return the number above the largest action."""
    space = getattr(env, "single_action_space", env.action_space)
    return int(space.nvec[0]) if hasattr(space, "nvec") else int(space.n)


def _add(said: Any, value: Any) -> None:
    """Update the digest with the result of an environment, whatever its form."""
    if isinstance(value, dict):
        for key in sorted(value):
            said.update(key.encode())
            _add(said, value[key])
    elif isinstance(value, tuple | list):
        for one in value:
            _add(said, one)
    elif isinstance(value, np.ndarray) and value.dtype != object:
        said.update(f"{value.dtype}{value.shape}".encode() + np.ascontiguousarray(value).tobytes())
    elif isinstance(value, np.ndarray):
        _add(said, value.tolist())
    else:
        said.update(repr(value).encode())


WAYS = {
    "8 threads": in_threads,
    "processes, fork": partial(in_processes, context="fork"),
    "forks beside threads": in_forks,
    "copies": as_copies,
    "a worker killed": with_a_kill,
}
SLOW_WAYS = {"processes, spawn": partial(in_processes, context="spawn"), "SubprocVecEnv": in_subprocesses}


@pytest.mark.parametrize("env_id", SETTINGS)
@pytest.mark.parametrize(
    "way",
    [*WAYS.values(), *(pytest.param(way, marks=pytest.mark.thorough) for way in SLOW_WAYS.values())],
    ids=[*WAYS, *SLOW_WAYS],
)
def test_equal_to_plain_play(way, env_id):
    assert way(env_id, 7)


def test_kept_properties():
    class Owner:
        made = 0

        @cached_property
        def value(self):
            """A documented attribute."""
            self.made += 1
            return self.made

    owner = Owner()
    assert (owner.value, owner.value, vars(owner)["value"]) == (1, 1, 1)
    del owner.value
    assert owner.value == 2
    assert Owner.value.__doc__ == "A documented attribute."
    assert not hasattr(Owner.value, "lock"), "a fork would keep it locked"
