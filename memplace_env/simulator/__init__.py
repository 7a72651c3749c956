"""Simulators: what a plan costs, by the task's cost arrays or by whoever plugs in."""

from memplace_env.simulator.bound import traffic_bound_ps
from memplace_env.simulator.builtin import BuiltinSimulator, time_plan
from memplace_env.simulator.judge import judge_plan, judge_plans, resolve_simulator
from memplace_env.simulator.parallel import ParallelSimulator, in_parallel
from memplace_env.simulator.protocol import BatchSimulator, Simulator
from memplace_env.simulator.report import Report

__all__ = [
    "BatchSimulator",
    "BuiltinSimulator",
    "ParallelSimulator",
    "Report",
    "Simulator",
    "in_parallel",
    "judge_plan",
    "judge_plans",
    "resolve_simulator",
    "time_plan",
    "traffic_bound_ps",
]
