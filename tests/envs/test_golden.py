"""Latencies that an environment's version stands for: if one changes, the id's version must rise.

`python -m tests.envs.test_golden` writes them anew.
"""

import json
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

import memplace_env  # noqa: F401
from memplace_env.registration import ONE_SHOT, one_shot_id

GOLDEN = Path(__file__).with_name("golden_one_shot.json")


def measured(workload: str) -> dict[str, object]:
    env = gym.make(one_shot_id(workload)).unwrapped
    maps = np.random.default_rng(0).integers(0, 3, (2, env.problem.map_size))
    _, scores = env.score(maps)
    return {
        "program": env.program.sha256,
        "accelerator": env.accelerator.sha256,
        "native_ps": env.problem.native_report.latency_ps,
        "random_latency_s": scores.latency_s.tolist(),
        "random_reassigned": scores.reassigned.tolist(),
    }


@pytest.mark.parametrize("workload", list(ONE_SHOT))
def test_golden_latencies(workload):
    assert measured(workload) == json.loads(GOLDEN.read_text())[workload]


if __name__ == "__main__":
    GOLDEN.write_text(json.dumps({workload: measured(workload) for workload in ONE_SHOT}, indent=1) + "\n")
