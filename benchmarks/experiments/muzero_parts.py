"""MuZero without each of its parts, by games and in ten seconds, beside cross-entropy and the best rule."""

from __future__ import annotations

from itertools import product
from typing import Final

from benchmarks.experiments.learning import GAMES
from benchmarks.experiments.learning_runs import BEST_RULE, KEY, SEEDS, limited, measure, staged
from benchmarks.experiments.learning_statistics import Shares
from benchmarks.harness import Experiment, Records, heads, table
from benchmarks.ledger import Record

MUZERO: Final = "muzero"
SOLVERS: Final = {
    MUZERO: "MuZero",
    "muzero:no-search": "no search",
    "muzero:no-network": "no network",
    "muzero:no-sampling": "no sampling",
    "muzero:no-annealing": "no annealing",
    "muzero:learned": "learned model",
    "cross-entropy": "cross-entropy",
    BEST_RULE: "best rule",
}
"""Solvers, and their names in the table; those with "no" leave out a part."""
FEW: Final = (1, 4)
"""Budgets at which no solver depends on its seed: rules, and searches without noise."""
SLOW: Final = ("muzero:no-sampling", "muzero:learned")
"""Solvers whose trees play all games, which takes minutes for the largest budget."""
MANY: Final = 1_000
LIMITS: Final = (*({"plans": plans} for plans in (*FEW, 100, MANY)), {"seconds": 10.0})


def runs(records: Records = ()) -> list[Record]:
    """Return the settings of all runs; everything with one seed comes before the next seed."""
    return [
        limited(env_id, solver, seed, **({} if solver == BEST_RULE else limit))
        for seed, limit, solver, env_id in product(range(SEEDS), LIMITS, SOLVERS, GAMES)
        if (solver not in SLOW or limit.get("plans") != MANY)
        and (seed == 0 or (solver != BEST_RULE and limit.get("plans") not in FEW))
    ]


def shares_of(records: Records, solver: str, limit: dict[str, float]) -> Shares | None:
    """Return the shares of the seeds with which a solver has played every game; None if there is no such seed."""
    limit = {} if solver == BEST_RULE else limit
    found = [r for r in records if r["solver"] == solver and limit.items() <= r.items() and "latency_ps" in r]
    whole = [seed for seed in range(SEEDS) if {r["id"] for r in found if r["seed"] == seed} >= set(GAMES)]
    return Shares.of([r for r in found if r["seed"] in whole], GAMES, solver, **limit) if whole else None


def rows(records: Records) -> list[dict[str, str]]:
    """Return a row for each solver: percentages of the best known gain, and the time of the first game."""
    found = []
    for solver, title in SOLVERS.items():
        every = [shares_of(records, solver, limit) for limit in LIMITS]
        titles = [f"{limit['plans']:,} games" if "plans" in limit else f"{limit['seconds']:.0f} s" for limit in LIMITS]
        cells = {head: shares.cell() if shares else "" for head, shares in zip(titles, every, strict=True)}
        first = every[0]
        found.append({"solver": title, **cells, "s of one game": f"{first.seconds.mean():.1f}" if first else ""})
    return found


EXPERIMENTS = [
    Experiment(
        "muzero-parts",
        __doc__,
        {"docs/muzero.md#muzero-parts": table(heads, rows)},
        staged(runs),
        measure,
        key=KEY,
    )
]
