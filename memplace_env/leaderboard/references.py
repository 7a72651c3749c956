"""What scores are against: the baseline of each instance, and the best that is known, by who judges in a track."""

from __future__ import annotations

from collections.abc import Mapping

from memplace_env.leaderboard.jobs import true_latency_ps
from memplace_env.leaderboard.pinned import baseline_plan, is_game, task_of
from memplace_env.leaderboard.suite import Known, Suite, Track, best_known

BLACK_BOX = "@black-box"
"""Ends the key of what is known of an instance on the machine that black-box tracks measure."""


def key_of(track: Track, env_id: str) -> str:
    """Under which name `best_known` has an instance."""
    return env_id + BLACK_BOX if track.is_black_box else env_id


def baselines(suite: Suite, track: Track) -> Mapping[str, int]:
    """Latency in ps of the plan that is free for everybody, by environment id."""
    if not track.is_black_box:
        return {env_id: each.baseline_ps for env_id, each in suite.instances.items()}
    return {
        env_id: true_latency_ps(track, env_id, baseline_plan(task_of(env_id), is_game(env_id)))
        for env_id in suite.instances
        if key_of(track, env_id) in best_known()
    }


def known(suite: Suite, track: Track) -> Mapping[str, Known]:
    """What is known of each instance, by environment id; nothing of those that nobody looked at."""
    table = best_known()
    return {env_id: table[key_of(track, env_id)] for env_id in suite.instances if key_of(track, env_id) in table}
