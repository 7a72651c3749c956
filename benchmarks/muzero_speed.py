"""Measure the speed of MuZero's search, as JSON: `python -m benchmarks.muzero_speed`.

Simulations/s of whole searches half way through GPT2's games, with one thread, by processor time, with the true rules
and with the learned model; fractions of that time for the trees, the network and the rules; the best of 20 searches.
`two_cores` is the sum over two processes side by side. Then the parts of a whole run of the default agent, and its
memory.
"""

from __future__ import annotations

import cProfile
import json
import pstats
import resource
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from typing import Any, TypeVar

import gymnasium as gym
import numpy as np

import memplace_env  # noqa: F401  (registers the environments)
from memplace_agents.learning.torch_threads import one_thread
from memplace_agents.muzero import MuZero, MuZeroConfig, models
from memplace_agents.muzero.batched_search import search
from memplace_agents.muzero.free_game import FreeGame, GamesAside
from memplace_agents.muzero.gumbel import Gumbel
from memplace_agents.muzero.models import LearnedModel, RulesModel
from memplace_agents.muzero.muzero_config import CONFIGS
from memplace_agents.muzero.muzero_run import new_network

ID = "MallocGame-GPT2-v0"
SEARCHES = 20
T = TypeVar("T")


class Stopwatch:
    """Processor time spent in the functions that it wraps."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self, function: Callable[..., T]) -> Callable[..., T]:
        def timed(*arguments: Any) -> T:
            begin = time.process_time()
            result = function(*arguments)
            self.seconds += time.process_time() - begin
            return result

        return timed


def measured(config: MuZeroConfig) -> dict[str, float]:
    """Return the speed of searches of a configuration and the fractions of their parts."""
    game, rng = FreeGame(gym.make(ID).unwrapped.problem), np.random.default_rng(0)  # type: ignore[attr-defined]
    games, network = GamesAside(game, config.games), new_network(config)
    for _ in range(60):
        games.play((rng.random((config.games, 3)) * games.legal).argmax(axis=1))
    rules_model, timings, watched = RulesModel(network, games, config.simulations), [], models.predicted
    with one_thread():
        for _ in range(SEARCHES):
            inside, in_network = Stopwatch(), Stopwatch()
            models.predicted = in_network(watched)
            begin = time.process_time()
            is_learned = config.model == "learned"
            model = inside(LearnedModel)(network, games.observations, config.simulations) if is_learned else rules_model
            root = inside(model.root)()
            evaluate = model.evaluate
            model.evaluate = inside(evaluate)  # type: ignore[method-assign]
            settings = Gumbel(normalise=False)
            search(model, root, games.legal, num_simulations=config.simulations, rng=rng, settings=settings)
            total = time.process_time() - begin
            model.evaluate = evaluate  # type: ignore[method-assign]
            of_network = inside.seconds if is_learned else in_network.seconds
            timings.append((total, of_network, inside.seconds - of_network))
    models.predicted = watched
    total, of_network, rules = min(timings)
    return {
        "simulations_per_s": round(config.games * config.simulations / total),
        "share_network": round(of_network / total, 3),
        "share_rules": round(rules / total, 3),
        "share_trees": round(1 - (of_network + rules) / total, 3),
    }


PARTS = {
    "search": ("batched_search.py", "search"),
    "training": ("muzero_run.py", "_learn"),
    "annealing": ("player.py", "anneal"),
}
"""Function of each part; none calls another."""


def whole_run(plans: int = 20_000) -> dict[str, Any]:
    """Return the seconds of a run, each part's fraction of the time under the profiler, and the peak of memory."""
    MuZero().solve(ID, budget=2_000)
    profiler = cProfile.Profile()
    profiler.enable()
    solution = MuZero().solve(ID, budget=plans)
    profiler.disable()
    stats: Any = pstats.Stats(profiler)
    spent = {(file.rsplit("/", 1)[-1], name): value[3] for (file, _, name), value in stats.stats.items()}
    return {
        "plans": plans,
        "seconds": round(solution.seconds, 1),
        "shares": {part: round(spent[function] / stats.total_tt, 3) for part, function in PARTS.items()},
        "resident_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


def report() -> dict[str, Any]:
    """Return all figures."""
    rules, learned = MuZeroConfig(), replace(CONFIGS["learned"], games=128)
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        both = [future.result() for future in [pool.submit(measured, rules) for _ in range(2)]]
    return {
        "games": rules.games,
        "simulations": rules.simulations,
        "rules": {
            "one_core": measured(rules),
            "two_cores": {"simulations_per_s": sum(one["simulations_per_s"] for one in both)},
        },
        "learned": {"one_core": measured(learned)},
        "run": whole_run(),
    }


if __name__ == "__main__":
    print(json.dumps(report(), indent=2))
