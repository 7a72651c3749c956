"""Measure the speed of MuZero's search, as JSON: `python -m benchmarks.muzero_speed`.

Simulations/s of whole searches of 128 games half way through GPT2's, on one core and one thread, with the learned
model and with the true rules, and the fractions of the time for the trees, the network and the rules. The best of
20 searches by processor time, so that other processes on the machine matter little. Then a profile of a whole run of
the default agent, and its memory.
"""

from __future__ import annotations

import cProfile
import json
import pstats
import resource
import time
from collections.abc import Callable
from typing import Any, TypeVar

import gymnasium as gym
import numpy as np

import memplace_env  # noqa: F401  (registers the environments)
from memplace_agents.learning.torch_threads import one_thread
from memplace_agents.muzero import MuZero
from memplace_agents.muzero.batched_search import search
from memplace_agents.muzero.free_game import FreeGame, Observation
from memplace_agents.muzero.gumbel import Gumbel
from memplace_agents.muzero.models import LearnedModel, SimulatorModel
from memplace_agents.muzero.muzero_config import MuZeroConfig
from memplace_agents.muzero.muzero_run import new_network
from memplace_agents.muzero.networks import MuZeroNetwork
from memplace_agents.muzero.search_types import Floats
from memplace_env.program.program import Ints

ID = "MallocGame-GPT2-v0"
GAMES, SIMULATIONS, ROUNDS = 128, 16, 20
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


class TimedGame(FreeGame):
    """Rules of the game under a stopwatch, observations included."""

    def watch(self, watch: Stopwatch) -> None:
        self._played, self._observed = watch(super().play), watch(super().observe)

    def play(self, states: Ints, actions: Ints) -> Floats:
        return self._played(states, actions)

    def observe(self, states: Ints) -> Observation:
        return self._observed(states)


def once(model_name: str, network: MuZeroNetwork, game: TimedGame, states: Ints) -> tuple[float, float, float]:
    """Return the seconds of one search: in all, in the model, and of those in the rules."""
    rules, inside = Stopwatch(), Stopwatch()
    game.watch(rules)
    model: LearnedModel | SimulatorModel
    legal, rng, config = game.problem.legal(states), np.random.default_rng(0), MuZeroConfig()
    settings = Gumbel(c_visit=config.c_visit, c_scale=config.c_scale, normalise=False)
    begin = time.process_time()
    if model_name == "learned":
        model = LearnedModel(network, game.observe(states), SIMULATIONS)
    else:
        model = SimulatorModel(network, game, states, SIMULATIONS)
    inside.seconds = time.process_time() - begin
    model.evaluate = inside(model.evaluate)  # type: ignore[method-assign, assignment]
    search(model, model.root, legal, num_simulations=SIMULATIONS, rng=rng, settings=settings)
    return time.process_time() - begin, inside.seconds, rules.seconds


PARTS = {
    "search": ("batched_search.py", "search"),
    "observations": ("free_game.py", "observe"),
    "representation": ("models.py", "__init__"),
    "rules": ("free_game.py", "play"),
    "training": ("trainer.py", "step"),
}
"""Function of each part; none calls another in a run with the learned model."""


def whole_run(games: int = 900) -> dict[str, Any]:
    """Return the seconds of a run, each part's fraction of the time under the profiler, and the peak of memory."""
    MuZero().solve(ID, budget=1)
    solution, profiler = MuZero().solve(ID, budget=games), cProfile.Profile()
    profiler.enable()
    MuZero().solve(ID, budget=games)
    profiler.disable()
    stats: Any = pstats.Stats(profiler)
    spent = {(file.rsplit("/", 1)[-1], name): value[3] for (file, _, name), value in stats.stats.items()}
    return {
        "games": games,
        "seconds": round(solution.seconds, 1),
        "shares": {part: round(spent[function] / stats.total_tt, 3) for part, function in PARTS.items()},
        "resident_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


def measure() -> dict[str, Any]:
    """Return rates and fractions by model."""
    game = TimedGame(gym.make(ID).unwrapped.problem)  # type: ignore[attr-defined]
    states, rng = FreeGame.new_states(game, GAMES), np.random.default_rng(0)
    for _ in range(60):
        FreeGame.play(game, states, rng.integers(3, size=GAMES))
    network, results = new_network(MuZeroConfig()), {}
    with one_thread():
        for name in ("learned", "simulator"):
            total, inside, rules = min(once(name, network, game, states) for _ in range(ROUNDS))
            results[name] = {
                "simulations_per_s": round(GAMES * SIMULATIONS / total),
                "ms_for_each_simulation_of_all_games": round(1e3 * total / SIMULATIONS, 3),
                "share_trees": round((total - inside) / total, 3),
                "share_network": round((inside - rules) / total, 3),
                "share_rules": round(rules / total, 3),
            }
    return results


if __name__ == "__main__":
    print(json.dumps({"games": GAMES, "simulations": SIMULATIONS, "one_core": measure(), "run": whole_run()}, indent=2))
