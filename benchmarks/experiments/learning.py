"""Learning agents, searches, rules and proofs in processor time of one core: games, and XLA's solver.

Runs and their budgets are those of `learning_runs`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product
from operator import itemgetter
from textwrap import fill
from typing import Final

import numpy as np

from benchmarks.experiments import learning_statistics as statistics
from benchmarks.experiments.learning_runs import (
    BEST_RULE,
    EXACT,
    KEY,
    SEARCHES,
    SEEDS,
    XLA,
    first_ids,
    free,
    limited,
    measure,
    staged,
)
from benchmarks.experiments.learning_statistics import Shares, file_of, texts
from benchmarks.harness import Experiment, Records, Render, Row, table
from benchmarks.ledger import Record
from memplace_env.envs.registration import Formulation
from memplace_leaderboard.scores import Floats

SECONDS: Final = 60.0

GAMES: Final = tuple(first_ids(Formulation.GAME, 12))
SEARCH: Final = SEARCHES[Formulation.GAME]
PLAYERS: Final = {
    SEARCH: "local search",
    "muzero": "MuZero",
    "plan-gradient": "plan-gradient",
    "cross-entropy": "cross-entropy",
    "ppo": "PPO",
}
"""Solvers of games with seeds, and their names in tables."""
ENOUGH: Final = 98.0
"""Percentage of the best known gain from which a game counts as played well."""


def game_runs(records: Records = ()) -> list[Record]:
    """Return the runs on games; all games with one seed come before the next seed."""
    seeded = product(range(SEEDS), GAMES, PLAYERS)
    return [*free(GAMES), *(limited(env_id, solver, seed, seconds=SECONDS) for seed, env_id, solver in seeded)]


def game_shares(records: Records) -> dict[str, Shares]:
    """Return the shares of each row of the table; a player that has not played all games yet has none."""
    players = {title: Shares.whole(records, GAMES, solver, seconds=SECONDS) for solver, title in PLAYERS.items()}
    return {
        "greedy player": Shares.of(records, GAMES, "greedy-player"),
        "XLA's better public set": Shares.best(*(Shares.of(records, GAMES, solver) for solver in XLA)),
        "best rule": Shares.of(records, GAMES, BEST_RULE),
        **{title: found for title, found in players.items() if found},
        "exact": Shares.of(records, GAMES, EXACT),
    }


def by_solver(records: Records) -> list[tuple[str, Shares, Shares]]:
    """Return rows: a solver's name, its shares, and those of local search."""
    found = game_shares(records)
    return [(title, own, found[PLAYERS[SEARCH]]) for title, own in found.items()]


def ahead(row: Row) -> str:
    """Return a cell: the games on which a solver is ahead of local search, whose own row is empty."""
    return "" if row[1] is row[2] else str(statistics.ahead(row[1], row[2]))


def game_figures(records: Records) -> str:
    """Return a file of all figures."""
    shares, exact = game_shares(records), {record["id"]: record for record in records if record["solver"] == EXACT}
    columns = {
        "game": GAMES,
        "best known ms": statistics.known_ms(GAMES),
        "best known game ms": statistics.known_ms(GAMES, "reachable_ps"),
        "proven": ["yes" if exact[env_id]["proven"] else "no" for env_id in GAMES],
        **{f"{title} %": texts(found.of_instances, ".2f") for title, found in shares.items()},
    }
    for title, found in shares.items():
        if title not in PLAYERS.values():
            continue
        columns[f"{title} least %"] = texts(found.values.min(axis=0), ".2f")
        columns[f"{title} most %"] = texts(found.values.max(axis=0), ".2f")
        columns[f"{title} s"] = texts(found.seconds[0], ".1f")
        columns[f"{title} games played"] = texts(found.plans.mean(axis=0), ".0f")
    return file_of(columns | {"exact s": texts(shares["exact"].seconds[0], ".1f")})


GAME_TABLE: Final = table(
    {
        "solver": itemgetter(0),
        "mean": lambda row: row[1].cell(),
        "worst game": lambda row: f"{row[1].of_instances.min():.1f}",
        f"games from {ENOUGH:.0f} % on": lambda row: f"{(row[1].of_instances >= ENOUGH).sum()} of {len(GAMES)}",
        "ahead of local search": ahead,
        "s": lambda row: f"{row[1].seconds[0].mean():.1f}",
        "seeds": lambda row: len(row[1].values),
        "games played": lambda row: f"{row[1].plans.mean():,.0f}",
    },
    by_solver,
)

