"""References of scores: the baseline and the best known results of each instance, by a track's simulator."""

from __future__ import annotations

from collections.abc import Mapping

from memplace_env.envs.registration import formulation_of_id
from memplace_env.leaderboard.jobs import true_latency_ps
from memplace_env.leaderboard.pinned import baseline_plan, task_of
from memplace_env.leaderboard.suite import Known, Suite, Track, best_known

BLACK_BOX = "@black-box"
"""Suffix of the key of an instance's best known results on the machine that black-box tracks measure."""


def key_of(track: Track, env_id: str) -> str:
    """Return the key of an instance in `best_known`."""
    return env_id + BLACK_BOX if track.is_black_box else env_id


def baselines(suite: Suite, track: Track) -> Mapping[str, int]:
    """Return the latency of the baseline in ps, by environment id."""
    if not track.is_black_box:
        return {env_id: instance.baseline_ps for env_id, instance in suite.instances.items()}
    return {
        env_id: true_latency_ps(track, env_id, baseline_plan(task_of(env_id), formulation_of_id(env_id)))
        for env_id in suite.instances
        if key_of(track, env_id) in best_known()
    }


def known(suite: Suite, track: Track) -> Mapping[str, Known]:
    """Return the best known results by environment id, without instances for which there are none."""
    table = best_known()
    return {env_id: table[key_of(track, env_id)] for env_id in suite.instances if key_of(track, env_id) in table}
