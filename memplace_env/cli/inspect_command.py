"""`memplace inspect`."""

from __future__ import annotations

from typing import Annotated

import typer

from memplace_env.cli.console import print_json, stdout
from memplace_env.cli.model_flags import ModelFlags, model_flags, posed_by
from memplace_env.cli.shared_options import JsonFlag, Model
from memplace_env.placement.workloads import symbolic_dims


@model_flags(without=["simulator"])
def inspect(
    model: Model,
    flags: ModelFlags,
    ops: Annotated[bool, typer.Option("--ops", help="List every op, in execution order.")] = False,
    json: JsonFlag = False,
) -> None:
    """Show a model's demands on an accelerator's units and memories, before anything is placed.

    Utilisation is the fraction of the units' peaks that ops reach; re-reads is how often ops move their bytes. --json
    prints sizes in bytes, times in seconds, op_types, top_ops and with --ops every_op; 'extremes' has what is
    memory-bound with everything in the backing memory and with everything in the fastest level.
    """
    model, flags = flags.registered(model, posed_by(model))
    from memplace_env.report.inspection import inspect_task, inspection_tables

    inspection = inspect_task(flags.task(model, must_fit=False), symbolic_dims(model))
    if json:
        print_json(inspection.to_json(every_op=ops))
        return
    for table in inspection_tables(inspection, every_op=ops):
        stdout().print(table, "")
