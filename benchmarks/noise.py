"""Share of the proven gain that searches reach where measurements are noisy: racing against keeping the luckiest draw.

python -m benchmarks.noise            # a table: mean and range over the seeds
python -m benchmarks.noise --json     # every run
"""

from __future__ import annotations

import argparse
import json
import statistics
from typing import Any

from rich.progress import track

import agents
from agents.accounting import Evaluator
from agents.evaluator import MapEvaluator
from agents.racing import Candidate, Race
from benchmarks.as_measured import ONE_SHOT, as_measured
from benchmarks.tables import markdown
from memplace_env.envs.one_shot import OneShotEnv
from memplace_env.registration import Formulation
from memplace_env.wrappers import MeasurementNoise

WORKLOADS = ("ResNet50", "BERT")
SEARCHES = ("random", "local-search", "egrl")


class Luckiest(Race):
    """No race: the plan with the fastest single measurement is kept."""

    def enter(self, candidate: Candidate, evaluations: int) -> None:
        """Keep it if no measurement was faster."""
        if self.incumbent is None or candidate.first_s < self.incumbent.first_s:
            self.incumbent = candidate


class LuckyEvaluator(MapEvaluator):
    """What searches had before measurements were repeated; they do not know that there is noise."""

    noisy = False

    def __init__(self, env: MeasurementNoise, budget: int, seed: int) -> None:
        super().__init__(env, budget=budget, seed=seed)
        self.budget, self._race = budget, Luckiest(budget, env.measurement_noise, seed, None)
        self._race.fund = 0


def measure(workload: str, search: str, budget: int, scale: float, seed: int, optimum: float) -> dict[str, Any]:
    """Shares of the proven gain without noise, with the luckiest draw kept, and with racing."""
    env = OneShotEnv(**as_measured({"workload": workload, **ONE_SHOT[workload]}, Formulation.ONE_SHOT))
    noisy = MeasurementNoise(env, scale)
    evaluators: dict[str, Evaluator] = {
        "exact": MapEvaluator(env, budget=budget, seed=seed),
        "luckiest": LuckyEvaluator(noisy, budget, seed),
        "raced": MapEvaluator(noisy, budget=budget, seed=seed),
    }
    shares = {}
    for name, evaluator in evaluators.items():
        agent = agents.make_agent(search)
        agent.run(evaluator, seed)
        solution = evaluator.solution(search, seed)
        assert solution.evaluations <= budget
        shares[name] = (solution.speedup - 1) / (optimum - 1)
    return {"workload": workload, "search": search, "budget": budget, "noise": scale, "seed": seed, "share": shares}


def table(results: list[dict[str, Any]]) -> str:
    """One line for each workload and search."""
    rows = []
    for workload, search in dict.fromkeys((result["workload"], result["search"]) for result in results):
        mine = [result["share"] for result in results if (result["workload"], result["search"]) == (workload, search)]
        cells = []
        for name in mine[0]:
            values = [share[name] for share in mine]
            cells.append(f"{statistics.mean(values):.2f} ({min(values):.2f} to {max(values):.2f})")
        rows.append([workload, search, *cells])
    return markdown(["share of the proven gain", "search", "without noise", "luckiest draw kept", "raced"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--budget", type=int, default=1000, help="plans each search may evaluate")
    parser.add_argument("--noise", type=float, default=0.05)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--searches", nargs="+", default=SEARCHES)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    results = []
    for workload in track(WORKLOADS, "measuring", disable=options.json):
        optimum = (
            agents.Exact()
            .solve(OneShotEnv(**as_measured({"workload": workload, **ONE_SHOT[workload]}, Formulation.ONE_SHOT)))
            .speedup
        )
        for search in options.searches:
            for seed in range(options.seeds):
                results.append(measure(workload, search, options.budget, options.noise, seed, optimum))
    print(json.dumps(results) if options.json else table(results))


if __name__ == "__main__":
    main()
