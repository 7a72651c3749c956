"""Registered ids whose best known plan is proven optimal, by formulation and chip, and all gaps added up.

Counts are those of the leaderboard's whole suites in `memplace_env/envs/best-known.toml`; nothing is measured.
"""

from __future__ import annotations

from collections import Counter
from textwrap import fill
from typing import Final

from benchmarks import proofs
from benchmarks.harness import Experiment, Records
from memplace_env.envs.best_known import best_known
from memplace_leaderboard.scores import Floats
from memplace_leaderboard.suite import load_suite

SUITES: Final = {"one-shot-v1": "one-shot ids", "game-v1": "games"}
PROVEN: Final = 1e-4
"""Gap of the best known plan to its bound up to which it counts as proven. Our choice."""
CLOSE: Final = 1e-2
"""Gap up to which it counts as close. Our choice."""


def sentence(suite: str, what: str) -> str:
    """Return how many of a suite's ids are proven, on each chip, those with most ids first, and their gaps."""
    known = best_known()
    ids, proven, gaps = Counter[str](), Counter[str](), list[float]()
    for env_id, instance in load_suite(suite).instances.items():
        ids[instance.accelerator] += 1
        gaps.append(known[env_id].best_ps / known[env_id].bound_ps - 1)
        proven[instance.accelerator] += gaps[-1] <= PROVEN
    *first, last = (f"{proven[chip]} of {count} on `{chip}`" for chip, count in ids.most_common())
    chips = f"{', '.join(first)} and {last}" if first else last
    close = f"{sum(gap <= CLOSE for gap in gaps)} are within {100 * CLOSE:g} % of their bounds"
    worst = f"the widest gap is {100 * max(gaps):.2g} %, and all gaps add up to {100 * sum(gaps):.2g} %"
    return f"Of the {ids.total()} {what} {proven.total()} are proven optimal: {chips}; {close}, {worst}."


def paragraph(records: Records) -> str:
    """Return the sentences about all suites, and what counts as proven."""
    counts = [sentence(suite, what) for suite, what in SUITES.items()]
    meaning = f"Proven means that the best known plan is at most {100 * PROVEN:g} % above its bound."
    return fill(" ".join([*counts, meaning]), 120)


def proofs_found(records: Records) -> dict[str, tuple[Floats, Floats]]:
    """Return the gaps of each suite's ids, before and now."""
    before, now = proofs_gaps(records)
    ids = [record["id"] for record in records]
    found = {}
    for suite, what in proofs.SUITES.items():
        rows = [row for row, env_id in enumerate(ids) if env_id in load_suite(suite).instances]
        found[what] = before[rows], now[rows]
    return found


def proofs_gaps(records: Records) -> tuple[Floats, Floats]:
    """Return the gaps before and now."""
    every = EXPERIMENTS[1].open().records
    before = {record["id"]: proofs.gap(record) for record in every if record["series"] == proofs.BEFORE}
    return proofs.gaps(records, proofs.known_gaps(every) | before)


EXPERIMENTS = [
    Experiment("proven", __doc__, {"docs/how-it-is-solved.md#proven": paragraph}),
    Experiment(
        "proofs",
        "How far plans of registered ids may be from the optimum; see `benchmarks.proofs`, which measures.",
        {
            "docs/how-it-is-solved.md#proofs": lambda records: proofs.table(proofs_found(records)),
            "docs/data/proofs.csv": lambda records: proofs.data(records, *proofs_gaps(records)).csv(),
        },
        lambda records: [{"id": env_id, "series": proofs.NOW, "seconds": 60.0} for env_id in proofs.registered()],
        proofs.measure,
        key=proofs.FIELDS,
    ),
]
