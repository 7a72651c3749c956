"""Searches at 100, 300 and 1,000 plans, in percent of the best known gain, and in processor seconds of one core.

The games are those of the experiment `learning-games`. Of the maps CoAtNet-0 and Swin-tiny were among the trials of
cross-entropy's rate, BERT among those of EGRL and plan-gradient. Five seeds. EGRL plays maps only, and counts no plan
that it tries on its surrogate, which has the cost arrays. Seconds are means, those of the rules included.
"""

from __future__ import annotations

from itertools import product
from typing import Any, Final

from benchmarks.experiments import learning
from benchmarks.experiments.learning_runs import BEST_RULE, KEY, SEARCHES, SEEDS, limited, measure
from benchmarks.experiments.learning_statistics import Shares
from benchmarks.harness import Experiment, Records, heads, table
from benchmarks.ledger import Record
from memplace_agents import Agent
from memplace_env.envs.registration import Formulation

PLANS: Final = (100, 300, 1_000)
PROGRAMS: Final = ("BERT", "Swin-tiny", "DenseNet121", "YOLOX-s", "CoAtNet-0")
IDS: Final = {
    "games": learning.GAMES,
    "maps": tuple(Formulation.ONE_SHOT.traits.env_id(name) for name in PROGRAMS),
}
SOLVERS: Final = {
    "games": {SEARCHES[Formulation.GAME]: "local search"},
    "maps": {SEARCHES[Formulation.ONE_SHOT]: "local search", "egrl": "egrl"},
}
NAMES: Final = {"games": "games", "maps": "one-shot"}
BOTH: Final = {"cross-entropy": "cross-entropy", "plan-gradient": "plan-gradient"}


def settings(records: Records = ()) -> list[Record]:
    """Return the runs, rules first; all with one seed come before the next seed."""
    rules = [limited(env_id, BEST_RULE) for ids in IDS.values() for env_id in ids]
    return rules + [
        limited(env_id, solver, seed, plans=plans)
        for seed, kind in product(range(SEEDS), IDS)
        for env_id, solver, plans in product(IDS[kind], SOLVERS[kind] | BOTH, PLANS)
    ]


def measured(run: Record, agent: Agent[Any] | None = None) -> Record:
    """Return the record of a run, by an agent if one is given, without its curve."""
    return {name: value for name, value in measure(run, agent).items() if name != "curve"}


def rows(records: Records) -> list[dict[str, str]]:
    """Return shares and seconds: a row for each solver of games, then of maps."""
    found = []
    for kind, ids in IDS.items():
        for solver, title in ({BEST_RULE: "best rule"} | SOLVERS[kind] | BOTH).items():
            row = {"on": f"{len(ids)} {NAMES[kind]}", "search": title}
            for plans in PLANS:
                shares = Shares.of(records, ids, solver, plans=None if solver == BEST_RULE else plans)
                row |= {f"{plans:,} plans": shares.cell(), f"s{' ' * len(row)}": f"{shares.seconds.mean():.1f}"}
            found.append(row)
    return found


EXPERIMENTS = [
    Experiment(
        "few-plans",
        __doc__,
        {"docs/how-it-is-solved.md#few-plans": table(heads, rows)},
        settings,
        measured,
        key=KEY,
    )
]
