"""Part `xla`: one learning agent alone against XLA's solver on 52 games, as mallocMuZero's paper counts.

The paper (Wang et al., arXiv 2305.07440) says that its agent was faster than the default solver on 33 of 52 programs,
and by 4.05 % in the mean.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from benchmarks.learning import statistics
from benchmarks.learning.part import Part, Shown
from benchmarks.learning.runs import XLA, first_ids, limited
from benchmarks.ledger import Record
from benchmarks.tables import DataFile, markdown_table
from memplace_env.envs.registration import Formulation
from memplace_env.leaderboard.scores import Floats

GAMES = tuple(first_ids(Formulation.GAME, 52))
SECONDS = 60.0
LEARNER, TUNER = "muzero", "xla-autotune"
LEAST = 0.001
"""Fraction of the latency by which plans must differ to count as better or worse; our choice."""


def runs(seeds: int, records: Sequence[Record] = ()) -> list[Record]:
    """Return the settings of all runs, which have seed 0 only."""
    rules = [limited(env_id, solver) for env_id in GAMES for solver in XLA]
    return [*rules, *(limited(env_id, solver, seconds=SECONDS) for env_id in GAMES for solver in (LEARNER, TUNER))]


def speedups(records: Sequence[Record]) -> dict[str, Floats]:
    """Return float64[games] for each solver: speed-ups over everything in the backing memory, seed 0.

    The tuner is there once all its runs are recorded.
    """
    found = {(r["solver"], r["id"]): statistics.speedup(r) for r in records if r.get("seed") == 0}
    tuned = [TUNER] if all((TUNER, env_id) in found for env_id in GAMES) else []
    every = {solver: np.array([found[solver, env_id] for env_id in GAMES]) for solver in (*XLA, LEARNER, *tuned)}
    better = np.max([every[solver] for solver in XLA], axis=0)
    shown = {LEARNER: every[LEARNER], "the better public set": better}
    return shown | {f"{solver}, equal time": every[solver] for solver in tuned}


def table(every: Mapping[str, Floats]) -> str:
    """Return a Markdown table with a row for each of XLA's solvers: where and by how much MuZero's plans are faster."""
    heads = ["MuZero against", "better", "alike", "worse", "mean", "worst game", "best game"]
    rows = []
    for title, other in list(every.items())[1:]:
        percent = 100 * (every[LEARNER] / other - 1)
        better, worse = (percent > 100 * LEAST).sum(), (percent < -100 * LEAST).sum()
        figures = (percent.mean(), percent.min(), percent.max())
        counts = (better, len(percent) - better - worse, worse)
        rows.append([title, *map(str, counts), *(f"{figure:+.2f} %" for figure in figures)])
    return markdown_table(heads, rows)


def show(records: Sequence[Record]) -> Shown:
    """Return the table and all figures."""
    every = speedups(records)
    rows = [
        [env_id, *(f"{value:.6f}" for value in values)] for env_id, *values in zip(GAMES, *every.values(), strict=True)
    ]
    heads = ["game", *(f"{title}, speed-up over everything in the backing memory" for title in every)]
    return Shown({"learning-xla": table(every)}, {"learning-xla.csv": DataFile(heads, rows)}, {})


PART = Part(runs, show, ("learning.md", "muzero.md"))
