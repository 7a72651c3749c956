"""`memplace inspect`."""

from __future__ import annotations

from typing import Annotated

import typer

from memplace_env.cli.console import print_json, stdout
from memplace_env.cli.model_flags import ModelFlags, model_flags
from memplace_env.cli.options import JsonFlag, Model
from memplace_env.workload.resolve import symbolic_dims


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("inspect", epilog="Example: memplace inspect model.onnx --batch 8 --dim sequence=384")(inspect_model)


@model_flags(without=["simulator"])
def inspect_model(
    model: Model,
    flags: ModelFlags,
    ops: Annotated[bool, typer.Option("--ops", help="List every op, in execution order.")] = False,
    json: JsonFlag = False,
) -> None:
    """Show what a model asks of an accelerator's units and memories, before anything is placed.

    Utilisation is the share of the peaks that ops reach, re-reads how many times over they move their bytes. --json
    prints sizes in bytes, times in seconds, op_types, top_ops and with --ops every_op; 'extremes' says what is
    memory-bound with everything in the backing memory and with everything in the fastest level.
    """
    model, flags = flags.registered(model)
    from memplace_env.analysis import inspect_task
    from memplace_env.views.tables.inspection import inspection_tables

    inspection = inspect_task(flags.task(model, must_fit=False), symbolic_dims(model))
    if json:
        print_json(inspection.to_json(every_op=ops))
        return
    for table in inspection_tables(inspection, every_op=ops):
        stdout().print(table, "")
