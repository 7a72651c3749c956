"""The costs that recorded results rest on: what ids gave under them, they still give."""

import json

import gymnasium as gym
import pytest

from benchmarks.as_measured import as_measured
from memplace_env.registration import Formulation
from tests.envs.golden import ROOFLINE, latencies

RECORDED = json.loads(ROOFLINE.read_text())


@pytest.mark.parametrize("env_id", RECORDED)
def test_latencies_of_recorded_results(env_id):
    formulation = Formulation.GAME if env_id.startswith("MallocGame") else Formulation.ONE_SHOT
    env = gym.make(env_id, **as_measured(gym.spec(env_id).kwargs, formulation)).unwrapped
    assert latencies(env) == RECORDED[env_id]
