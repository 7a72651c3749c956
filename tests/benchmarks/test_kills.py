"""A few moments of the campaign of kills."""

import json
import subprocess
import sys

import pytest

from tests.patience import patience


@pytest.mark.thorough
def test_a_few_moments(tmp_path):
    """One of each way, and the log spares a second try."""
    log = str(tmp_path / "log.jsonl")
    command = [sys.executable, "-m", "tests.fuzz.kills", "--agent", "egrl", "--moments", "5", "--log", log]
    for _ in range(2):
        ended = subprocess.run(
            [*command, "--log", str(tmp_path / "log.jsonl")],
            capture_output=True,
            text=True,
            timeout=patience(300),
            check=False,
        )
        assert ended.returncode == 0, ended.stdout + ended.stderr
    rows = [json.loads(line) for line in ended.stdout.splitlines()]
    assert [row["number"] for row in rows] == list(range(5))
    assert all(row["same"] for row in rows)
    assert len({row["happened"][0]["way"] for row in rows}) == 5
