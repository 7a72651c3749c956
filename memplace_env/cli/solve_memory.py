"""`memplace solve --minimize memory`: the smallest fast memory, not the fastest plan."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Final

import numpy as np

from memplace_agents.exact.smallest_arena import Arena, smallest_arena
from memplace_env._lib.errors import AcceleratorError, PlanError
from memplace_env._lib.files import write_together
from memplace_env.cli.console import check_folder, default_folder, note, print_json, stderr, stdout
from memplace_env.cli.model_flags import ModelFlags
from memplace_env.cli.solve_result import PICTURE, PLAN, drawn
from memplace_env.machine.accelerator.description import Description, Field
from memplace_env.placement.simulator import evaluate_plan
from memplace_env.program.program import TensorKind
from memplace_env.report.plans.evaluated_plan import EvaluatedPlan
from memplace_env.report.plans.headlines import task_title
from memplace_env.report.plans.memory_map import memory_map
from memplace_env.report.quantities import percent, seconds, size
from memplace_env.report.tables import add_row, new_table

CHIP: Final = "chip.toml"


def solve_memory(model: str, flags: ModelFlags, out: Path | None, force: bool, json: bool) -> None:
    """Write the plan in the smallest fast memory that is found, and print its size, a bound and what rules need."""
    task = flags.task(model)
    folder = out or default_folder(model, task.accelerator.name, agents=["memory"])
    check_folder(folder)
    with stderr().status("looking for the smallest memory"):
        arena = smallest_arena(task)
    evaluated = EvaluatedPlan(arena.plan, evaluate_plan(arena.task, arena.plan), "smallest memory")
    text, path = arena.plan.to_json(), folder / PLAN
    if not force and path.exists() and path.read_text("utf-8") != text:
        raise PlanError(f"{path} is another plan; pass --out for another folder, or --force to replace it.")
    picture = drawn(lambda: memory_map(arena.task, evaluated))
    files = {PLAN: text, PICTURE: picture, CHIP: None if arena.task is task else _chip_file(flags.chip, arena)}
    write_together(folder, files)
    written = [str(folder / name) for name, content in files.items() if content]
    rows = {
        "this plan": arena.size,
        "bound": arena.bound,
        "live bytes": arena.live,
        "largest first (TFLM's rule)": arena.by_size,
        "first fit": arena.first_fit,
    }
    if json:
        values: dict[str, float] = {name: value for name, value in arena._asdict().items() if type(value) is int}
        values |= {"proven": arena.proven, "fits": arena.task is task, "latency_s": evaluated.report.latency_s}
        print_json({"workload": model, "accelerator": task.accelerator.name, **values, "files": written})
        return
    fastest, backing = (task.accelerator.levels[level] for level in (0, -1))
    above = percent(arena.size / max(arena.bound, 1) - 1)
    quality = "proven smallest" if arena.proven else f"at most {above} above the smallest"
    console = stdout()
    head = f"{task_title(task)}: all inner results fit in {size(arena.size)} of {fastest.name}, {quality}"
    console.print(head, style="bold", soft_wrap=True)
    outside = np.isin(task.program.tensor_kind, (TensorKind.INPUT, TensorKind.OUTPUT)).any()
    ends = ", inputs and outputs" if outside else ""
    console.print(
        f"Weights ({size(arena.weights)}){ends} are in {backing.name}; the chip has "
        f"{size(fastest.capacity_bytes)}. A run takes {seconds(evaluated.report.latency_s)}.",
        soft_wrap=True,
    )
    table = new_table(None, "", "bytes", "over the bound")
    for name, value in rows.items():
        add_row(table, name, f"{value:,}", percent(value / max(arena.bound, 1) - 1))
    console.print("", table, "", sep="\n")
    console.print(f"Written: {', '.join(written)}", soft_wrap=True)


def _chip_file(chip: str, arena: Arena) -> str | None:
    """Return the chip's file with a fastest level of the arena's size, which the plan is for."""
    source = "memplace solve --minimize memory: the smallest that holds all inner results."
    sizes: dict[Field, Decimal] = {("memory", 0, "capacity_bytes"): Decimal(arena.size)}
    try:
        return Description.read(chip).rewritten(arena.plan.accelerator, sizes, source)
    except AcceleratorError as error:
        note(f"No {CHIP}: {error}")
        return None
