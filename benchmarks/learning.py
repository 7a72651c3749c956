"""Compare plain PPO (examples/ppo.py) with searches, rules and proofs, at equal processor time.

    python -m benchmarks.learning                                         # the table; 35 minutes on two quiet cores
    python -m benchmarks.learning --write docs/learning.md --plot docs/pictures

Five seeds of PPO and of local search get 60 processor seconds each on one core; local search as many plans as it
evaluates in that time, by a short run before. A run that was stopped continues with what is missing in
results/learning.jsonl.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym

import memplace_agents
from benchmarks.cores import single_cores
from benchmarks.learning_curves import Panel, draw
from benchmarks.ledger import Ledger, Record
from benchmarks.tables import benchmark_parser, markdown_table, publish
from examples import ppo
from memplace_agents import Solution
from memplace_env._lib.files import write_atomically

RESULTS = Path(__file__).parent / "results" / "learning.jsonl"
FIELDS = ("id", "solver", "seed", "seconds")
IDS = {
    "game": ("MallocGame-BERT-v0", "MallocGame-GPT2-v0", "MallocGame-ResNet50-intel-npu-4000-v0"),
    "steps": ("MemPlaceSteps-ResNet50-v0", "MemPlaceSteps-ResNet101-v0", "MemPlaceSteps-BERT-v0"),
    "one-shot": ("MemPlace-ResNet50-v0",),
}
"""Environments by formulation: each has a table and a picture."""
SEARCHES = {"MallocGame": "game-local-search", "MemPlace": "local-search"}
"""Local searches by the first part of the ids."""
TRIAL_S, PROOF_S = 4.0, 120.0
"""Seconds of the run that measures a search's speed, and most seconds of a proof; our choice."""
ENDLESS = 10**9


def runs(ids: Sequence[str], seconds: float, seeds: int) -> list[Record]:
    """Return the settings of all runs; step-by-step ids share the searches of their one-shot problem."""
    problems = list(dict.fromkeys(problem_of(env_id) for env_id in ids))
    seeded = [(env_id, "ppo", seed) for seed in range(seeds) for env_id in ids]
    seeded += [(problem, search_of(problem), seed) for seed in range(seeds) for problem in problems]
    single = [(problem, solver) for problem in problems for solver in ("exact", *ppo.RULES[family_of(problem)])]
    return [
        *({"id": env_id, "solver": solver, "seed": seed, "seconds": seconds} for env_id, solver, seed in seeded),
        *({"id": problem, "solver": solver, "seed": 0, "seconds": PROOF_S} for problem, solver in single),
    ]


def problem_of(env_id: str) -> str:
    """Return the id that agents play: for a step-by-step id the one-shot id of the same problem."""
    return env_id.replace("MemPlaceSteps", "MemPlace")


def family_of(env_id: str) -> str:
    """Return the first part of an id."""
    return env_id.split("-")[0]


def search_of(problem: str) -> str:
    """Return the name of the local search that plays an environment."""
    return SEARCHES[family_of(problem)]


def measure(run: Record) -> Record:
    """Return a run's setting with its processor seconds, its best return, and its curve, see `Curve`.

    PPO's record has its mean return and its steps, too; that of the exact agent says whether it has a proof.
    """
    return {**run, **(_learn(run) if run["solver"] == "ppo" else _search(run))}


def _learn(run: Record) -> Record:
    points = list(ppo.train(run["id"], run["seed"], seconds=run["seconds"]))
    last = points[-1]
    curve = [[round(p.seconds, 2), _digits(p.mean), _digits(p.best)] for p in points if not math.isnan(p.mean)]
    return {"took_s": last.seconds, "steps": last.steps, "mean": last.mean, "best": last.best, "curve": curve}


def _search(run: Record) -> Record:
    agent, env, seed = ppo.agent(run["solver"]), gym.make(run["id"]), run["seed"]
    agent.solve(env, budget=1000, seed=seed, time_limit=TRIAL_S)  # loads compiled code
    is_search, budget = run["solver"] in SEARCHES.values(), 4000
    if is_search:
        trial, spent = _timed(agent, env, budget=ENDLESS, seed=seed, time_limit=TRIAL_S)
        budget = round(run["seconds"] * trial.evaluations / spent)
    solution, spent = _timed(agent, env, budget=budget, seed=seed, time_limit=None if is_search else run["seconds"])
    rate = spent / max(solution.evaluations, 1)
    best = [
        (p.evaluations * rate, ppo.in_units(run["id"], solution.native_latency_s / p.latency_s))
        for p in solution.history
    ]
    return {
        "took_s": spent,
        "best": ppo.in_units(run["id"], solution.speedup),
        "proven": solution.outcome == "optimal",
        "curve": [[round(seconds, 2), None, _digits(value)] for seconds, value in best] if is_search else [],
    }


