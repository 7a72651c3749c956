"""Latencies of registered ids under roofline costs are equal to the recorded ones to the last digit, and stay so."""

import json
from pathlib import Path

import gymnasium as gym
import pytest

from memplace_env.envs.registration import formulation_of_id
from tests.envs.golden import ROOFLINE, kept, latencies

RECORDED = json.loads(ROOFLINE.read_text())
DERATED = str(Path(__file__).parents[2] / "benchmarks" / "data" / "tpu-v4i-derated.toml")
"""tpu-v4i with three quarters of the published bandwidth of its HBM."""


@pytest.mark.parametrize("env_id", RECORDED)
def test_latencies_under_roofline_costs(env_id):
    spec = gym.spec(env_id)
    chip = spec.kwargs.get("accelerator", formulation_of_id(env_id).traits.accelerator)
    derated = {"accelerator": DERATED} if chip == "tpu-v4i" else {}
    env = gym.make(env_id, **derated, costs="roofline").unwrapped
    assert latencies(env) == RECORDED[env_id]


def test_released_latencies_are_frozen():
    old, more, other = {"A-v0": 1}, {"A-v0": 1, "B-v0": 2}, {"A-v0": 3, "B-v0": 2}
    assert kept(old, more, "1.2.0") == more
    assert kept(old, other, "0.1.0") == other
    for found in (other, {"B-v0": 2}):
        for version in ("1.0.0rc1", "1.0.0", "2.1.3"):
            with pytest.raises(SystemExit, match=r"A-v0 gave other .*-vN"):
                kept(old, found, version)
