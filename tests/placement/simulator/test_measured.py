"""A simulator that says one number: `Report.measured`, from the environments to pictures."""

import math

import gymnasium as gym
import numpy as np
import pytest

from memplace_env import Report
from memplace_env._lib.errors import SimulatorError
from memplace_env.testing import check_simulator
from tests.cli.conftest import Run, run  # noqa: F401  (a fixture)
from tests.entry_points import install

PROGRAM = "synthetic:chain?ops=8&seed=4"


class Stopwatch:
    """A machine whose time grows with the uses that the fastest level does not serve."""

    def run(self, program, accelerator, plan):
        return Report.measured(1e-3 + 1e-6 * np.count_nonzero(plan.use_level))


def test_the_contract_takes_it():
    check_simulator(Stopwatch())


def test_latency_is_rounded_to_picoseconds_and_all_else_is_unknown():
    report = Report.measured(2.5e-6, energy_j=0.5)
    assert (report.latency_ps, report.energy_j, report.traffic_bound_ps) == (2_500_000, 0.5, 1)
    assert Report.measured(1e-15).latency_ps == 1
    sized = report.sized(3, ("fast", "slow"))
    assert (sized.latency_ps, sized.op_time_ps.shape, sized.port_ps.shape) == (2_500_000, (3,), (3, 2))
    assert sized.bound_by.tolist() == [-1, -1, -1]
    assert sized.sized(9, ("other",)) is sized


@pytest.mark.parametrize("seconds", [0, -1.0, math.nan, math.inf, "2", None])
def test_impossible_seconds_are_refused(seconds):
    with pytest.raises(SimulatorError, match=r"^Report\.measured: seconds is .*; it must be a number above 0\.$"):
        Report.measured(seconds)


def test_environments_take_its_latency():
    env = gym.make("MemPlace-v0", workload=PROGRAM, simulator=Stopwatch())
    env.reset()
    fast = env.step(np.zeros(env.action_space.shape, dtype=np.int64))[4]
    slow = env.step(env.action_space.nvec - 1)[4]
    assert slow["latency_s"] > fast["latency_s"] > 1e-3


def test_the_command_line_prints_and_draws_its_plans(run: Run, tmp_path, monkeypatch):  # noqa: F811
    install(monkeypatch, "memplace.simulators", stopwatch=Stopwatch())
    folder = tmp_path / "out"
    done = run(
        "solve", PROGRAM, "--simulator", "stopwatch", "--agent", "local-search", "--budget", "50", "--out", folder
    )
    assert done.exit_code == 0, done.output
    assert "No bound: the simulator reports none." in done.output
    assert "The simulator reports no times of single ops." in done.output
    assert "lost to memory" not in done.output
    assert (folder / "plan.png").stat().st_size > 1000
    explained = run("explain", folder / "plan.json", "--out", tmp_path / "explain.png")
    assert explained.exit_code == 0, explained.output
