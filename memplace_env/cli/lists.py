"""`memplace workloads`, `accelerators`, `envs` and `agents`: lists of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Annotated, Any

import typer

from memplace_env._lib.errors import MemPlaceError
from memplace_env.cli.console import print_json, stderr, stdout
from memplace_env.cli.shared_options import JsonFlag
from memplace_env.envs.registration import Formulation, formulation_of_id
from memplace_env.envs.splits import FORMULATIONS, Split, group_split, suites


def workloads(
    family: Annotated[str | None, typer.Option(help="Only this family of programs.", metavar="NAME")] = None,
    split: Annotated[Split | None, typer.Option(help="Only the families of this split.")] = None,
    details: Annotated[bool, typer.Option("--details", help="Load each model and count (takes a minute).")] = False,
    json: JsonFlag = False,
) -> None:
    """List the programs that come with memplace, by family.

    Any .onnx, .tflite, .mlir or .program file and any synthetic:chain, diamond, fan-out or random?ops=24&seed=1 works
    as well. --json prints name, family, kind, split, text, code, licence and envs (ids) of each, with --details also
    dims, ops, weight_bytes and macs, at batch 1 and the model's own dtype.
    """
    from memplace_env._lib.hints import instead
    from memplace_env.program.zoo import catalogue

    listings = catalogue().values()
    families = {listing.family.lower(): listing.family for listing in listings}
    if family is not None and family.lower() not in families:
        raise MemPlaceError(f"There is no family {family!r}; {instead(family, families.values())}")
    selected = [
        listing
        for listing in listings
        if (family is None or listing.family.lower() == family.lower())
        and (split is None or group_split(listing.group) == split)
    ]
    selected.sort(key=lambda listing: (listing.family.lower(), listing.name.lower()))
    ids = _ids_by_program()
    rows: list[dict[str, Any]] = []
    with stderr().status("loading the models") if details else nullcontext():
        for listing in selected:
            row = listing._asdict() | {"split": group_split(listing.group), "envs": ids.get(listing.name, [])}
            rows.append(row | (_counts(listing.name) if details else {}))
    if json:
        print_json(rows)
        return
    from memplace_env.report.quantities import count, size

    column = "text" if family else "kind"  # sentences about all programs would fill pages
    headers = ["name", "family", "split"]
    headers += ["symbolic dims", "ops", "weights", "work"] if details else ["ids", "what it is"]
    cells = []
    for row in rows:
        line = [row["name"], row["family"], row["split"]]
        if details:
            line += [", ".join(row["dims"] or ()) or "fixed", row["ops"]]
            line += [size(row["weight_bytes"]), count(row["macs"], "MAC")]
        else:
            line += [str(len(row["envs"])), row[column]]
        cells.append(line)
    _print(headers, cells, left=(0, 1, 2, 3 if details else 4))


def accelerators(json: JsonFlag = False) -> None:
    """List the chips that come with memplace; a .toml file of your own works as well.

    --json prints name, description, ports, weights, fusion, inplace, dtypes and memories of each.
    """
    from memplace_env.machine.accelerator import accelerator_names, load_accelerator
    from memplace_env.report.quantities import rate, size

    chips = [load_accelerator(name) for name in accelerator_names()]
    if json:
        fields = ("name", "description", "ports", "weights", "fusion", "inplace", "dtype")
        level_fields = ("name", "capacity_bytes", "read_bytes_per_s", "write_bytes_per_s")
        print_json(
            [
                {name: getattr(chip, name) for name in fields}
                | {"dtypes": list(chip.matrix_macs_per_s)}
                | {"memories": [{name: getattr(level, name) for name in level_fields} for level in chip.levels]}
                for chip in chips
            ]
        )
        return
    cells = [
        [
            chip.name,
            [f"{m.name} {size(m.capacity_bytes)} {rate(m.read_bytes_per_s)}" for m in chip.levels],
            list(chip.matrix_macs_per_s),
            [chip.weights, chip.ports],
            chip.description,
        ]
        for chip in chips
    ]
    _print(["name", "memories", "dtypes", "weights, ports", "description"], cells, left=range(5))


def envs(
    suite: Annotated[str | None, typer.Option(help="Only this suite, such as game-test.", metavar="NAME")] = None,
    json: JsonFlag = False,
) -> None:
    """List the registered Gymnasium environments.

    --json prints id and kwargs of each.
    """
    from memplace_env._lib.hints import instead
    from memplace_env.cli.model_flags import registered_envs

    members = suites()
    if suite is not None and suite not in members:
        raise MemPlaceError(f"There is no suite {suite!r}; {instead(suite, members)}")
    rows: list[dict[str, Any]] = [
        {"id": env_id, "kwargs": spec.kwargs}
        for env_id, spec in sorted(registered_envs().items())
        if suite is None or env_id in members[suite]
    ]
    if json:
        print_json(rows)
        return
    _print(["id", "settings"], [[row["id"], _summary(**row) or "workload=... and more"] for row in rows])


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


def _ids_by_program() -> dict[str, list[str]]:
    ids: dict[str, list[str]] = {}
    for formulation in FORMULATIONS:
        traits = formulation.traits
        for name, settings in traits.named.items():
            ids.setdefault(settings.get("workload", name), []).append(traits.env_id(name))
    return ids


def _counts(name: str) -> dict[str, Any]:
    from memplace_env.placement.workloads import resolve_workload, symbolic_dims
    from memplace_env.program.program import TensorKind

    program = resolve_workload(name)
    return {
        "dims": symbolic_dims(name),
        "ops": program.num_ops,
        "weight_bytes": program.bytes_of(TensorKind.WEIGHT),
        "macs": int(program.macs.sum()),
    }


def _summary(id: str, kwargs: Mapping[str, Any]) -> str:
    """Return the settings of an id, or what it draws."""
    if "programs" not in kwargs:
        return _settings(kwargs)
    from memplace_env.envs.many.draws import draws_of

    return draws_of(formulation_of_id(id), kwargs["programs"]).summary


def _settings(settings: Mapping[str, Any] | None) -> str:
    flat: dict[str, Any] = {}
    for key, value in (settings or {}).items():
        flat |= value if isinstance(value, dict) else {key: value}
    return ", ".join(f"{key} {value}" for key, value in flat.items())


def _print(headers: Sequence[str], cells: Sequence[Sequence[object]], left: Sequence[int] = (0, 1)) -> None:
    from memplace_env.report.tables import add_row, new_table

    table = new_table(None, *headers, left=left)
    for row in cells:
        add_row(table, *row)
    stdout().print(table)
