"""How fast MuZero's search is without its network: prints JSON. `python -m benchmarks.muzero_search`.

Simulations/s of whole searches on one core, in which the model answers with random numbers drawn beforehand, so that
selection, expansion and backup are all that costs. The best of 100 rounds.
"""

from __future__ import annotations

import json
import os
from typing import Any

import numpy as np

from agents.muzero.base import RecurrentOutput, RootOutput
from agents.muzero.search import search
from benchmarks.speed import best_seconds
from memplace_env.workload.program import Ints

ACTIONS = 3
METHODS = ("gumbel", "puct")
BATCHES = (1, 32, 128)
SIMULATIONS = (16, 50)


class PreparedModel:
    """A model that has its answers at hand, the same for all states of a node."""

    def __init__(self, games: int, simulations: int) -> None:
        rng = np.random.default_rng(0)
        shape = (simulations + 1, games)
        rewards, values = rng.random(shape) * 0.1, rng.random(shape)
        logits = rng.normal(size=(*shape, ACTIONS))
        self.outputs = [RecurrentOutput(*arrays) for arrays in zip(rewards, values, logits, strict=True)]

    def evaluate(self, parents: Ints, actions: Ints, node: int) -> RecurrentOutput:
        """The answers of a node."""
        return self.outputs[node]


def rate(method: str, games: int, simulations: int) -> float:
    """Simulations/s."""
    model, legal = PreparedModel(games, simulations), np.ones((games, ACTIONS), dtype=np.bool_)
    root = RootOutput(model.outputs[0].values, model.outputs[0].prior_logits)
    searches = max(1, 1000 // (games * simulations))

    def once() -> None:
        rng = np.random.default_rng(0)
        for _ in range(searches):
            search(model, root, legal, num_simulations=simulations, rng=rng, method=method)

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
