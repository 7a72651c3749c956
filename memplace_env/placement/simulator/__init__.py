"""Simulators: latency and energy of plans, by the task's cost arrays or by a third party's simulator."""

from memplace_env.placement.simulator.builtin import BuiltinSimulator, backing_port_ps, time_plan
from memplace_env.placement.simulator.evaluation import evaluate_plan, evaluate_plans, resolve_simulator
from memplace_env.placement.simulator.event import EventSimulator
from memplace_env.placement.simulator.parallel import ParallelSimulator
from memplace_env.placement.simulator.traffic_bound import traffic_bound_ps
from memplace_env.placement.simulator_report import BatchSimulator, Report, Simulator

__all__ = [
    "BatchSimulator",
    "BuiltinSimulator",
    "EventSimulator",
    "ParallelSimulator",
    "Report",
    "Simulator",
    "backing_port_ps",
    "evaluate_plan",
    "evaluate_plans",
    "resolve_simulator",
    "time_plan",
    "traffic_bound_ps",
]
