"""Measure how long sliced programs take, beside the same without slices, and print processor seconds as JSON.

    python -m benchmarks.slices_speed

The settings are those of `MemPlace-BERT-v0` and `MemPlace-Llama-1B-v0`, without slices and at the share of
`benchmarks.slices`. Each time is the least of `ROUNDS`, on environments for which nothing has been computed yet.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from typing import Any, Final

from benchmarks.experiments.slices import SHARE
from memplace_agents import make_agent
from memplace_agents.base import Agent
from memplace_agents.exact.static.static_model import build
from memplace_env.envs.one_shot import OneShotEnv
from memplace_env.envs.registration import Formulation
from memplace_env.placement.compiler import place_levels
from memplace_env.placement.compiler.density import all_density_levels
from memplace_env.placement.validation import violations

ROUNDS: Final = 5
"""Runs of each of which the fastest counts, after one to compile kernels; our choice."""
LIMIT_S: Final = 0.05
"""Most seconds that native and density-greedy may take on BERT in slices; our choice."""

Setup = Callable[[OneShotEnv], Any]
"""Returns what a run needs and what does not count."""


def solution(env: OneShotEnv, agent: Agent[Any]) -> object:
    """Run an agent: its plan is validated and evaluated too, and native's plan is the baseline of its solution."""
    return agent.solve(env, budget=10**9)


def validation(env: OneShotEnv, plan: Any) -> object:
    """Check a plan."""
    return violations(env.task, plan)


def packing(env: OneShotEnv, levels: Any) -> object:
    """Compile levels, the schedule known: bytes, then addresses."""
    return place_levels(env.task, levels)


def exact_model(env: OneShotEnv, _: None) -> object:
    """Build the exact agent's linear program."""
    return build(env.task)


def least_seconds(name: str, share: float | None, run: Callable[[OneShotEnv, Any], object], setup: Setup) -> float:
    """Return the least processor seconds of a run."""
    traits, times = Formulation.ONE_SHOT.traits, []
    for _ in range(ROUNDS + 1):
        env = OneShotEnv(**{"workload": name, "accelerator": traits.accelerator, **traits.settings[name]}, slices=share)
        ready = setup(env)
        begin = time.process_time()
        run(env, ready)
        times.append(time.process_time() - begin)
    return round(min(times[1:]), 5)


def both(name: str, run: Callable[[OneShotEnv, Any], object], setup: Setup = lambda env: None) -> dict[str, float]:
    """Return the seconds without slices and in slices, and their ratio."""
    whole, sliced = (least_seconds(name, share, run, setup) for share in (None, SHARE))
    return {"whole_s": whole, "sliced_s": sliced, "ratio": round(sliced / whole, 2)}


def _plan(env: OneShotEnv) -> object:
    return place_levels(env.task, all_density_levels(env.task)[0]).plan


def _levels(env: OneShotEnv) -> object:
    _plan(env)
    return all_density_levels(env.task)[0]


def main() -> None:
    """Print the figures."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    figures = {
        "BERT": {
            "native": both("BERT", solution, lambda env: make_agent("native")),
            "density_greedy": both("BERT", solution, lambda env: make_agent("density-greedy")),
            "native_and_density_greedy_at_most_s": LIMIT_S,
            "validation": both("BERT", validation, _plan),
            "packing": both("BERT", packing, _levels),
            "exact_model": both("BERT", exact_model),
        },
        "Llama-1B": {"exact_model": both("Llama-1B", exact_model)},
    }
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
