"""`memplace offline-suite`: its games, grades and scores, and what Minari reads back."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from memplace_env.envs.datasets import grades
from memplace_leaderboard.suite import load_suite
from tests.cli.conftest import Run

GAME = "MallocGame-NeRF-intel-npu-4000-v0"


def test_games_are_those_of_the_rule() -> None:
    games = [env_id for env_id in load_suite("quick-v2").instances if env_id.startswith("MallocGame-")]
    games.sort(key=lambda env_id: hashlib.sha256(env_id.encode()).hexdigest())
    assert tuple(games[:6]) == grades.OFFLINE


def test_grades_and_scores(parsed: Callable[..., Any], run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    minari = pytest.importorskip("minari", reason="minari is not installed")
    pytest.importorskip("h5py", reason="h5py is not installed")
    monkeypatch.setattr(grades, "OFFLINE", (GAME,))
    rows = {row["grade"]: row for row in parsed("offline-suite", "--episodes", 3, "--out", "d")}
    assert list(rows) == list(grades.GRADES) == ["random", "rule", "expert"]
    assert rows["random"]["score"] < rows["rule"]["score"] < rows["expert"]["score"] <= 1
    for grade, row in rows.items():
        data = minari.MinariDataset(Path(row["data"]))
        assert (data.id, len(data), data.total_steps) == (row["dataset_id"], 3, row["steps"])
        raw = sum(array.nbytes for episode in data for array in (episode.observations, episode.rewards))
        assert row["bytes"] < raw / 5, "compressed"
        scores = minari.get_normalized_score(data, np.array([episode.rewards.sum() for episode in data]))
        assert scores.mean() == pytest.approx(row["score"])
        assert (scores[0] == pytest.approx(1, abs=1e-4)) == (grade == "expert")
        env = data.recover_environment()
        assert env.spec.id == GAME
        assert [env.reset()[0].shape, env.unwrapped.skip_forced] == [(546,), True]
    refused = run("offline-suite", "--out", "d")
    assert (refused.exit_code, refused.stderr.count("--force")) == (2, 1)
