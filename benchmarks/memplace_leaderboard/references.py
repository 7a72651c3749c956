"""References of scores: the baseline and the best known results of each instance, by a track's simulator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from memplace_env.envs.best_known import Known, known_results
from memplace_env.envs.registration import formulation_of_id
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_leaderboard.jobs import true_latency_ps
from memplace_leaderboard.pinned import baseline_plan, task_of
from memplace_leaderboard.submission import Submission
from memplace_leaderboard.suite import Suite, Track


def baselines(suite: Suite, track: Track, submissions: Sequence[Submission] = ()) -> Mapping[str, int]:
    """Return the latency of the baseline in ps, by `Meta.place`.

    Args:
        suite, track: the suite and its track.
        submissions: those to the track; they say which machines were drawn, if it draws any.
    """
    if track.machine is not None:
        return {
            f"{env_id}@{seed}": true_latency_ps(track, env_id, _baseline_plan(env_id), seed)
            for env_id in suite.instances
            for seed in sorted({seed for submission in submissions for seed in submission.meta.machine_seeds or ()})
        }
    return {env_id: instance.baseline_ps for env_id, instance in suite.instances.items()}


def known(suite: Suite, track: Track, submissions: Sequence[Submission] = ()) -> Mapping[str, Known]:
    """Return the best known results by `Meta.place`, without instances for which there are none.

    On a drawn machine these are the fastest of the plans that submissions have for it, the judge's references among
    them; bounds are unknown there.

    Args:
        suite, track: the suite and its track.
        submissions: those to the suite.
    """
    if track.machine is None:
        table = known_results()
        return {env_id: table[env_id] for env_id in suite.instances if env_id in table}
    fastest: dict[str, int] = {}
    for submission in submissions:
        meta = submission.meta
        if suite.track(meta.track).machine == track.machine:
            for entry in submission.entries:
                place = meta.place(entry.env_id, entry.seed)
                fastest[place] = min(entry.latency_ps, fastest.get(place, entry.latency_ps))
    return {place: Known(cheap_ps=latency_ps, best_ps=latency_ps, bound_ps=0) for place, latency_ps in fastest.items()}


def _baseline_plan(env_id: str) -> MemoryPlan:
    return baseline_plan(task_of(env_id), formulation_of_id(env_id))
