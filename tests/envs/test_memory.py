"""Memory does not grow in long use."""

from __future__ import annotations

import gc
import mmap
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import memplace_env  # noqa: F401
from memplace_env.envs.wrappers import MeasurementNoise
from memplace_env.placement.simulator import BuiltinSimulator

STEPS = 1500
GROWTH_MIB = 3.0
"""Growth that counts as none (our choice)."""

_SETTINGS: dict[str, dict[str, Any]] = {
    "MemPlace-v0": {"workload": "synthetic:diamond?ops=9&seed=1"},
    "MallocGame-v0": {"workload": "synthetic:diamond?ops=9&seed=1&accelerator=tpu-v4i"},
    "MemPlaceSteps-v0": {"workload": "synthetic:diamond?ops=9&seed=1"},
}
_NAMES = {"MemPlace-v0": "one-shot", "MallocGame-v0": "game", "MemPlaceSteps-v0": "steps"}


class _BlackBox(BuiltinSimulator):
    """The built-in simulator as a third party's."""


def _steps(env: Any) -> Iterator[None]:
    """Take random steps without end, episode after episode; yield at each, also for each of a vector."""
    env.reset(seed=0)
    env.action_space.seed(0)
    while True:
        over = env.step(env.action_space.sample())[2]
        if np.ndim(over) == 0 and over:
            env.reset()
        for _ in range(np.size(over)):
            yield


def _rendered(env: Any, every: int = 1000) -> Iterator[None]:
    for count, _ in enumerate(_steps(env)):
        if count % every == 0:
            env.render()
        yield


def _resets(env: Any) -> Iterator[None]:
    while True:
        env.reset(seed=1)
        yield


def _copies(env: Any) -> Iterator[None]:
    """Get and set states, make forks and play them."""
    core = env.unwrapped
    for _ in _steps(env):
        state, twin = core.get_state(), core.fork()
        if twin.action_masks().any():
            twin.step(env.action_space.sample())
        core.set_state(state)
        yield


def _made(env_id: str, every: int = 100) -> Iterator[None]:
    """Make environments, play them once and close them; each counts as so many steps."""
    while True:
        with gym.make(env_id, **_SETTINGS[env_id]) as env:
            env.reset()
            env.step(env.action_space.sample())
        for _ in range(every):
            yield


def kinds() -> dict[str, Callable[[], Iterator[None]]]:
    """Return each kind of use by name: a generator of steps without end."""
    found: dict[str, Callable[[], Iterator[None]]] = {}
    for env_id, settings in _SETTINGS.items():

        def make(env_id: str = env_id, settings: dict[str, Any] = settings, **more: Any) -> Any:
            return gym.make(env_id, **settings, **more)

        def many(env_id: str = env_id, settings: dict[str, Any] = settings, **more: Any) -> Any:
            return gym.make_vec(env_id, num_envs=8, **settings, **more)

        name = _NAMES[env_id]
        found |= {
            name: lambda make=make: _steps(make()),
            f"{name}, flat": lambda make=make: _steps(make(observation="flat")),
            f"{name}, black box": lambda make=make: _steps(make(simulator=_BlackBox())),
            f"{name}, noise": lambda make=make: _steps(MeasurementNoise(make())),
            f"{name}, rendered": lambda make=make: _rendered(make(render_mode="rgb_array")),
            f"{name}, resets": lambda make=make: _resets(make()),
            f"{name}, states and forks": lambda make=make: _copies(make()),
            f"{name}, made and closed": lambda env_id=env_id: _made(env_id),
            f"{name}, vector": lambda many=many: _steps(many()),
            f"{name}, vector, flat, same step": lambda many=many: _steps(
                many(observation="flat", autoreset_mode="SameStep")
            ),
            f"{name}, vector, black box": lambda many=many: _steps(many(simulator=_BlackBox())),
        }
    for family in ("MallocGame", "MemPlaceSteps"):
        env_id = f"{family}-Synthetic-v0"
        found[f"{env_id}, vector"] = lambda env_id=env_id: _steps(gym.make_vec(env_id, num_envs=8))
    found["game, forced skipped"] = lambda: _steps(
        gym.make("MallocGame-v0", skip_forced=True, **_SETTINGS["MallocGame-v0"])
    )
    return found


def growth_mib(uses: Iterator[None], steps: int) -> float:
    """Return how much this process's memory grows in the last nine tenths of so many steps."""
    for _ in range(steps // 10):
        next(uses)
    warm = _private_mib()
    for _ in range(steps - steps // 10):
        next(uses)
    return _private_mib() - warm


def _private_mib() -> float:
    """Return the private memory of this process, swapped out or not; shared code of libraries is not counted."""
    gc.collect()
    fields = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text("ascii").splitlines())
    return sum(int(fields[key].split()[0]) for key in ("RssAnon", "VmSwap")) / 2**10


SHORT = ("game, states and forks", "one-shot, made and closed", "game, vector")
"""The kinds of use that allocate most: copies of states, environments, and batches."""


@pytest.mark.parametrize(
    "kind", [*SHORT, *(pytest.param(kind, marks=pytest.mark.thorough) for kind in kinds() if kind not in SHORT)]
)
def test_memory_is_flat(kind):
    """In a process of its own: the heap of one that ran other tests grows and shrinks as these left it."""
    script = f"from {__name__} import growth_mib, kinds; print(growth_mib(kinds()[{kind!r}](), {STEPS}))"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert float(result.stdout) < GROWTH_MIB


def test_a_leak_is_seen():
    buffers = []

    def leaks():
        while True:  # new pages, as the heap may have room from other tests
            buffers.append(mmap.mmap(-1, 2**16, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
            buffers[-1].write(bytes([1]) * 2**16)
            yield

    assert growth_mib(leaks(), 300) > 10
