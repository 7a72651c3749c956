"""EGRL beside local search, rules and proofs, at equal evaluations and in equal time, and without one of its parts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product

from benchmarks.experiments import learning_statistics as statistics
from benchmarks.experiments.learning import IDS, MAPS, best_rule, campaign
from benchmarks.experiments.learning_runs import EXACT, SEARCHES, SEEDS, free, limited
from benchmarks.experiments.learning_statistics import Shares, file_of, texts
from benchmarks.harness import Records, data, heads
from benchmarks.ledger import Record
from memplace_agents.egrl.egrl_config import CONFIGS
from memplace_env.envs.registration import Formulation

PROGRAMS = tuple(MAPS.values())
FEW, MANY = 1_000, 4_000
"""Maps on `IDS` and on `PROGRAMS`."""
EGRL = "egrl"
OTHERS = {SEARCHES[Formulation.ONE_SHOT]: "local search", "cross-entropy": "cross-entropy"}
"""Searches beside it, and their names in tables."""


def runs(records: Records) -> list[Record]:
    """Return the settings of all runs; other searches with EGRL's seconds follow once these are known."""
    every, solvers = range(SEEDS), (EGRL, *OTHERS)
    searches = [limited(e, solver, seed, plans=MANY) for seed, e, solver in product(every, PROGRAMS, solvers)]
    few = [limited(e, solver, seed, plans=FEW) for seed, e, solver in product(every, IDS, solvers)]
    equal = [
        limited(env_id, solver, seed, seconds=seconds)
        for (env_id, seconds), solver, seed in product(seconds_of(records).items(), OTHERS, every)
    ]
    return [*free(tuple(dict.fromkeys((*PROGRAMS, *IDS)))), *searches, *few, *equal]


def seconds_of(records: Records) -> dict[str, float]:
    """Return EGRL's mean processor seconds for `MANY` maps of each program that has records, rounded up."""
    took = {
        env_id: [r["took_s"] for r in records if (r["id"], r["solver"], r.get("plans")) == (env_id, EGRL, MANY)]
        for env_id in PROGRAMS
    }
    return {env_id: float(math.ceil(sum(found) / len(found))) for env_id, found in took.items() if found}


def results(records: Records) -> list[dict[str, str]]:
    """Return a row for each program, and one for the first ids: percentages of the best known gain."""
    rows = []
    for name, env_id in MAPS.items():
        seconds = seconds_of(records)[env_id]
        equal = [Shares.of(records, (env_id,), solver, seconds=seconds).cell() for solver in OTHERS]
        rows.append(_row(records, name, (env_id,), MANY, equal))
    return [*rows, _row(records, f"{len(IDS)} ids", IDS, FEW, [""] * len(OTHERS))]


def _row(records: Records, title: str, env_ids: tuple[str, ...], plans: int, equal: Sequence[str]) -> dict[str, str]:
    others, egrl = _shares(records, env_ids, plans)
    seconds = [shares.seconds.mean() for shares in (egrl, *others, Shares.of(records, env_ids, EXACT))]
    return {
        "environments": f"{title}, {plans:,} plans",
        "best rule": best_rule(records, env_ids).cell(),
        **dict(zip(OTHERS.values(), (found.cell() for found in others), strict=True)),
        "EGRL": egrl.cell(),
        "EGRL ahead of the better by": statistics.difference(egrl, max(others, key=lambda found: found.mean)),
        **dict(zip((f"{title} in EGRL's time" for title in OTHERS.values()), equal, strict=True)),
        f"s: EGRL, {', '.join(OTHERS.values())}, exact": " / ".join(f"{mean:.1f}" for mean in seconds),
    }


def _shares(records: Records, env_ids: Sequence[str], plans: int) -> tuple[list[Shares], Shares]:
    """Return the shares of the other searches, and of EGRL."""
    *others, egrl = (Shares.of(records, env_ids, solver, plans=plans) for solver in (*OTHERS, EGRL))
    return others, egrl


def figures(records: Records) -> str:
    """Return a file of the figures of the first ids: a row for each."""
    others, egrl = _shares(records, IDS, FEW)
    found = dict(zip((*OTHERS.values(), "EGRL"), (*others, egrl), strict=True))
    return file_of(
        {
            "id": IDS,
            "best rule %": texts(best_rule(records, IDS).of_instances, ".2f"),
            **{f"{title} %": texts(shares.of_instances, ".2f") for title, shares in found.items()},
            **{f"{title} s": texts(shares.seconds.mean(axis=0), ".1f") for title, shares in found.items()},
        }
    )


PARTS = {EGRL: "default"} | {f"egrl:{name}": name.replace("-", " ") for name in CONFIGS if name.startswith("no-")}
"""The default, and the solvers that are it without one of its parts, with their names in the table."""


def ablations(records: Records) -> list[dict[str, str]]:
    """Return rows of `PARTS`: percentages of the best known gain at `MANY` maps, and that of the default."""
    whole, rows = Shares.of(records, PROGRAMS, EGRL, plans=MANY), []
    for solver, title in PARTS.items():
        shares = Shares.of(records, PROGRAMS, solver, plans=MANY)
        of_each = {n: Shares.of(records, (env_id,), solver, plans=MANY).cell() for n, env_id in MAPS.items()}
        change = "" if solver == EGRL else statistics.difference(shares, whole)
        sums = {"mean": f"{shares.mean:.1f}", "against the whole": change, "s": f"{shares.seconds.mean():.1f}"}
        rows.append({"EGRL": title, **of_each, **sums})
    return rows


EXPERIMENTS = [
    campaign(
        "egrl",
        "EGRL beside local search, rules and proofs, at equal evaluations and in equal time.",
        runs,
        {
            "docs/data/egrl.csv": data(heads, results),
            "docs/data/egrl-ids.csv": figures,
        },
    ),
    campaign(
        "egrl-ablations",
        "EGRL without one of its parts.",
        lambda records: [
            limited(env_id, solver, seed, plans=MANY) for seed, solver, env_id in product(range(SEEDS), PARTS, PROGRAMS)
        ],
        {"docs/data/egrl-ablations.csv": data(heads, ablations)},
    ),
]
