"""How fast MuZero's search is without its network: prints JSON. `python -m benchmarks.muzero_search`.

Simulations/s of whole searches on one core, in which the model answers with random numbers drawn beforehand, so that
choosing actions, growing the trees and taking returns back is all that costs. The best of 100 rounds.
"""

from __future__ import annotations

import json
import os
from typing import Any

import numpy as np

from agents.muzero.search import Root, Step, search
from benchmarks.speed import best_seconds
from memplace_env.workload.program import Ints

ACTIONS = 3
METHODS = ("gumbel", "puct")
BATCHES = (1, 32, 128)
SIMULATIONS = (16, 50)


class Prepared:
    """A model that has its answers at hand, the same for all states of a slot."""

    def __init__(self, games: int, simulations: int) -> None:
        rng = np.random.default_rng(0)
        shape = (simulations + 1, games)
        self.answers = [
            Step(*numbers)
            for numbers in zip(
                rng.random(shape) * 0.1, rng.random(shape), rng.normal(size=(*shape, ACTIONS)), strict=True
            )
        ]

    def step(self, parents: Ints, actions: Ints, slot: int) -> Step:
        """The answers of a slot."""
        return self.answers[slot]


def rate(method: str, games: int, simulations: int) -> float:
    """Simulations/s."""
    model, legal = Prepared(games, simulations), np.ones((games, ACTIONS), dtype=np.bool_)
    root = Root(model.answers[0].value, model.answers[0].logits)
    searches = max(1, 1000 // (games * simulations))

    def once() -> None:
        rng = np.random.default_rng(0)
        for _ in range(searches):
            search(model, root, legal, simulations=simulations, rng=rng, method=method)

    return searches * games * simulations / best_seconds(once, rounds=100)


def measure() -> dict[str, Any]:
    """Rates by method, number of simulations and number of games."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    return {
        method: {
            f"{simulations}_simulations": {
                f"{games}_games": round(rate(method, games, simulations)) for games in BATCHES
            }
            for simulations in SIMULATIONS
        }
        for method in METHODS
    }


if __name__ == "__main__":
    print(json.dumps({"simulations_per_s_one_core": measure()}, indent=2))
