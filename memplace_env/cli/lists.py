"""`memplace workloads`, `accelerators`, `envs` and `agents`: what there is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from memplace_env.cli.console import print_json, stderr, stdout
from memplace_env.cli.options import JsonFlag
from memplace_env.registration import ONE_SHOT, Formulation, one_shot_id


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command(epilog="Example: memplace workloads --details")(workloads)
    app.command(epilog="Example: memplace accelerators")(accelerators)
    app.command(epilog="Example: memplace envs --json")(envs)
    app.command(epilog="Example: memplace agents")(agents)


def workloads(
    details: Annotated[bool, typer.Option("--details", help="Load each model and count (takes seconds).")] = False,
    json: JsonFlag = False,
) -> None:
    """List the models that come with memplace.

    Any .onnx, .tflite, .mlir or .program file and any synthetic:chain, diamond, fan-out or random?ops=24&seed=1
    works as well. --json prints name, dims, env and settings of each, with --details also ops, parameters and macs,
    at batch 1.
    """
    from memplace_env.workload.resolve import symbolic_dims
    from memplace_env.workload.zoo import zoo_names

    rows: list[dict[str, Any]] = []
    with stderr().status("loading the models"):
        for name in zoo_names():
            rows.append(
                {
                    "name": name,
                    "dims": list(symbolic_dims(name) or ()),
                    "env": one_shot_id(name) if name in ONE_SHOT else None,
                    "settings": ONE_SHOT.get(name),
                    **(_counts(name) if details else {}),
                }
            )
    if json:
        print_json(rows)
        return
    from memplace_env.views.text.quantities import count

    counted = [[row["ops"], count(row["parameters"]), count(row["macs"], "MAC")] for row in rows] if details else []
    headers = ["name", "symbolic dims", *(["ops", "parameters", "work"] if details else []), "registered settings"]
    cells = [
        [row["name"], ", ".join(row["dims"]) or "fixed", *(counted[at] if details else []), _settings(row["settings"])]
        for at, row in enumerate(rows)
    ]
    _print(headers, cells, left=(0, 1, len(headers) - 1))


def accelerators(json: JsonFlag = False) -> None:
    """List the chips that come with memplace; a .toml file of your own works as well.

    --json prints name, description, ports, weights, fusion, dtypes and memories of each.
    """
    from memplace_env.accelerator import accelerator_names, load_accelerator
    from memplace_env.views.text.quantities import rate, size

    chips = [load_accelerator(name) for name in accelerator_names()]
    if json:
        print_json(
            [
                {
                    "name": chip.name,
                    "description": chip.description,
                    "ports": chip.ports,
                    "weights": chip.weights,
                    "fusion": chip.fusion,
                    "dtype": chip.dtype,
                    "dtypes": list(chip.matrix_macs_per_s),
                    "memories": [
                        {
                            "name": level.name,
                            "capacity_bytes": level.capacity_bytes,
                            "read_bytes_per_s": level.read_bytes_per_s,
                            "write_bytes_per_s": level.write_bytes_per_s,
                        }
                        for level in chip.levels
                    ],
                }
                for chip in chips
            ]
        )
        return
    cells = [
        [
            chip.name,
            "\n".join(f"{m.name} {size(m.capacity_bytes)} {rate(m.read_bytes_per_s)}" for m in chip.levels),
            "\n".join(chip.matrix_macs_per_s),
            f"{chip.weights}\n{chip.ports}",
            chip.description,
        ]
        for chip in chips
    ]
    _print(["name", "memories", "dtypes", "weights, ports", "description"], cells, left=range(5))


def envs(json: JsonFlag = False) -> None:
    """List the registered Gymnasium environments.

    --json prints id and kwargs of each.
    """
    from memplace_env.cli.environments import registered_envs

    rows: list[dict[str, Any]] = [
        {"id": env_id, "kwargs": spec.kwargs} for env_id, spec in sorted(registered_envs().items())
    ]
    if json:
        print_json(rows)
        return
    _print(["id", "settings"], [[row["id"], _settings(row["kwargs"]) or "workload=... and more"] for row in rows])


def agents(json: JsonFlag = False) -> None:
    """List the agents that 'memplace solve --agent' takes, with the formulation each of them plays.

    --json prints name, formulation and description of each.
    """
    from memplace_env.cli.agent_choice import known_agents

    rows = [
        {"name": spec.name, "formulation": formulation.value, "description": spec.summary}
        for formulation in Formulation
        for spec in known_agents(formulation).values()
    ]
    if json:
        print_json(rows)
        return
    _print(["name", "formulation", "what it does"], [list(row.values()) for row in rows], left=range(3))


def _counts(name: str) -> dict[str, int]:
    """As int8, in which a parameter takes a byte, unless its types are fixed."""
    from memplace_env.workload.program import TensorKind
    from memplace_env.workload.resolve import is_built, resolve_workload

    program = resolve_workload(name, dtype=None if is_built(name) else "int8")
    return {
        "ops": program.num_ops,
        "parameters": program.bytes_of(TensorKind.WEIGHT),
        "macs": int(program.macs.sum()),
    }


def _settings(settings: Mapping[str, Any] | None) -> str:
    flat: dict[str, Any] = {}
    for key, value in (settings or {}).items():
        flat |= value if isinstance(value, dict) else {key: value}
    return ", ".join(f"{key} {value}" for key, value in flat.items())


def _print(headers: Sequence[str], cells: Sequence[Sequence[object]], left: Sequence[int] = (0, 1)) -> None:
    from memplace_env.views.tables.base import add_row, new_table

    table = new_table(None, *headers, left=left)
    table.columns[0].no_wrap = True
    for row in cells:
        add_row(table, *row)
    stdout().print(table)
