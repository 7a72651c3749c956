"""Submissions with the plans of another one: what is shown of searches that claim to be different."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

from memplace_leaderboard.submission import Submission
from memplace_leaderboard.suite import REFERENCE, Suite

LEAST: Final = 0.5
"""Fraction of a submission's runs from which equal plans are mentioned. Our choice."""


def same_plans(suite: Suite, submissions: Sequence[Submission]) -> Mapping[tuple[str, str], str]:
    """Return a sentence about each submission whose plans are mostly those of another one, by (track, name).

    Plans are compared in all of their addresses, over all tracks of one simulator. Two searches that find the same
    optimum rarely choose the same addresses; a copy does. Submissions of one agent are not compared.

    Args:
        suite: the suite.
        submissions: those to it, without the rules that the board plays.
    """
    owners: dict[tuple[object, ...], set[int]] = defaultdict(set)
    keys: list[list[tuple[object, ...]]] = []
    for index, played in enumerate(submissions):
        simulator = suite.track(played.meta.track).simulator
        keys.append([(simulator, e.env_id, e.plan.key) for e in played.entries if e.budget != REFERENCE])
        for key in keys[-1]:
            owners[key].add(index)
    found = {}
    for index, played in enumerate(submissions):
        others = Counter(
            other for key in keys[index] for other in owners[key] if submissions[other].meta.agent != played.meta.agent
        )
        if others:
            other, count = others.most_common(1)[0]
            if count >= LEAST * len(keys[index]):
                theirs = submissions[other].meta
                where = "" if theirs.track == played.meta.track else f" in {theirs.track}"
                found[played.meta.track, played.meta.name] = (
                    f"{count} of {len(keys[index])} plans are those of {theirs.name}{where}, block by block."
                )
    return found
