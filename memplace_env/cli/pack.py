"""`memplace pack`: addresses for blocks of any toolchain."""

from __future__ import annotations

import sys
from json import dumps
from math import lcm
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from memplace_env._lib.errors import PlanError
from memplace_env._lib.files import write_atomically
from memplace_env.cli.console import print_json, stderr, stdout
from memplace_env.cli.shared_options import FileFlag, JsonFlag

if TYPE_CHECKING:
    from memplace_env import Packed
    from memplace_env.cli.block_files import BlockRow

EXIT_CODES: Final = {"found": 0, "impossible": 3, "unknown": 4}


def pack(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A .csv as for MiniMalloc, or a .json; - for stdin.")],
    capacity: Annotated[
        int | None,
        typer.Option("--capacity", min=0, help="Bytes of the arena.", show_default="the smallest that is found"),
    ] = None,
    align: Annotated[int, typer.Option("--align", min=1, help="Every offset is a multiple of this.")] = 1,
    pin: Annotated[
        list[str] | None, typer.Option("--pin", metavar="ID=OFFSET", help="Fix the offset of a block; repeat.")
    ] = None,
    out: FileFlag = None,
    picture: Annotated[
        Path | None, typer.Option("--picture", metavar="FILE", help="Draw the blocks into this .png.")
    ] = None,
    json: JsonFlag = False,
) -> None:
    """Find addresses for blocks with given lifetimes, so that those alive together share no byte.

    --out writes the blocks with their offsets, as .json or else as .csv; - for stdout. Blocks of several banks are
    packed bank by bank. Exit code 0: found; 3: it is proven that there are none; 4: none were found; 2: bad input.
    """
    from memplace_env import pack as pack_blocks
    from memplace_env.cli.block_files import read_blocks, to_csv, to_json

    blocks = _asked(read_blocks(file), align, pin or [])
    banks = list(dict.fromkeys(block.bank for block in blocks))
    if picture is not None and len(banks) > 1:
        raise PlanError("--picture draws one bank; leave it out for blocks of several.")
    offsets, answers = [0] * len(blocks), {}
    with stderr().status("looking for addresses"):
        for bank in banks:
            which = [index for index, block in enumerate(blocks) if block.bank == bank]
            size, first, last, aligned = zip(*(blocks[index][1:5] for index in which), strict=True)
            pins = [-1 if (at := blocks[index].pin) is None else at for index in which]
            answers[bank] = pack_blocks(size, first, last, capacity=capacity, align=aligned, pin=pins)
            for index, offset in zip(which, answers[bank].offset.tolist(), strict=True):
                offsets[index] = offset
    outcomes = {answer.outcome for answer in answers.values()}
    outcome = next((one for one in ("impossible", "unknown") if one in outcomes), "found")
    lines = [f"{bank}: {_line(answer)}" if bank else _line(answer) for bank, answer in answers.items()]
    facts = [
        {"bank": bank, "outcome": one.outcome, "arena": one.arena, "bound": one.bound, "proven": one.proven}
        for bank, one in answers.items()
    ]
    shown = [None] * len(blocks) if outcome == "impossible" else offsets
    document = to_json(blocks, shown, outcome=outcome, capacity=capacity, banks=facts)
    if picture is not None:
        _draw(blocks, offsets, str(file), lines, picture)
    piped = out is not None and str(out) == "-"
    if out is not None and outcome == "found" and not (piped and json):
        text = dumps(document, indent=1) + "\n" if out.suffix == ".json" else to_csv(blocks, offsets)
        if piped:
            sys.stdout.write(text)
        else:
            write_atomically(out, text)
            lines.append(f"Written: {out}")
    if json:
        print_json(document)
    else:
        (stderr() if piped else stdout()).print(*lines, sep="\n", soft_wrap=True)
    if outcome != "found":
        raise typer.Exit(EXIT_CODES[outcome])


def _asked(blocks: list[BlockRow], align: int, pins: list[str]) -> list[BlockRow]:
    """Return the blocks with what the options ask of their offsets."""
    at = dict[str, int]()
    for text in pins:
        name, _, offset = text.rpartition("=")
        if not (offset.isascii() and offset.isdigit()) or all(block.id != name for block in blocks):
            raise PlanError(f"--pin takes ID=OFFSET with the id of a block and a whole number, not {text!r}.")
        at[name] = int(offset)
    return [block._replace(alignment=lcm(align, block.alignment), pin=at.get(block.id, block.pin)) for block in blocks]


def _line(answer: Packed) -> str:
    from memplace_env.report.quantities import percent

    if answer.outcome == "impossible":
        return f"It is proven that there are no addresses: at least {answer.bound:,} bytes are needed."
    if answer.outcome == "unknown":
        return f"No addresses were found: {answer.bound:,} bytes are needed, and {answer.arena:,} are enough."
    above = percent(answer.arena / max(answer.bound, 1) - 1)
    quality = "no arena is smaller" if answer.proven else f"at most {above} above the smallest"
    return f"{len(answer.offset)} blocks lie in {answer.arena:,} bytes, {quality}."


def _draw(blocks: list[BlockRow], offsets: list[int], title: str, lines: list[str], path: Path) -> None:
    import numpy as np

    from memplace_env.report.plans.packing_figure import packing_figure
    from memplace_env.report.style import save_png

    rows = [(*block[1:4], offset) for block, offset in zip(blocks, offsets, strict=True)]
    table = np.array(rows, dtype=np.int64).reshape(-1, 4)
    save_png(packing_figure(table, [block.id for block in blocks], title, " ".join(lines)), path)
