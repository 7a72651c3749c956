"""After how many programs training has paid off."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Final

import numpy as np

from memplace_env.leaderboard.cells import curve
from memplace_env.leaderboard.scores import Curve, mean_curve
from memplace_env.leaderboard.submission import Submission
from memplace_env.leaderboard.suite import Budget, Known, Suite, Track
from memplace_env.threads import cached_property

ROUNDING: Final = 1e-9
"""Of a mean of shares, whose terms may be added in another order."""


@dataclass(frozen=True)
class Player:
    """A submission with what its shares are measured by, both by environment id."""

    submission: Submission
    baselines: Mapping[str, int]
    known: Mapping[str, Known]

    def track(self, suite: Suite) -> Track:
        """The track that was played."""
        return suite.track(self.submission.meta.track)

    @cached_property
    def curves(self) -> dict[int, dict[str, list[Curve]]]:
        """Of each run, by budget in plans and environment id; empty if it was trained."""
        table: dict[int, dict[str, list[Curve]]] = {}
        for run in self.submission.entries:
            budget = Budget(run.budget).plans
            if budget is not None and self.submission.meta.training is None:
                found = curve(run, self.baselines[run.env_id], self.known[run.env_id].best_ps)
                table.setdefault(budget, {}).setdefault(run.env_id, []).append(found)
        return table


def pays_off(
    mean: float, budget: int, training_plans: int, env_ids: Sequence[str], rivals: Sequence[Player], cheap: float
) -> float | None:
    """How many programs have to be placed until training has cost fewer plans than it saves.

    Our choice of definition: plans of the training / (plans that untrained search needs − the row's budget). What
    search needs is the smallest number of evaluations at which the mean anytime curve of any untrained submission with
    a budget in plans, at any of its budgets and over the same instances, has reached the row's mean share. If none
    reaches it, the largest of those budgets is taken, so that the answer is an upper bound. An agent that searches
    anew at no cost of thinking is assumed: seconds are left out, as they are only declared.

    Args:
        mean: share of the gain, mean over instances and runs, of the trained row.
        budget: its plans for an instance.
        training_plans: declared.
        env_ids: of the instances that count.
        rivals: submissions whose latencies are judged as this row's are; the trained among them are passed over.
        cheap: the best mean share of the rows that cost no search.

    Returns:
        None, for never: a row that costs no search is as good, search needs no more plans than the row's budget, or no
        untrained search of these instances was submitted.
    """
    searches = [
        (plans, [one for env_id in env_ids for one in runs[env_id]])
        for rival in rivals
        for plans, runs in rival.curves.items()
        if all(env_id in runs for env_id in env_ids)
    ]
    if cheap >= mean or not searches:
        return None
    needed = min(_reaches(curves, mean, plans) for plans, curves in searches)
    if needed == inf:
        needed = max(plans for plans, _ in searches)
    return training_plans / (needed - budget) if needed > budget else None


def _reaches(curves: Sequence[Curve], mean: float, plans: int) -> float:
    """Evaluations at which the mean of the curves is there, or infinity if it is not within the plans."""
    grid = np.unique(np.concatenate([at for at, _ in curves]))
    there = grid[(grid <= plans) & (mean_curve(curves, grid) >= mean - ROUNDING)]
    return float(there[0]) if len(there) else inf
