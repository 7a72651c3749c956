"""Simulators: what a plan costs, by the task's cost arrays or by whoever plugs in."""

from memplace_env.simulator.bound import lower_bound_ps
from memplace_env.simulator.builtin import BuiltinSimulator, time_plan
from memplace_env.simulator.judge import judge_plan, resolve_simulator
from memplace_env.simulator.protocol import Simulator
from memplace_env.simulator.report import Report

__all__ = [
    "BuiltinSimulator",
    "Report",
    "Simulator",
    "judge_plan",
    "lower_bound_ps",
    "resolve_simulator",
    "time_plan",
]