PROGRAMS: Final = ("ResNet50", "ResNet101", "BERT")
"""Programs of the EGRL paper."""
MAPS: Final = {name: Formulation.ONE_SHOT.traits.env_id(name) for name in PROGRAMS}
IDS: Final = tuple(first_ids(Formulation.ONE_SHOT, 12))
"""Maps by a rule."""


def best_rule(records: Records, env_ids: tuple[str, ...]) -> Shares:
    """Return the shares of the best rule on one-shot environments."""
    return Shares.of(records, env_ids, BEST_RULE)


PAPER: Final = tuple(first_ids(Formulation.GAME, 52))
"""Games, as many as mallocMuZero's paper counts (Wang et al., arXiv 2305.07440)."""
LEARNER, TUNER = "muzero", "xla-autotune"
PLAYED: Final = 1_000
"""Games that MuZero plays of each."""


def paper_runs(records: Records = ()) -> list[Record]:
    """Return the runs of MuZero against XLA's solver, with seed 0 only; its tuner follows with MuZero's seconds."""
    rules = [limited(env_id, solver) for env_id in PAPER for solver in XLA]
    took = {r["id"]: r["took_s"] for r in records if (r["solver"], r.get("plans")) == (LEARNER, PLAYED)}
    tuned = [limited(env_id, TUNER, seconds=float(math.ceil(took[env_id]))) for env_id in PAPER if env_id in took]
    return [*rules, *(limited(env_id, LEARNER, plans=PLAYED) for env_id in PAPER), *tuned]


def speedups(records: Records) -> dict[str, Floats]:
    """Return float64[games] of MuZero, the better public set and the tuner, over everything in the backing memory."""
    found = {(r["solver"], r["id"]): statistics.speedup(r) for r in records}
    every = {solver: np.array([found[solver, env_id] for env_id in PAPER]) for solver in (*XLA, LEARNER, TUNER)}
    better = np.max([every[solver] for solver in XLA], axis=0)
    return {LEARNER: every[LEARNER], "the better public set": better, f"{TUNER}, equal time": every[TUNER]}


def paper_sentence(records: Records) -> str:
    """Return on how many games MuZero is faster than XLA's public sets and than their tuner, and by how much."""
    own, better, tuned = speedups(records).values()
    took = np.mean([record["took_s"] for record in records if record["solver"] == LEARNER])
    return fill(
        f"In {PLAYED:,} plays of each, {took:.0f} processor seconds in the mean, with one seed, MuZero improves on the "
        f"plans of XLA's public sets, with which it begins, on {(own > better).sum()} of {len(PAPER)} games, in the "
        f"median of all by {100 * np.median(own / better - 1):.1f} %. `{TUNER}` in the same time ends behind it on "
        f"{(own > tuned).sum()} and ahead of it on {(own < tuned).sum()}.",
        120,
    )


def paper_figures(records: Records) -> str:
    """Return a file of the speed-ups of all solvers."""
    over = "speed-up over everything in the backing memory"
    return file_of({"game": PAPER} | {f"{title}, {over}": texts(x, ".6f") for title, x in speedups(records).items()})


def campaign(
    name: str,
    about: str,
    wanted: Callable[[Records], list[Record]],
    pages: dict[str, Render],
    ledger: str = "learning",
) -> Experiment:
    """Return an experiment whose records are those of the learning campaign, or its own."""
    return Experiment(name, about, pages, staged(wanted), measure, key=KEY, ledger=ledger)


EXPERIMENTS = [
    campaign(
        "learning-games",
        "Learning agents, local search, rules and proofs on twelve games, in a minute of one core each.",
        game_runs,
        {
            "docs/how-it-is-solved.md#learning-games": GAME_TABLE,
            "docs/data/learning-games.csv": game_figures,
        },
        ledger="learning-games",
    ),
    campaign(
        "learning-xla",
        "MuZero against XLA's solver and its tuner on 52 games, as many as mallocMuZero's paper counts.",
        paper_runs,
        {"docs/how-it-is-solved.md#learning-xla": paper_sentence, "docs/data/learning-xla.csv": paper_figures},
    ),
]
