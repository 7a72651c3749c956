"""`memplace size`."""

from __future__ import annotations

from memplace_env.cli.console import check_folder, default_folder, print_json, stderr, stdout
from memplace_env.cli.model_flags import ModelFlags, model_flags, posed_by
from memplace_env.cli.shared_options import FolderFlag, JsonFlag, Model

PICTURE = "size.png"


@model_flags(without=["simulator"])
def size(model: Model, flags: ModelFlags, out: FolderFlag = None, json: JsonFlag = False) -> None:
    """Show the best latency over the size of the fastest memory, name the knee, and draw size.png.

    A row is the best plan that a short search finds with one level a tensor. The knee is the smallest size within 1 %
    of the best latency. --json prints rows, knee_bytes and loss_by_halving: the mean slow-down by each halving
    below the knee.
    """
    model, flags = flags.registered(model, posed_by(model))
    from memplace_agents.memory_sizes import knee, latency_by_size, loss_by_halving
    from memplace_env._lib.files import write_together
    from memplace_env.cli.solve_result import drawn
    from memplace_env.report.plans.headlines import task_title
    from memplace_env.report.plans.size_figure import size_figure
    from memplace_env.report.quantities import percent, ratio, seconds
    from memplace_env.report.quantities import size as bytes_text
    from memplace_env.report.tables import add_row, new_table

    task = flags.task(model)
    folder = out or default_folder(model, task.accelerator.name, agents=["size"])
    check_folder(folder)
    rows = []
    with stderr().status("looking at the smallest size") as status:
        for row in latency_by_size(task):
            rows.append(row)
            status.update(f"{bytes_text(row.size)}: {seconds(row.latency_s)}")
    at, loss, fastest = knee(rows), loss_by_halving(rows), task.accelerator.levels[0]
    line = f"The knee is at {bytes_text(rows[at].size)} of {fastest.name}: {seconds(rows[at].latency_s)}."
    line += f" Below it each halving costs {percent(loss)} in the mean." if at else " The smallest size is enough."
    columns = [row.size for row in rows], [row.latency_s for row in rows]
    picture = drawn(lambda: size_figure(task, *columns, at, line))
    write_together(folder, {PICTURE: picture})
    written = str(folder / PICTURE) if picture else None
    if json:
        values = {"rows": [row._asdict() for row in rows], "knee_bytes": rows[at].size, "loss_by_halving": loss}
        print_json({"workload": model, "accelerator": task.accelerator.name, **values, "picture": written})
        return
    table = new_table(task_title(task), f"size of {fastest.name}", "latency", "over the best", "above the bound", "")
    best_s = min(row.latency_s for row in rows)
    for index, row in enumerate(rows):
        notes = ["knee"] * (index == at) + ["this chip"] * (row.size == fastest.capacity_bytes)
        worth = seconds(row.latency_s), ratio(row.latency_s / best_s), percent(max(row.latency_s / row.bound_s - 1, 0))
        add_row(table, bytes_text(row.size), *worth, ", ".join(notes))
    stdout().print(table, "")
    stdout().print(line, *([f"Written: {written}"] if written else []), sep="\n", soft_wrap=True)
