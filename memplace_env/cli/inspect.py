"""`memplace inspect`."""

from __future__ import annotations

import typer

from memplace_env.cli.console import print_json, stdout
from memplace_env.cli.model_flags import ModelFlags, model_flags, symbolic_dims
from memplace_env.cli.options import JsonFlag, Model


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("inspect", epilog="Example: memplace inspect model.onnx --batch 8 --dim sequence=384")(inspect_model)


@model_flags(without=["simulator"])
def inspect_model(model: Model, flags: ModelFlags, json: JsonFlag = False) -> None:
    """Show what a model asks of an accelerator's memories, before anything is placed.

    --json prints sizes in bytes, times in seconds, op_types and top_ops; 'extremes' says what is memory-bound with
    everything in the backing memory and with everything in the fastest level.
    """
    model, flags = flags.registered(model)
    from memplace_env.analysis import inspect_task
    from memplace_env.views.tables.inspection import inspection_tables

    inspection = inspect_task(flags.task(model, must_fit=False), symbolic_dims(model))
    if json:
        print_json(inspection.to_json())
        return
    for table in inspection_tables(inspection):
        stdout().print(table, "")
