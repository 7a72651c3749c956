"""`memplace execute`: run the real network in the memory of a plan."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from memplace_env.cli.agent_run import new_bar
from memplace_env.cli.console import print_json, stdout
from memplace_env.cli.model_flags import ModelFlags, plan_flags
from memplace_env.cli.saved_plans import NamedPlan, load_plan, named_plan
from memplace_env.cli.shared_options import JsonFlag, SeedFlag

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from memplace_env.backends.ort import Execution, Executor

WRONG = 1
"""Exit code if a result differs from the plain run's."""

Moments = Literal["earliest", "latest", "random", "all"]


@plan_flags("simulator")
def execute(
    plan: NamedPlan,
    *,
    flags: ModelFlags,
    inferences: Annotated[
        int, typer.Option("--inferences", min=1, help="Inferences in a row; weights stay where they are.")
    ] = 3,
    copies: Annotated[Moments, typer.Option("--copies", help="When in their windows copies run.")] = "all",
    seed: SeedFlag = 0,
    inputs: Annotated[Path | None, typer.Option("--inputs", help="An .npz file with all inputs by name.")] = None,
    json: JsonFlag = False,
) -> None:
    """Run the network in the memory of a saved plan, and compare every op's operands and results with a plain run.

    Each memory is an arena of bytes. Each op runs in ONNX Runtime, or in TensorFlow Lite Micro for a .tflite file,
    on the bytes at the plan's addresses; copies run in the plan's windows, freed bytes are overwritten. Needs the extra
    'execute', or 'micro'. Exit code 0: all results are right; 1: a
    result is wrong; 2: the model, the plan or the inputs cannot be used. --json prints right, runs and the times.
    """
    from memplace_env.backends.ort import CopyMoment, Executor
    from memplace_env.placement.validation import require_valid

    model, path = named_plan(plan)
    task, saved = load_plan(model, path, flags)
    require_valid(task, saved)
    moments = [moment for moment in CopyMoment if copies in ("all", moment)]
    if not len(saved.transfers):
        moments = moments[:1]
    with new_bar(counted=True) as bar:
        ops = task.program.num_ops
        shown = bar.add_task("preparing", total=ops * (1 + inferences * len(moments)))
        executor = Executor(task, seed=seed, inputs=inputs, progress=lambda: bar.advance(shown))
        runs = []
        for moment in moments:
            bar.update(shown, description=f"copies at the {moment} moment")
            runs.append(
                executor.run(
                    saved, inferences=inferences, copies=moment, seed=seed, progress=lambda: bar.advance(shown)
                )
            )
    right = all(run.right for run in runs)
    if json:
        print_json({"right": right, "plan": str(path), **_document(executor), "runs": list(map(_run_document, runs))})
    else:
        _show(executor, runs, copied=len(saved.transfers))
    raise typer.Exit(0 if right else WRONG)


def _document(executor: Executor) -> dict[str, Any]:
    program, chip = executor.task.program, executor.task.accelerator
    return {
        "workload": program.name,
        "accelerator": chip.name,
        "ops": program.num_ops,
        "bytes_per_planned_byte": executor.scale,
        "arena_bytes": executor.arena_bytes,
        "drawn_constants": executor.drawn,
        "setup_s": executor.setup_seconds,
        "plain_s": executor.plain_seconds,
    }


def _run_document(run: Execution) -> dict[str, Any]:
    difference = run.first_difference
    return {
        "copies": str(run.copies),
        "inferences": run.inferences,
        "ops": run.ops,
        "bit_equal": run.bit_equal,
        "within_tolerance": run.within_tolerance,
        "wrong_outputs": dict(run.wrong_outputs),
        "first_difference": None if difference is None else difference._asdict(),
        "seconds": list(run.seconds),
    }


def _show(executor: Executor, runs: Sequence[Execution], copied: int) -> None:
    from memplace_env.report.quantities import seconds, size

    program, chip = executor.task.program, executor.task.accelerator
    console = stdout()
    scaled = (
        ""
        if executor.scale == 1
        else f", {executor.scale} bytes for each byte of the plan, as the file's types are wider"
    )
    drawn = f"; {executor.drawn} constants that the file lacks are drawn" if executor.drawn else ""
    console.print(f"{program.name} on {chip.name}: {program.num_ops} ops executed", style="bold", markup=False)
    lines = (
        f"Arenas of {size(executor.arena_bytes)}{scaled}{drawn}.",
        f"Plain run {seconds(executor.plain_seconds)}, set-up {seconds(executor.setup_seconds)}, {copied} copies.",
    )
    for line in lines:
        console.print(line, markup=False, soft_wrap=True)
    console.print(_table(runs, moving=copied > 0), "")
    for wrong in [run.first_difference for run in runs if run.first_difference is not None][:1]:
        moment = "the end" if wrong.op == program.num_ops else f"op {wrong.op} ({program.op_name[wrong.op]})"
        text = f"WRONG: {wrong.value} at {moment} in inference {wrong.inference + 1}: {wrong.why}."
        console.print(text, style="bold red", markup=False, soft_wrap=True)
    if all(run.right for run in runs):
        console.print("All results and outputs are those of the plain run.", style="bold green", markup=False)


def _table(runs: Sequence[Execution], moving: bool) -> Table:
    from memplace_env.backends.ort import ROUNDING, TOLERANCE
    from memplace_env.report.quantities import seconds
    from memplace_env.report.tables import NONE, add_row, new_table

    half, brain = ROUNDING.values()
    caption = (
        f"Of every op that ran. Tolerance, of a result's largest number: {TOLERANCE:g} off multiples of 16 bytes, "
        f"{half:.2g} in float16, {brain:.2g} in bfloat16, else none."
    )
    columns = ("copies", "inferences", "ops run", "bit-equal", "within tolerance", "wrong", "outputs", "each")
    table = new_table(None, *columns, caption=caption)
    for run in runs:
        wrong = run.ops - run.bit_equal - run.within_tolerance
        outputs = f"{len(run.wrong_outputs)} wrong" if run.wrong_outputs else "right"
        mean = seconds(sum(run.seconds) / len(run.seconds)) if run.seconds else NONE
        moment = run.copies if moving else NONE
        add_row(table, moment, run.inferences, run.ops, run.bit_equal, run.within_tolerance, wrong, outputs, mean)
    return table
