"""`memplace export`."""

from __future__ import annotations

import csv
import os
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memplace_env._lib.errors import MemPlaceError
from memplace_env.cli.console import print_json, stderr, stdout
from memplace_env.cli.model_flags import ModelFlags, plan_flags
from memplace_env.cli.saved_plans import NamedPlan, load_plan, named_plan
from memplace_env.cli.shared_options import JsonFlag, RequiredFile

if TYPE_CHECKING:
    from memplace_env.placement.memory_plan import MemoryPlan
    from memplace_env.placement.task import Task


class Format(StrEnum):
    """A file format for plans."""

    C = "c"
    CSV = "csv"
    PLAN = "plan"
    TFLITE = "tflite"


_NO_PREFIX = "--prefix begins names in a C header; leave it out with --format {}."


@plan_flags("simulator")
def export(
    plan: NamedPlan,
    *,
    flags: ModelFlags,
    form: Annotated[
        Format | None,
        typer.Option(
            "--format",
            show_default="c; tflite with --smallest",
            help="c: a header for C11 and C++ with all of the plan; csv: a line for each block with its tensor's name, "
            "memory, offset, size, first and last op; plan: the plan with fewer slices, where neighbours are placed "
            "alike; tflite: a copy of a .tflite MODEL with the offsets in fast memory as TensorFlow Lite Micro's "
            "offline plan.",
        ),
    ] = None,
    smallest: Annotated[
        bool, typer.Option("--smallest", help="A copy of a .tflite MODEL, without a PLAN, in the smallest arena.")
    ] = False,
    check: Annotated[
        bool, typer.Option("--check", help="With --smallest: run both files, and compare outputs and arenas.")
    ] = False,
    out: RequiredFile,
    prefix: Annotated[
        str | None, typer.Option("--prefix", metavar="NAME", help="Begins every name in a header; default memplace.")
    ] = None,
    json: JsonFlag = False,
) -> None:
    """Write a saved plan for other tools: a C header, a table, or an offline plan for TensorFlow Lite Micro.

    --smallest needs no plan and no chip. It writes a .tflite MODEL with the smallest arena, or unchanged if that is not
    smaller than the runtime's own. --check needs the extra 'micro'.

    --format plan first joins slices of a plan with --slices. The new plan.json is at least as fast. Its slices differ,
    so its speed-up is over another plan of the compiler.

    The plan's settings say how the program is built. An invalid plan is refused. --json prints
    written, format, bytes, the hashes of program and accelerator, and counts of what was written.
    """
    form = form or (Format.TFLITE if smallest else Format.C)
    if smallest:
        _smallest(plan, out, form, flags, prefix=prefix, check=check, json=json)
        return
    if check:
        raise MemPlaceError("--check goes with --smallest; pass both.")
    model, path = named_plan(plan)
    if form is Format.TFLITE:
        _check_tflite(model, out, prefix)
    if out.is_dir():
        raise MemPlaceError(f"--out {out} is a folder; pass the name of a file.")
    task, saved = load_plan(model, path, flags)
    if form is Format.PLAN:
        task, content, counts = _merged(task, saved, prefix)
    elif form is Format.CSV:
        content, counts = _table(task, saved, prefix)
    elif form is Format.C:
        content, counts = _header(task, saved, prefix)
    else:
        content, counts = _model(Path(str(model)), task, saved)
    console = stderr() if _is_stdout(out) else stdout()
    _write(out, content)
    if json:
        identity = {"program_sha256": task.program.sha256, "accelerator_sha256": task.accelerator.sha256}
        print_json({"written": str(out), "format": form.value, "bytes": len(content), **identity, **counts})
        return
    text = _offsets_text(counts) if form is Format.TFLITE else ", ".join(f"{n} {name}" for name, n in counts.items())
    console.print(f"Written: {out} ({text})", markup=False, soft_wrap=True)


def _smallest(
    arguments: list[str], out: Path, form: Format, flags: ModelFlags, *, prefix: str | None, check: bool, json: bool
) -> None:
    """Write the model in the smallest arena."""
    from memplace_env.program.frontends.tflite.tflite_reader import library
    from memplace_env.program.model_file import errors_named, read_bytes

    if len(arguments) == 1:
        _check_tflite(arguments[0], out, prefix, "a .tflite file")
    if form is not Format.TFLITE or len(arguments) != 1 or flags != ModelFlags():
        raise MemPlaceError("--smallest takes a .tflite file alone, without a plan, a chip or another --format.")
    library()  # before it is imported
    from memplace_env.backends.export.smallest_file import smallest_file

    file = Path(arguments[0])
    data = read_bytes(file, ".tflite")
    with errors_named(file), stderr().status("looking for the smallest arena"):
        content, counts = smallest_file(data, check=check)
    console = stderr() if _is_stdout(out) else stdout()
    _write(out, content)
    if json:
        print_json({"written": str(out), "format": form.value, "bytes": len(content), **counts})
    else:
        console.print(*_smallest_text(counts), f"Written: {out}", sep="\n", markup=False, soft_wrap=True)


