"""`memplace calibrate --from`: what a machine's measured plans say of its costs, for other programs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from math import exp, sqrt
from pathlib import Path
from typing import TYPE_CHECKING, Final

from memplace_env.cli.console import print_json, stderr, stdout
from memplace_env.cli.measurements import read_measurements
from memplace_env.cli.model_flags import ModelFlags

if TYPE_CHECKING:
    from rich.table import Table

    from memplace_agents.calibrated.machine_model import MachineModel
    from memplace_env.placement.memory_plan import MemoryPlan
    from memplace_env.placement.task import Task

ROWS: Final = 10
"""Factors that the table shows."""
Measured = tuple["Task", "MemoryPlan", float]


def learn_machine(sources: Sequence[Path], flags: ModelFlags, path: Path, *, noise: float, json: bool) -> None:
    """Learn a machine from measured plans, program by program, and write it.

    Args:
        sources: .csv files of measured latencies.
        flags: the chip and its cost model.
        path: the file to write.
        noise: relative standard deviation of the measurements.
        json: True to print JSON instead of a table.

    Raises:
        CalibrationError: naming the file that cannot be used.
    """
    from memplace_agents.calibrated.machine_model import MachineModel

    by_program: dict[str, list[Measured]] = defaultdict(list)
    with stderr().status("reading measurements"):
        for source in sources:
            for task, plan, latency_s in _listed(source, flags):
                by_program[task.program.sha256].append((task, plan, latency_s))
    machine: MachineModel | None = None
    with stderr().status("learning"):
        for rows in by_program.values():
            tasks, plans, latencies_s = zip(*rows, strict=True)
            machine = (machine or MachineModel.of(tasks[0])).learned(tasks[0], plans, latencies_s, noise)
    assert machine is not None
    machine.save(path)
    if json:
        print_json({**_summary(machine), "written": str(path)})
        return
    stdout().print(_table(machine), "")
    stdout().print(f"Written: {path}", soft_wrap=True)


def _listed(path: Path, flags: ModelFlags) -> Iterator[Measured]:
    """Yield the measurements of a .csv file; those without a plan are of native's."""
    from memplace_env.placement.compiler import native_plan

    for row in read_measurements(path, flags):
        yield row.task, row.plan or native_plan(row.task), row.latency_s


def _factors(machine: MachineModel) -> dict[str, tuple[float, float]]:
    """Return factor and relative standard deviation by name, those that were learned best first."""
    deviation = [sqrt(variance) for variance in machine.covariance.diagonal().tolist()]
    known = sorted(zip(deviation, machine.names, machine.mean.tolist(), strict=True))
    return {name: (exp(mean), sigma) for sigma, name, mean in known}


def _summary(machine: MachineModel) -> dict[str, object]:
    programs = [{"name": name, "measurements": count} for name, count in machine.programs]
    factors = {name: {"factor": factor, "sigma": sigma} for name, (factor, sigma) in _factors(machine).items()}
    return {"chip": machine.chip, "costs": machine.costs, "programs": programs, "factors": factors}


def _table(machine: MachineModel) -> Table:
    from memplace_env.report.quantities import percent
    from memplace_env.report.tables import add_row, new_table

    count = sum(count for _, count in machine.programs)
    table = new_table(
        f"Machine of {machine.chip}", "factor on costs", "times nominal", "standard deviation",
        caption=f"{count} measurements of {len(machine.programs)} programs. The {ROWS} factors that are known best of "
        f"{len(machine.names)}.",
    )  # fmt: skip
    for name, (factor, sigma) in [*_factors(machine).items()][:ROWS]:
        add_row(table, name, f"{factor:.3f}", percent(sigma))
    return table
