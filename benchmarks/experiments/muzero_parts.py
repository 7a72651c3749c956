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
SLOW: Final = ("muzero:no-sampling", "muzero:learned")
"""Solvers whose trees play all games, which takes minutes for the largest budget."""
LIMITS: Final[dict[str, dict[str, float]]] = {
    "1 game": {"plans": 1},
    **{f"{plans:,} games": {"plans": plans} for plans in (4, 100, 1_000)},
    "10 s": {"seconds": 10.0},
}
"""Limits by the head of their columns; with the first two no solver depends on its seed."""


def runs(records: Records = ()) -> list[Record]:
    """Return the settings of all runs; everything with one seed comes before the next seed."""
    every = product(range(SEEDS), enumerate(LIMITS.values()), SOLVERS, GAMES)
    searches = [
        limited(env_id, solver, seed, **limit)
        for seed, (column, limit), solver, env_id in every
        if solver != BEST_RULE and (column > 1 or seed == 0) and (column != 3 or solver not in SLOW)
    ]
    return [limited(env_id, BEST_RULE) for env_id in GAMES] + searches


def rows(records: Records) -> list[dict[str, str]]:
    """Return a row for each solver: percentages of the best known gain, and the time of the first game."""
    found = []
    for solver, title in SOLVERS.items():
        limits = {head: {} if solver == BEST_RULE else limit for head, limit in LIMITS.items()}
        shares = {head: Shares.whole(records, GAMES, solver, **limit) for head, limit in limits.items()}
        cells = {head: some.cell() if some else "" for head, some in shares.items()}
        one = shares["1 game"]
        found.append({"solver": title} | cells | {"s of one game": f"{one.seconds.mean():.1f}" if one else ""})
    return found


EXPERIMENTS = [
    Experiment(
        "muzero-parts",
        __doc__,
        {"docs/how-it-is-solved.md#muzero-parts": table(heads, rows)},
        staged(runs),
        measure,
        key=KEY,
    )
]
