"""Registered ids whose best known plan is proven optimal, by formulation and chip, and all gaps added up.

Counts are those of the leaderboard's whole suites in `suites/best-known.toml`; nothing is measured.
"""

from __future__ import annotations

from collections import Counter
from textwrap import fill
from typing import Final

from benchmarks.harness import Experiment, Records
from memplace_env.leaderboard.suite import best_known, load_suite

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


EXPERIMENTS = [Experiment("proven", __doc__, {"docs/how-it-is-solved.md#proven": paragraph})]
