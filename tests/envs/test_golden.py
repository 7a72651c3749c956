"""Latencies that an environment's version stands for: if one changes, the id's version must rise.

`golden.json` is what the ids give; `golden-roofline.json` what they give under roofline costs, on the chips that the
recorded results rest on. `python -m tests.envs.test_golden` writes the first anew, and the second if it is not there.
"""

import json
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

import memplace_env  # noqa: F401
from benchmarks.as_measured import as_measured
from memplace_env.registration import GAME, ONE_SHOT, Formulation, game_id, one_shot_id

GOLDEN = Path(__file__).with_name("golden.json")
ROOFLINE = Path(__file__).with_name("golden-roofline.json")


def roofline(env_id: str) -> dict[str, object]:
    formulation = Formulation.GAME if env_id.startswith("MallocGame") else Formulation.ONE_SHOT
    return measured(env_id, **as_measured(gym.spec(env_id).kwargs, formulation))


def measured(env_id: str, **settings: object) -> dict[str, object]:
    env = gym.make(env_id, **settings).unwrapped
    who = {"program": env.program.sha256, "accelerator": env.accelerator.sha256}
    if env_id.startswith("MallocGame"):
        states = env.problem.new_states(2)
        env.problem.finish_greedily(states[:1])
        env.problem.finish_randomly(states[1:], seed=0)
        latencies = env.problem.latency_s(states).tolist()
        return {**who, "all_backing_ps": env.problem.all_backing_ps, "greedy_and_random_latency_s": latencies}
    maps = np.random.default_rng(0).integers(0, env.accelerator.num_levels, (2, env.problem.map_size))
    _, scores = env.score(maps)
    return {
        **who,
        "native_ps": env.problem.native_report.latency_ps,
        "random_latency_s": scores.latency_s.tolist(),
        "random_reassigned": scores.reassigned.tolist(),
    }


IDS = [*map(one_shot_id, ONE_SHOT), *map(game_id, GAME)]


@pytest.mark.parametrize("env_id", IDS)
@pytest.mark.parametrize(("measure", "golden"), [(measured, GOLDEN), (roofline, ROOFLINE)])
def test_golden_latencies(env_id, measure, golden):
    assert measure(env_id) == json.loads(golden.read_text())[env_id]


if __name__ == "__main__":
    for measure, golden in [(measured, GOLDEN), (roofline, ROOFLINE)]:
        if measure is measured or not golden.exists():
            golden.write_text(json.dumps({env_id: measure(env_id) for env_id in IDS}, indent=1) + "\n")
