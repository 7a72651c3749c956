"""A task, and a plan for it, in one line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from memplace_env._lib.foreign import described
from memplace_env.machine.accelerator.tiling_description import EthosU
from memplace_env.machine.costs.tiled.nest import MEANS, TABLES
from memplace_env.placement.simulator import BuiltinSimulator, Report
from memplace_env.placement.task import Task
from memplace_env.program.program import Ints, Program, TensorKind
from memplace_env.report.plans.evaluated_plan import EvaluatedPlan, native_baseline
from memplace_env.report.quantities import percent, ratio, seconds

MUCH_STALL = 0.05
"""Fraction of a latency spent waiting for copies from which on notes mention it."""
COMPARED = MEANS | TABLES | set("Add AveragePool Concat Conv ConvTranspose Gemm MaxPool Mul Pad Resize Softmax".split())
"""Operators of the networks `vela` and `vela-more`, and those that the unit runs like one of them."""
NOTED_SHARE = 0.01
"""Fraction of a plan's time in other operators from which on its latency is doubtful, see docs/trust.md."""


def task_title(task: Task) -> str:
    """Return the program, its dtype and the chip: "BERT (int8) on nnp-i", and whether the ops have another order."""
    order = ", ops in an order of their own" if "order" in task.settings else ""
    return f"{task.program.name} ({task.program.dtype}) on {task.accelerator.name}{order}"


def headline(task: Task, report: Report, baseline: EvaluatedPlan | None = None) -> str:
    """Return the title, the latency and the speed-up, over native's unless there is another baseline."""
    against = baseline or native_baseline(task)
    speedup = ratio(against.report.latency_ps / report.latency_ps)
    return f"{task_title(task)}: {seconds(report.latency_s)}, {speedup} over {against.name}"


def simulator_notes(task: Task, plans: Sequence[EvaluatedPlan]) -> list[str]:
    """Return a sentence for each plan that was found with another simulator than the task's, which times it here."""
    here = simulator_name(task)
    found_with = [(plan.name, plan.plan.settings.get("simulator", BuiltinSimulator.name)) for plan in plans]
    times = f"All times are by the simulator {here!r}"
    return [f"{times}; {name} was found with {described(found)}." for name, found in found_with if found != here]


def simulator_name(task: Task) -> str:
    """Return the name of the simulator that times plans, or of its class if it was passed as an object."""
    return str(task.settings.get("simulator", BuiltinSimulator.name))


def stall_note(report: Report) -> str:
    """Return a note on a latency with much waiting for copies, " (24.4 % stall)"; else an empty text."""
    share = report.stall_ps.sum() / report.latency_ps
    return f" ({percent(share)} stall)" if share >= MUCH_STALL else ""


def other_time(program: Program, op_time_ps: Ints) -> Counter[str]:
    """Return the picoseconds in each operator that is not compared; a product by weights is."""
    by_weights = set(program.use_op[program.tensor_kind[program.use_tensor] == TensorKind.WEIGHT].tolist())
    other: Counter[str] = Counter()
    for op, name in enumerate(program.op_type):
        if name not in COMPARED and not (name == "MatMul" and op in by_weights):
            other[name] += int(op_time_ps[op])
    return other


def vela_note(task: Task, report: Report) -> str | None:
    """Return a sentence if a latency by tiled costs on Ethos-U may be far off Vela's estimate; else None."""
    costs = task.settings.get("costs") or task.accelerator.cost_model
    other = other_time(task.program, report.op_time_ps)
    share = other.total() / max(1, int(report.op_time_ps.sum()))
    if costs != "tiled" or not isinstance(task.accelerator.tiling, EthosU) or share <= NOTED_SHARE:
        return None
    names = ", ".join(name for name, _ in other.most_common(3))
    doubt = f"operators whose estimates may be far off Vela's ({names}): see docs/trust.md."
    return f"{percent(share)} of the time is in {doubt}"