def _timed(agent: memplace_agents.Agent[Any], env: gym.Env[Any, Any], **limits: Any) -> tuple[Solution, float]:
    """Return a solution and the processor seconds that it took."""
    began = time.process_time()
    return agent.solve(env, **limits), time.process_time() - began


def _digits(value: float) -> float:
    return float(f"{value:.6g}")


class Results(NamedTuple):
    """The records about one environment.

    Attributes:
        ppo, search: a record for each seed.
        rules: records of agents that need no search.
        exact: record of the exact agent.
        zero: return of the plan that gains are counted from: all in the backing memory (games), or native's.
    """

    ppo: list[Record]
    search: list[Record]
    rules: list[Record]
    exact: Record
    zero: float

    @classmethod
    def of(cls, env_id: str, records: Sequence[Record]) -> Results:
        """Return the records of an environment and of its one-shot problem."""
        problem = problem_of(env_id)
        own = [r for r in records if r["id"] == env_id and r["solver"] == "ppo"]
        rest = [r for r in records if r["id"] == problem]
        rules = [r for r in rest if r["solver"] in ppo.RULES[family_of(problem)]]
        (exact,) = (r for r in rest if r["solver"] == "exact")
        zero = 0.0 if family_of(env_id) == "MallocGame" else 1.0
        return cls(own, [r for r in rest if r["solver"] == search_of(problem)], rules, exact, zero)

    def share(self, value: float) -> float:
        """Return a return as the percentage of the gain of the best proven plan."""
        return 100 * (value - self.zero) / (self.exact["best"] - self.zero)

    def cell(self, records: Sequence[Record], field: str) -> str:
        """Return the mean share of the seeds, and in brackets the range."""
        shares = [self.share(record[field]) for record in records]
        return f"{statistics.mean(shares):.1f} ({min(shares):.1f}–{max(shares):.1f})"

    @property
    def best_rule(self) -> Record:
        """The record of the rule with the best plan."""
        return max(self.rules, key=lambda record: record["best"])

    def panel(self) -> Panel:
        """Return what the picture shows."""
        return Panel(
            [record["curve"] for record in self.ppo],
            [record["curve"] for record in self.search],
            {record["solver"]: record["best"] for record in self.rules},
            self.exact["best"],
            self.ppo[0]["seconds"],
        )


def table(ids: Sequence[str], records: Sequence[Record]) -> str:
    """Return a Markdown table with a row for each environment: percentages of the best plan's gain."""
    heads = ["environment", "optimum", "proof s", "best rule", "local search", "PPO, mean of last 256", "PPO, best"]
    return markdown_table(heads, [_row(env_id, Results.of(env_id, records)) for env_id in ids])


def _row(env_id: str, results: Results) -> list[str]:
    exact, rule = results.exact, results.best_rule
    return [
        env_id,
        f"{exact['best']:.4f}" + ("" if exact["proven"] else " (not proven)"),
        f"{exact['took_s']:.1f}",
        f"{results.share(rule['best']):.1f} {rule['solver']}",
        results.cell(results.search, "best"),
        results.cell(results.ppo, "mean"),
        results.cell(results.ppo, "best"),
    ]


def main() -> None:
    parser = benchmark_parser(__doc__)
    every = [env_id for ids in IDS.values() for env_id in ids]
    parser.add_argument("--ids", nargs="+", default=every, metavar="ID", help="environments (default: all)")
    parser.add_argument("--seconds", type=float, default=60.0, help="processor seconds of each run (default 60)")
    parser.add_argument("--seeds", type=int, default=5, help="seeds of PPO and of local search (default 5)")
    parser.add_argument("--jobs", type=int, default=2, help="runs side by side, each on its own core (default 2)")
    parser.add_argument("--plot", type=Path, metavar="FOLDER", help="where to draw learning-<formulation>.png")
    options = parser.parse_args()
    with single_cores(options.jobs) as pool:
        records = Ledger(RESULTS, FIELDS).complete(runs(options.ids, options.seconds, options.seeds), measure, pool)
    publish({"learning": table(options.ids, records)}, options.write)
    if options.plot:
        for formulation, ids in IDS.items():
            panels = {env_id: Results.of(env_id, records).panel() for env_id in ids if env_id in options.ids}
            if panels:
                write_atomically(options.plot / f"learning-{formulation}.png", draw(panels))


if __name__ == "__main__":
    main()
