"""Cross-entropy with a policy of other programs as prior, by the protocol: Train, choice on Validation, report on Test.

The ids are those of the one-shot splits by family on the default chip, all of them. For each seed plan-gradient trains
one policy on Train with 3,000 plans of each program. After every 1,000 cross-entropy plans each program of Validation
with it, 1,000 plans each; the policy with the highest mean share there is the prior on Test. `python -m
benchmarks.experiments.prior FILE` writes the policy of seed 0, the best of all on Validation, which the package ships.
"""

from __future__ import annotations

import sys
import tempfile
import time
from functools import cache
from itertools import product
from pathlib import Path
from typing import Final

import numpy as np

from benchmarks.experiments import few_plans
from benchmarks.experiments.learning_runs import BEST_RULE, SEEDS, limited, measure
from benchmarks.experiments.learning_statistics import Shares, share
from benchmarks.harness import Experiment, Records, data, heads
from benchmarks.ledger import Record
from memplace_agents import CrossEntropy, PlanGradient
from memplace_agents.learning.plan_distribution import DistributionSettings
from memplace_agents.learning.policy_file import save_policy
from memplace_env.envs.registration import Formulation
from memplace_env.envs.splits import Split, split_suites

PLANS: Final = (100, 1_000)
STAGES: Final = (1_000, 2_000, 3_000)
"""Plans of each program of Train after which a policy is asked on Validation."""
SEARCH, PRIOR, LEAN = "cross-entropy", "cross-entropy, prior", "cross-entropy, lean 3"
SOLVERS: Final = (BEST_RULE, "local-search", SEARCH, LEAN, PRIOR)
"""Solvers in the order of their rows; with a lean of 3 nats the first logits prefer the fastest level everywhere."""


@cache
def ids_of(split: Split) -> tuple[str, ...]:
    """Return the one-shot ids of a split on the default chip."""
    traits = Formulation.ONE_SHOT.traits
    default = {traits.env_id(name) for name, settings in traits.settings.items() if "accelerator" not in settings}
    return tuple(env_id for env_id in split_suites()[f"{Formulation.ONE_SHOT}-{split}"] if env_id in default)


def runs(records: Records = ()) -> list[Record]:
    """Return the settings of all runs: what needs no training, then a training for each seed."""
    rules = [limited(env_id, BEST_RULE) for env_id in ids_of(Split.TEST)]
    every = product(range(SEEDS), ("local-search", SEARCH, LEAN), PLANS, ids_of(Split.TEST))
    searches = [limited(env_id, solver, seed, plans=plans) for seed, solver, plans, env_id in every]
    return [*rules, *searches, *({"id": "all", "solver": PRIOR, "seed": seed} for seed in range(SEEDS))]


def measured(run: Record) -> Record:
    """Return the record of a run; that of a training has the shares on Validation and a record of each run on Test."""
    if run["solver"] != PRIOR:
        return few_plans.measured(run, CrossEntropy(DistributionSettings(lean=3.0)) if run["solver"] == LEAN else None)
    began = time.process_time()
    agent, validation = trained(run["seed"])
    took = round(time.process_time() - began, 2)
    on_test = [{**run, "id": env_id, "plans": plans} for plans, env_id in product(PLANS, ids_of(Split.TEST))]
    found = [few_plans.measured(one, agent) for one in on_test]
    return {**run, "validation": validation, "took_s": took, "runs": found}


def trained(seed: int) -> tuple[CrossEntropy, list[float]]:
    """Return the agent whose policy has the highest mean share on Validation, and the shares of all that were asked."""
    shares, best = list[float](), CrossEntropy()
    with tempfile.TemporaryDirectory() as folder:
        for plans in STAGES:
            training = PlanGradient(out=folder, resume=plans > STAGES[0])
            agent = CrossEntropy(policy=training.train(ids_of(Split.TRAIN), budget=plans, seed=seed).policy)
            asked = [limited(env_id, PRIOR, seed, plans=PLANS[-1]) for env_id in ids_of(Split.VALIDATION)]
            shares.append(float(np.mean([share(measure(one, agent)) for one in asked])))
            best = agent if shares[-1] == max(shares) else best
    return best, shares


def rows(records: Records) -> list[dict[str, str]]:
    """Return a row for each solver: percentages of the best known gain, and seconds of the larger budget."""
    every, found = [*records, *(run for record in records for run in record.get("runs", ()))], []
    for solver in SOLVERS:
        row = {"search": solver}
        for plans in PLANS:
            limits = {} if solver == BEST_RULE else {"plans": plans}
            shares = Shares.of(every, ids_of(Split.TEST), solver, **limits)
            row[f"{plans:,} plans"] = shares.cell()
        found.append(row | {"s": f"{shares.seconds.mean():.1f}", "seeds": str(len(shares.values))})
    return found


EXPERIMENTS = [
    Experiment(
        "prior",
        __doc__,
        {"docs/data/prior.csv": data(heads, rows)},
        runs,
        measured,
        key=("id", "solver", "seed", "plans"),
    )
]

if __name__ == "__main__":
    save_policy(Path(sys.argv[1]), trained(0)[0].policy, ids_of(Split.TRAIN))
