"""`memplace advise`."""

from __future__ import annotations

from memplace_env.cli.console import print_json, stderr, stdout
from memplace_env.cli.model_flags import ModelFlags, model_flags, posed_by
from memplace_env.cli.shared_options import JsonFlag, Model


@model_flags(without=["simulator"])
def advise(model: Model, flags: ModelFlags, json: JsonFlag = False) -> None:
    """Show what each decision about a model is worth: fusion, results in place, slices, order, more memory.

    Each row changes one decision of the first row and searches for a few seconds; 'gain' is old / new latency - 1. The
    flags of a row are for `memplace solve`, which searches longer.
    """
    model, flags = flags.registered(model, posed_by(model))
    from memplace_agents.advice import Advice, gain, to_json
    from memplace_agents.advice import advise as advice_of
    from memplace_env.report.quantities import percent, seconds, size
    from memplace_env.report.tables import add_row, new_table

    arguments = {name: value for name, value in flags.arguments(model).items() if value is not None}
    rows: list[Advice] = []
    with stderr().status("looking at the model as it is") as status:
        for row in advice_of(**arguments):
            rows.append(row)
            status.update(f"after {row.decision}: {seconds(row.latency_s)}")
    if json:
        print_json(to_json(rows))
        return
    table = new_table(
        f"{model} on {flags.chip}",
        "decision", "latency", "gain", "proven", "peak of results", "seconds", "flags",
        left=(0, 6), caption="proven: nothing faster exists that decides the same, or how far a bound is away.",
    )  # fmt: skip
    for row in rows:
        above = "no" if row.bound_s is None else f"to {percent(max(row.latency_s / row.bound_s - 1, 0.0))}"
        worth = "" if row is rows[0] else percent(gain(row, rows[0]))
        proven = "yes" if row.proven else above
        add_row(
            table,
            row.decision,
            seconds(row.latency_s),
            worth,
            proven,
            size(row.peak_bytes),
            f"{row.seconds:.1f}",
            row.flags,
        )
    stdout().print(table, "")
