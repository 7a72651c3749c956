"""Learning agents, searches, rules and proofs in processor time of one core: games, open games, maps, and XLA's solver.

Runs and their budgets are those of `learning_runs`.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from operator import itemgetter
from typing import Final

import numpy as np

from benchmarks.experiments import learning_statistics as statistics
from benchmarks.experiments.learning_runs import (
    BEST_RULE,
    EXACT,
    KEY,
    PROOF_S,
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
from benchmarks.harness import Experiment, Records, Render, Row, data, heads, table
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

OPEN: Final = (
    "MallocGame-ViT-small-train-v0",
    "MallocGame-DenseNet121-ethos-u65-v0",
    "MallocGame-GPT2-train-v0",
    "MallocGame-Swin-tiny-edge-tpu-v0",
    "MallocGame-PNASNet-5-intel-npu-4000-v0",
    "MallocGame-Llama-blocks-train-v0",
    "MallocGame-DenseNet121-edge-tpu-v0",
    "MallocGame-BART-edge-tpu-v0",
    "MallocGame-RoBERTa-edge-tpu-v0",
    "MallocGame-ConvNeXt-base-edge-tpu-v0",
    "MallocGame-ALBERT-edge-tpu-v0",
    "MallocGame-Swin-base-intel-npu-4000-v0",
)
"""The twelve games without slices that best-known.toml left farthest from their bounds on 2026-11-27."""
SOLVERS: Final = {
    EXACT: "exact",
    SEARCH: "local search",
    "plan-gradient": "plan-gradient",
    "cross-entropy": "cross-entropy",
    "xla-autotune": "xla-autotune",
}
"""Solvers of open games, which have seed 0 only, and their names in tables."""


def open_shares(records: Records) -> dict[str, Shares]:
    """Return the shares of each solver by its name."""
    return {title: Shares.of(records, OPEN, solver, seconds=PROOF_S) for solver, title in SOLVERS.items()}


def open_figures(records: Records) -> str:
    """Return a file of all figures."""
    shares = open_shares(records)
    return file_of(
        {
            "game": OPEN,
            "best known ms": statistics.known_ms(OPEN),
            "bound ms": statistics.known_ms(OPEN, "bound_ps"),
            **{f"{title} %": texts(found.of_instances, ".2f") for title, found in shares.items()},
            **{f"{title} s": texts(found.seconds[0], ".1f") for title, found in shares.items()},
        }
    )


PROGRAMS: Final = ("ResNet50", "ResNet101", "BERT")
"""Programs of the EGRL paper."""
MAPS: Final = {name: Formulation.ONE_SHOT.traits.env_id(name) for name in PROGRAMS}
IDS: Final = tuple(first_ids(Formulation.ONE_SHOT, 12))
"""Other maps by a rule, which have seed 0 only."""
MAPPERS: Final = {
    SEARCHES[Formulation.ONE_SHOT]: "local search",
    "plan-gradient": "plan-gradient",
    "cross-entropy": "cross-entropy",
}
"""Solvers of maps with seeds, and their names in tables."""


def map_runs(records: Records = ()) -> list[Record]:
    """Return the runs on maps; all programs with one seed come before the next seed, and other maps last."""
    programs = tuple(MAPS.values())
    others = tuple(env_id for env_id in IDS if env_id not in programs)
    seeded = [*product(range(SEEDS), programs, MAPPERS), *product([0], others, MAPPERS)]
    settings = [limited(env_id, solver, seed, seconds=SECONDS) for seed, env_id, solver in seeded]
    return [*free(programs), *settings, *free(others)]


def best_rule(records: Records, env_ids: tuple[str, ...]) -> Shares:
    """Return the shares of the best rule on one-shot environments."""
    return Shares.of(records, env_ids, BEST_RULE)


def map_rows(records: Records) -> list[dict[str, str]]:
    """Return a row for each program, and one for the first ids: percentages of the best known gain."""

    def row(title: str, ids: tuple[str, ...], chosen: Records, exact: str) -> dict[str, str]:
        found = {solver: Shares.of(chosen, ids, solver, seconds=SECONDS) for solver in MAPPERS}
        seconds = found["plan-gradient"].seconds[0].mean()
        shares = {title: found[solver].cell() for solver, title in MAPPERS.items()}
        spent = {"its s": f"{seconds:.1f}", "its plans": f"{found['plan-gradient'].plans.mean():,.0f}"}
        return {"program": title, "exact": exact, "best rule": best_rule(chosen, ids).cell(), **shares, **spent}

    rows = []
    for name, env_id in MAPS.items():
        proof = next(record for record in records if (record["id"], record["solver"]) == (env_id, EXACT))
        rows.append(row(name, (env_id,), records, f"{statistics.speedup(proof):.4f} in {proof['took_s']:.1f} s"))
    first = [record for record in records if record["seed"] == 0]
    exact = Shares.of(first, IDS, EXACT)
    of_exact = f"{exact.mean:.1f} in {exact.seconds.mean():.1f} s"
    return [*rows, row(f"{len(IDS)} ids, one seed", IDS, first, of_exact)]


PAPER: Final = tuple(first_ids(Formulation.GAME, 52))
"""Games, as many as mallocMuZero's paper counts (Wang et al., arXiv 2305.07440)."""
LEARNER, TUNER = "muzero", "xla-autotune"


def paper_runs(records: Records = ()) -> list[Record]:
    """Return the runs of MuZero against XLA's solver, which have seed 0 only."""
    rules = [limited(env_id, solver) for env_id in PAPER for solver in XLA]
    return [*rules, *(limited(env_id, solver, seconds=SECONDS) for env_id in PAPER for solver in (LEARNER, TUNER))]


def speedups(records: Records) -> dict[str, Floats]:
    """Return float64[games] for each solver: speed-ups over everything in the backing memory, seed 0."""
    found = {(r["solver"], r["id"]): statistics.speedup(r) for r in records if r.get("seed") == 0}
    every = {solver: np.array([found[solver, env_id] for env_id in PAPER]) for solver in (*XLA, LEARNER, TUNER)}
    better = np.max([every[solver] for solver in XLA], axis=0)
    return {LEARNER: every[LEARNER], "the better public set": better, f"{TUNER}, equal time": every[TUNER]}


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
        "learning-open",
        "A learning agent on games that are not proven, beside the exact agent and searches at equal time.",
        lambda records: [limited(env_id, solver, seconds=PROOF_S) for env_id in OPEN for solver in SOLVERS],
        {"docs/data/learning-open.csv": open_figures},
    ),
    campaign(
        "learning-steps",
        "plan-gradient on maps, beside local search, in a minute of one core each.",
        map_runs,
        {"docs/data/learning-steps.csv": data(heads, map_rows)},
    ),
    campaign(
        "learning-xla",
        "MuZero alone against XLA's solver on 52 games, as mallocMuZero's paper counts.",
        paper_runs,
        {"docs/data/learning-xla.csv": paper_figures},
    ),
]
