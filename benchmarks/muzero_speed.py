"""How fast MuZero's search is with its network: prints JSON. `python -m benchmarks.muzero_speed`.

Simulations/s of whole searches of 128 games half way through GPT2's, on one core and one thread, with the learned
model and with the true rules, and which share of the time goes into the trees, the network and the rules. The best of
20 searches by processor time, so that other processes on the machine matter little. Then where the time of a whole run
of the default agent goes, and the memory that it takes.
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
from agents.learning.threads import one_thread
from agents.muzero import MuZero
from agents.muzero.base import Floats
from agents.muzero.config import MuZeroConfig
from agents.muzero.free_game import FreeGame, Observation
from agents.muzero.gumbel import Gumbel
from agents.muzero.models import LearnedModel, SimulatorModel
from agents.muzero.networks import MuZeroNetwork
from agents.muzero.run import new_network
from agents.muzero.search import search
from memplace_env.workload.program import Ints

ID = "MallocGame-GPT2-v0"
GAMES, SIMULATIONS, ROUNDS = 128, 16, 20
T = TypeVar("T")


class Stopwatch:
    """Processor time spent in what it is wrapped around."""

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
    """The rules under a stopwatch, observations included."""

    def watch(self, watch: Stopwatch) -> None:
        self._played, self._observed = watch(super().play), watch(super().observe)

    def play(self, states: Ints, actions: Ints) -> Floats:
        return self._played(states, actions)

    def observe(self, states: Ints) -> Observation:
        return self._observed(states)


def once(model_name: str, network: MuZeroNetwork, game: TimedGame, states: Ints) -> tuple[float, float, float]:
    """Seconds of one search: in all, in the model, and of those in the rules."""
    rules, inside = Stopwatch(), Stopwatch()
    game.watch(rules)
    model: LearnedModel | SimulatorModel
    legal, rng, config = game.problem.legal(states), np.random.default_rng(0), MuZeroConfig()
    method = Gumbel(c_visit=config.c_visit, c_scale=config.c_scale, normalise="none")
    begin = time.process_time()
    if model_name == "learned":
        model = LearnedModel(network, game.observe(states), SIMULATIONS)
    else:
        model = SimulatorModel(network, game, states, SIMULATIONS)
    inside.seconds = time.process_time() - begin
    model.evaluate = inside(model.evaluate)  # type: ignore[method-assign, assignment]
    search(model, model.root, legal, num_simulations=SIMULATIONS, rng=rng, method=method)
    return time.process_time() - begin, inside.seconds, rules.seconds


PARTS = {
    "search": ("search.py", "search"),
    "observations": ("free_game.py", "observe"),
    "representation": ("models.py", "__init__"),
    "rules": ("free_game.py", "play"),
    "training": ("trainer.py", "step"),
}
"""Functions, none of which calls another in a run with the learned model."""


def whole_run(games: int = 900) -> dict[str, Any]:
    """Seconds of a run by the clock, the share of each part under the profiler, and the most memory so far."""
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
        "shares": {part: round(spent.get(place, 0.0) / stats.total_tt, 3) for part, place in PARTS.items()},
        "resident_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


def measure() -> dict[str, Any]:
    """Rates and shares by model."""
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
