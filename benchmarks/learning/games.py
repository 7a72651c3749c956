"""Part `games`: learning agents, local search, rules and proofs on twelve games, in a minute of one core each."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np

from benchmarks.learning import statistics
from benchmarks.learning.curves import Panel, draw, grid_to
from benchmarks.learning.part import Part, Shown
from benchmarks.learning.runs import BEST_RULE, EXACT, SEARCHES, XLA, first_ids, free, limited
from benchmarks.learning.statistics import Shares
from benchmarks.ledger import Record
from benchmarks.tables import DataFile, markdown_table
from memplace_env.envs.registration import Formulation
from memplace_env.leaderboard.suite import best_known

GAMES = tuple(first_ids(Formulation.GAME, 12))
SECONDS = 60.0
SEARCH = SEARCHES[Formulation.GAME]
SOLVERS = {
    SEARCH: "local search",
    "muzero": "MuZero",
    "plan-gradient": "plan-gradient",
    "cross-entropy": "cross-entropy",
}
"""Solvers with seeds, and their names in tables."""
ENOUGH = 98.0
"""Percentage of the best known gain from which a game counts as played well."""


def runs(seeds: int, records: Sequence[Record] = ()) -> list[Record]:
    """Return the settings of all runs; all games with one seed come before the next seed."""
    seeded = product(range(seeds), GAMES, SOLVERS)
    return [*free(GAMES), *(limited(env_id, solver, seed, seconds=SECONDS) for seed, env_id, solver in seeded)]


def all_shares(records: Sequence[Record]) -> dict[str, Shares]:
    """Return the shares of each row of the table."""
    return {
        "greedy player": Shares.of(records, GAMES, "greedy-player"),
        "XLA's better public set": Shares.best(*(Shares.of(records, GAMES, solver) for solver in XLA)),
        "best rule": Shares.of(records, GAMES, BEST_RULE),
        **{title: Shares.of(records, GAMES, solver, seconds=SECONDS) for solver, title in SOLVERS.items()},
        "exact": Shares.of(records, GAMES, EXACT),
    }


def table(shares: dict[str, Shares]) -> str:
    """Return a Markdown table with a row for each solver."""
    heads = [
        "solver",
        "mean",
        "worst game",
        f"games from {ENOUGH:.0f} % on",
        "ahead of local search",
        "s",
        "games played",
    ]
    rows = [
        [
            title,
            found.cell(),
            f"{found.of_instances.min():.1f}",
            f"{(found.of_instances >= ENOUGH).sum()} of {len(GAMES)}",
            "" if title == SOLVERS[SEARCH] else str(statistics.ahead(found, shares[SOLVERS[SEARCH]])),
            f"{found.seconds[0].mean():.1f}",
            f"{found.plans.mean():,.0f}",
        ]
        for title, found in shares.items()
    ]
    return markdown_table(heads, rows)


def data_file(shares: dict[str, Shares], records: Sequence[Record]) -> DataFile:
    """Return all figures: a row for each game."""
    proven = {record["id"] for record in records if record["solver"] == EXACT and record["proven"]}
    heads = ["game", "best known ms", "proven", *(f"{title} %" for title in shares)]
    heads += [f"{title} {end}" for title in SOLVERS.values() for end in ("least %", "most %", "s", "games played")]
    heads += ["exact s"]
    rows = []
    for column, env_id in enumerate(GAMES):
        row = [env_id, f"{best_known()[env_id].best_ps / 1e9:.6f}", "yes" if env_id in proven else "no"]
        row += [f"{found.of_instances[column]:.2f}" for found in shares.values()]
        for title in SOLVERS.values():
            values, seconds, plans = (array[:, column] for array in shares[title])
            row += [f"{values.min():.2f}", f"{values.max():.2f}", f"{seconds[0]:.1f}", f"{plans.mean():.0f}"]
        rows.append([*row, f"{shares['exact'].seconds[0, column]:.1f}"])
    return DataFile(heads, rows)


def panel(shares: dict[str, Shares], records: Sequence[Record]) -> Panel:
    """Return the curves of the means over all games."""
    grid = grid_to(SECONDS)
    curves = {
        title: statistics.curves(records, GAMES, solver, grid, seconds=SECONDS) for solver, title in SOLVERS.items()
    }
    levels = {title: shares[title].mean for title in ("greedy player", "XLA's better public set", "exact")}
    levels["exact, up to a minute"] = levels.pop("exact")
    return Panel(f"Mean of {len(GAMES)} games", "processor seconds", np.asarray(grid), curves, levels)


def show(records: Sequence[Record]) -> Shown:
    """Return the table, all figures and the picture."""
    shares = all_shares(records)
    return Shown(
        {"learning-games": table(shares)},
        {"learning-games.csv": data_file(shares, records)},
        {"learning-games.png": draw([panel(shares, records)])},
    )


PART = Part(runs, show, ("learning.md", "muzero.md"))
