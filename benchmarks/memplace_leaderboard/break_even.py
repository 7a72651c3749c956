"""The break-even of training: the number of programs after which it has saved more plans than it cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Final

import numpy as np

from memplace_env._lib.threads import cached_property
from memplace_env.envs.best_known import Known
from memplace_leaderboard.cells import curve
from memplace_leaderboard.scores import Curve, mean_curve
from memplace_leaderboard.submission import Submission
from memplace_leaderboard.suite import Budget, Suite, Track

ROUNDING: Final = 1e-9
"""Tolerance in a mean of shares, whose terms may be added in another order."""


@dataclass(frozen=True)
class Player:
    """A submission with the references of its shares.

    Attributes:
        submission: the submission.
        baselines, known: latency of the baseline in ps, and the best known plan and bound, by `Meta.place`.
    """

    submission: Submission
    baselines: Mapping[str, int]
    known: Mapping[str, Known]

    def track(self, suite: Suite) -> Track:
        """The track that was played."""
        return suite.track(self.submission.meta.track)

    @cached_property
    def curves(self) -> dict[int, dict[str, list[Curve]]]:
        """Anytime curves of all runs, by budget in plans and environment id; empty if the agent was trained."""
        table: dict[int, dict[str, list[Curve]]] = {}
        for run in self.submission.entries:
            budget = Budget(run.budget).plans
            if budget is not None and self.submission.meta.training is None:
                place = self.submission.meta.place(run.env_id, run.seed)
                anytime = curve(run, self.baselines[place], self.known[place].best_ps)
                table.setdefault(budget, {}).setdefault(run.env_id, []).append(anytime)
        return table


def break_even(
    mean: float, budget: int, training_plans: int, env_ids: Sequence[str], others: Sequence[Player], cheap: float
) -> float | None:
    """Return how many programs have to be placed until training has saved more plans than it cost.

    Our choice of definition: plans of the training / (plans that untrained search needs − the row's budget). What
    search needs is the smallest number of evaluations at which the mean anytime curve of any untrained submission with
    a budget in plans, at any of its budgets and over the same instances, has reached the row's mean share. If none
    reaches it, the largest of those budgets is taken, so that the result is an upper bound. Only plans count: seconds
    are left out, as they are only declared.

    Args:
        mean: the trained row's share of the gain, mean over instances and runs.
        budget: the row's plans per instance.
        training_plans: plans evaluated in training; declared.
        env_ids: the instances that count.
        others: submissions to tracks with the same simulator; trained ones among them are ignored.
        cheap: the best mean share of the rules that do not search.

    Returns:
        None for never: a rule that does not search is as good, search needs no more plans than the row's budget, or no
        untrained search of these instances was submitted.
    """
    searches = [
        (plans, [anytime for env_id in env_ids for anytime in runs[env_id]])
        for player in others
        for plans, runs in player.curves.items()
        if all(env_id in runs for env_id in env_ids)
    ]
    if cheap >= mean or not searches:
        return None
    needed = min(_first_reached(curves, mean, plans) for plans, curves in searches)
    if needed == inf:
        needed = max(plans for plans, _ in searches)
    return training_plans / (needed - budget) if needed > budget else None


def _first_reached(curves: Sequence[Curve], mean: float, plans: int) -> float:
    """Evaluations, at most `plans`, at which the mean of the curves reaches `mean`, or infinity."""
    grid = np.unique(np.concatenate([at for at, _ in curves]))
    reached = grid[(grid <= plans) & (mean_curve(curves, grid) >= mean - ROUNDING)]
    return float(reached[0]) if len(reached) else inf
