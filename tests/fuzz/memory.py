"""Measure the memory of environments that run for long: `python -m tests.fuzz.memory --log memory.jsonl`.

Each kind of use runs in a process of its own and adds a JSON line: its private memory after a tenth of the steps, and
at the end. Kinds that have a line in the file already are not run again.
"""

from __future__ import annotations

import argparse
import gc
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import gymnasium as gym
import numpy as np

import memplace_env  # noqa: F401
from benchmarks.ledger import Ledger
from memplace_env.envs.wrappers import MeasurementNoise
from memplace_env.placement.simulator import BuiltinSimulator

STEPS: Final = 200_000
FLAT_MIB: Final = 8.0
"""Growth that counts as none (our choice): an int64 kept at each step would be more."""

_SETTINGS: Final[dict[str, dict[str, Any]]] = {
    "MemPlace-v0": {"workload": "synthetic:diamond?ops=9&seed=1"},
    "MallocGame-v0": {"workload": "synthetic:diamond?ops=9&seed=1&accelerator=tpu-v4i"},
    "MemPlaceSteps-v0": {"workload": "synthetic:diamond?ops=9&seed=1"},
}
_NAMES: Final = {"MemPlace-v0": "one-shot", "MallocGame-v0": "game", "MemPlaceSteps-v0": "steps"}


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


def measure(name: str, steps: int) -> dict[str, Any]:
    """Return this process's memory in MiB before and after so many steps of a kind."""
    began, uses = time.monotonic(), kinds()[name]()
    for _ in range(steps // 10):
        next(uses)
    warm = _private_mib()
    for _ in range(steps - steps // 10):
        next(uses)
    end = _private_mib()
    return {
        "kind": name,
        "steps": steps,
        "warm_mib": round(warm, 1),
        "end_mib": round(end, 1),
        "growth_mib": round(end - warm, 1),
        "flat": end - warm < FLAT_MIB,
        "seconds": round(time.monotonic() - began, 1),
    }


def _private_mib() -> float:
    """Return the private memory of this process, swapped out or not; shared code of libraries is not counted."""
    gc.collect()
    fields = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text("ascii").splitlines())
    return sum(int(fields[key].split()[0]) for key in ("RssAnon", "VmSwap")) / 2**10


def main() -> int:
    """Run the kinds that the file lacks; return 1 if one grew."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--log", type=Path, default=Path("memory.jsonl"))
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--kind", choices=list(kinds()), help="this one only, in this process, to standard output")
    asked = parser.parse_args()
    if asked.kind:
        print(json.dumps(measure(asked.kind, asked.steps)))
        return 0
    ledger = Ledger(asked.log, ["kind"])
    for setting in ledger.missing([{"kind": name} for name in kinds()]):
        name = setting["kind"]
        command = [sys.executable, "-m", "tests.fuzz.memory", "--kind", name, "--steps", str(asked.steps)]
        told = subprocess.run(command, capture_output=True, text=True, check=False)
        if told.returncode:
            print(f"{name}: {told.stderr}", file=sys.stderr)
            return 1
        ledger.add(json.loads(told.stdout))
        print(told.stdout, end="", flush=True)
    return int(not all(line["flat"] for line in ledger.records))


if __name__ == "__main__":
    sys.exit(main())
