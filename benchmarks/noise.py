"""Compare two ways to search with noisy measurements: racing candidates, and keeping the fastest single measurement.

python -m benchmarks.noise            # a table: mean and range over the seeds
python -m benchmarks.noise --json     # every run
"""

from __future__ import annotations

import json
import statistics
from typing import Any

import gymnasium as gym
from rich.progress import track

import memplace_agents
from benchmarks.tables import benchmark_parser, markdown_table
from memplace_agents.search.accounting import Evaluator
from memplace_agents.search.evaluator import OneShotEvaluator
from memplace_agents.search.racing import Candidate, Race
from memplace_env.envs.registration import Formulation
from memplace_env.envs.wrappers import MeasurementNoise

WORKLOADS = ("ResNet50", "BERT")
SEARCHES = ("random", "local-search", "egrl")


class Luckiest(Race):
    """A race that keeps the plan with the fastest single measurement."""

    def enter(self, candidate: Candidate, evaluations: int) -> None:
        """Keep the candidate if no measurement was faster."""
        if self.incumbent is None or candidate.first_s < self.incumbent.first_s:
            self.incumbent = candidate


class LuckyEvaluator(OneShotEvaluator):
    """An evaluator that hides the noise from the search and repeats no measurement."""

    noisy = False

    def __init__(self, env: MeasurementNoise, budget: int, seed: int) -> None:
        super().__init__(env, budget=budget, seed=seed)
        self.budget, self._race = budget, Luckiest(budget, env.measurement_noise, seed, None)
        self._race.fund = 0


def measure(workload: str, search: str, budget: int, scale: float, seed: int, optimum: float) -> dict[str, Any]:
    """Return the fractions of the proven gain without noise, with the luckiest draw kept, and with racing."""
    env: Any = gym.make(Formulation.ONE_SHOT.traits.env_id(workload)).unwrapped
    noisy = MeasurementNoise(env, scale)
    evaluators: dict[str, Evaluator] = {
        "exact": OneShotEvaluator(env, budget=budget, seed=seed),
        "luckiest": LuckyEvaluator(noisy, budget, seed),
        "raced": OneShotEvaluator(noisy, budget=budget, seed=seed),
    }
    shares = {}
    for name, evaluator in evaluators.items():
        agent = memplace_agents.make_agent(search)
        agent.run(evaluator, seed)
        solution = evaluator.solution(search, seed)
        assert solution.evaluations <= budget
        shares[name] = (solution.speedup - 1) / (optimum - 1)
    return {"workload": workload, "search": search, "budget": budget, "noise": scale, "seed": seed, "share": shares}


def table(results: list[dict[str, Any]]) -> str:
    """Return a Markdown table with a row for each workload and search."""
    rows = []
    for workload, search in dict.fromkeys((result["workload"], result["search"]) for result in results):
        mine = [result["share"] for result in results if (result["workload"], result["search"]) == (workload, search)]
        cells = []
        for name in mine[0]:
            values = [share[name] for share in mine]
            cells.append(f"{statistics.mean(values):.2f} ({min(values):.2f} to {max(values):.2f})")
        rows.append([workload, search, *cells])
    return markdown_table(
        ["fraction of the proven gain", "search", "without noise", "luckiest draw kept", "raced"], rows
    )


def main() -> None:
    parser = benchmark_parser(__doc__, writes=False)
    parser.add_argument("--budget", type=int, default=1000, help="plans that each search may evaluate")
    parser.add_argument("--noise", type=float, default=0.05)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--searches", nargs="+", default=SEARCHES)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    results = []
    for workload in track(WORKLOADS, "measuring", disable=options.json):
        optimum = memplace_agents.Exact().solve(Formulation.ONE_SHOT.traits.env_id(workload)).speedup
        for search in options.searches:
            for seed in range(options.seeds):
                results.append(measure(workload, search, options.budget, options.noise, seed, optimum))
    print(json.dumps(results) if options.json else table(results))


if __name__ == "__main__":
    main()