def _smallest_text(counts: dict[str, Any]) -> list[str]:
    """Return sentences on what `smallest_file` did."""
    from memplace_env.backends.export.smallest_file import ELSEWHERE

    quality = "no arena is smaller" if counts["proven"] else f"at least {counts['bound_bytes']:,} are needed"
    quality += " for the first graph's tensors" if ELSEWHERE in counts["at_run_time"] else ""
    lines = [
        f"The runtime's own planner takes {counts['runtime_bytes']:,} bytes, this plan {counts['arena_bytes']:,}; "
        f"{quality}."
    ]
    if "recorded_before" in counts:
        lines.append(
            f"TensorFlow Lite Micro records {counts['recorded_before']:,} bytes without the plan and "
            f"{counts['recorded_after']:,} with it; the outputs are equal."
        )
    if counts["kept"]:
        lines.append("The plan is not smaller, so the model stays as it is.")
    return lines


def _check_tflite(model: str | None, out: Path, prefix: str | None, remedy: str = "--format c") -> None:
    """Refuse arguments before anything is read; `remedy` is what to pass for a model of another kind.

    Raises:
        MemPlaceError: naming the argument that does not fit.
    """
    if model is None:
        raise MemPlaceError("--format tflite writes a copy of a .tflite file; pass that file before the plan.")
    if not model.lower().endswith(".tflite"):
        raise MemPlaceError(
            f"--format tflite writes a copy of a .tflite file, and {model!r} is not one; pass {remedy}."
        )
    if prefix is not None:
        raise MemPlaceError(_NO_PREFIX.format("tflite"))
    if out.exists() and Path(model).exists() and out.samefile(model):
        raise MemPlaceError(f"--out {out} is the model itself; pass another file for the copy.")


def _header(task: Task, plan: MemoryPlan, prefix: str | None) -> tuple[bytes, dict[str, Any]]:
    """Return the header and counts of its entries."""
    from memplace_env._lib.version import __version__
    from memplace_env.backends.export import text_of

    text = text_of(task, plan, prefix="memplace" if prefix is None else prefix, written_by=f"memplace {__version__}")
    counts = {
        "levels": task.accelerator.num_levels,
        "tensors": task.program.num_tensors,
        "allocations": len(plan.allocations),
        "copies": len(plan.transfers),
        "ops": task.program.num_ops,
    }
    return text.encode(), counts


def _table(task: Task, plan: MemoryPlan, prefix: str | None) -> tuple[bytes, dict[str, Any]]:
    """Return the table and the number of its blocks."""
    from memplace_env.backends.export import csv_of

    if prefix is not None:
        raise MemPlaceError(_NO_PREFIX.format("csv"))
    text = csv_of(task, plan)
    return text.encode(), {"blocks": sum(1 for _ in csv.reader(text.splitlines(keepends=True))) - 1}


def _merged(task: Task, plan: MemoryPlan, prefix: str | None) -> tuple[Task, bytes, dict[str, Any]]:
    """Return the task with fewer slices, the plan for it, and counts of its entries."""
    from memplace_env.placement.merging import merged
    from memplace_env.placement.validation import require_valid

    if prefix is not None:
        raise MemPlaceError(_NO_PREFIX.format("plan"))
    require_valid(task, plan)
    fewer, written = merged(task, plan)
    counts = {
        "tensors": fewer.program.num_tensors,
        "allocations": len(written.allocations),
        "copies": len(written.transfers),
    }
    return fewer, written.to_json().encode(), counts


def _model(path: Path, task: Task, plan: MemoryPlan) -> tuple[bytes, dict[str, Any]]:
    """Return the model's copy and counts of its offsets."""
    from memplace_env.backends.export.tflite_file import with_offline_plan
    from memplace_env.program.model_file import read_bytes

    content, offline = with_offline_plan(read_bytes(path, ".tflite"), task, plan)
    counts = {
        "tensors": len(offline.offsets),
        "planned": offline.planned,
        "arena_bytes": offline.arena_bytes,
        "at_run_time": dict(offline.left),
    }
    return content, counts


def _offsets_text(counts: dict[str, Any]) -> str:
    left = ", ".join(f"{n} {reason}" for reason, n in counts["at_run_time"].items())
    offsets = f"{counts['planned']} tensors with offsets below {counts['arena_bytes']:,} bytes"
    return f"{offsets}; at run time: {left}" if left else offsets


def _is_stdout(path: Path) -> bool:
    """Return whether the path is the process's standard output."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(1))
    except OSError:
        return False


def _write(path: Path, content: bytes) -> None:
    from memplace_env._lib.files import write_atomically

    try:
        write_atomically(path, content)
    except OSError as error:
        raise MemPlaceError(f"--out {path} cannot be written: {error.strerror or error}; pass another place.") from None
