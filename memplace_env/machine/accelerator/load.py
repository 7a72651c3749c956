"""`load_accelerator`: an Accelerator from its TOML description, shipped or the user's own."""

from __future__ import annotations

import os
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from functools import cache
from itertools import pairwise
from math import prod
from pathlib import Path
from reprlib import repr as shorten
from typing import Any, Final

from memplace_env._lib.errors import AcceleratorError
from memplace_env._lib.foreign import parse_toml
from memplace_env._lib.foreign import read as read_file
from memplace_env.machine.accelerator.accelerator import ANY, BACKING, STREAMED, Accelerator, MemoryLevel, Systolic
from memplace_env.machine.accelerator.event_description import NO_MECHANISMS
from memplace_env.machine.accelerator.schema import DOCUMENT, MAX_BLOCKS, hint, schema_version
from memplace_env.machine.accelerator.tiling_description import EthosU

_PRESETS = Path(__file__).with_name("presets")
FILE_BYTES: Final = 2**19
"""Largest description that is read: room for the times of 2,500 measured ops with keys of the greatest
length, and many times the longest that is shipped. Our choice."""


@cache
def accelerator_names() -> tuple[str, ...]:
    """Names of the shipped accelerators, sorted; each is an argument of `load_accelerator`."""
    return tuple(sorted(path.stem for path in _PRESETS.glob("*.toml")))


def load_accelerator(name_or_path: str | Path | Accelerator) -> Accelerator:
    """Read the description of an accelerator.

    Times in ns become integer ps, exactly. The bandwidths of a level, in bytes/s, are its peaks times its `efficiency`,
    the rates and clocks of the units theirs times `compute.efficiency`, computed exactly and then rounded down.

    Args:
        name_or_path: a shipped name, see `accelerator_names`, or the path of a TOML file. A shipped name wins over a
            file of that name; either with "-streamed" behind it is that chip with streamed weights, which is what the
            game plays. An Accelerator is returned as it is.

    Raises:
        AcceleratorError: another type, an unknown name, an unreadable file, or a missing, unknown or impossible field;
            the message names the file, the field and the remedy.
    """
    if isinstance(name_or_path, Accelerator):
        return name_or_path
    if not isinstance(name_or_path, str | os.PathLike):
        kind = type(name_or_path).__name__
        raise AcceleratorError(f"An accelerator is a name, the path of a TOML file or an Accelerator, not {kind}.")
    shipped = isinstance(name_or_path, str) and is_shipped(name_or_path)
    streamed = str(name_or_path).endswith(STREAMED) and (shipped or not os.path.exists(name_or_path))
    path = find(str(name_or_path).removesuffix(STREAMED) if streamed else name_or_path)
    chip = _read_shipped(path) if shipped else _read_chip(path)
    return chip.streamed() if streamed else chip


def _read_chip(path: Path) -> Accelerator:
    try:
        return build(parse(read(path)))
    except AcceleratorError as error:
        raise AcceleratorError(f"{path}: {error}") from None


_read_shipped = cache(_read_chip)  # 3 ms each; synthetic programs of every episode need one


def is_shipped(name: str) -> bool:
    """Return whether a text names a shipped accelerator, streamed or not, and so no file of a user."""
    return name.removesuffix(STREAMED) in accelerator_names()


def find(name_or_path: str | Path) -> Path:
    """Return the file of a shipped name, or the path itself.

    Raises:
        AcceleratorError: if it looks like a name and none is shipped.
    """
    path = Path(name_or_path)
    if isinstance(name_or_path, str):
        names = accelerator_names()
        if name_or_path in names:
            return _PRESETS / f"{name_or_path}.toml"
        if not name_or_path or (len(path.parts) == 1 and path.suffix != ".toml" and not os.path.exists(path)):
            raise AcceleratorError(
                f"{shorten(name_or_path)} is not a shipped accelerator: pass the path of a TOML file or one of "
                f"{', '.join(names)}{hint(name_or_path, names)}"
            )
    return path


def read(path: Path) -> str:
    """Return the text of a file.

    Raises:
        AcceleratorError: if it cannot be read.
    """
    if os.path.isdir(path):
        raise AcceleratorError("this is a directory: pass the path of a TOML file")
    try:
        return read_file(path, FILE_BYTES).decode("utf-8-sig")
    except FileNotFoundError:
        names = accelerator_names()
        raise AcceleratorError(
            f"there is no such file: pass the path of a TOML file or one of {', '.join(names)}{hint(path.stem, names)}"
        ) from None
    except UnicodeDecodeError as error:
        raise AcceleratorError(f"not valid TOML: correct the file, {error}") from None
    except OSError as error:
        raise AcceleratorError(f"cannot be read, {error.strerror or error}: pass a readable TOML file") from None
    except ValueError as error:  # a null character in the path
        raise AcceleratorError(f"cannot be read, {error}: pass a readable TOML file") from None


def parse(text: str) -> dict[str, Any]:
    """Return a parsed document, with its numbers as int and Decimal.

    Raises:
        AcceleratorError: if the text is no TOML.
    """
    try:
        return parse_toml(text, parse_float=Decimal)
    except ValueError as error:
        raise AcceleratorError(f"not valid TOML: correct the file, {error}") from None


def build(document: dict[str, Any]) -> Accelerator:
    """Return the chip that a parsed document describes.

    Raises:
        AcceleratorError: naming the field that is missing, unknown or impossible.
    """
    if "schema" in document:  # First, since another version may have fields that are unknown here.
        schema_version(document["schema"], "schema")
    values = DOCUMENT(document, "")
    compute = values["compute"]
    _check_dtypes(values["dtype"], compute)
    levels = _joined(
        [_level(level, f"memory[{index}]") for index, level in enumerate(values["memory"])], values["memory"]
    )
    _check_order(levels)
    _check_roles(levels, values.get("io_level", BACKING))
    _check_blocks(values.get("tiling"))
    accelerator = Accelerator(
        **{key: values[key] for key in ("name", "description", "ports", "weights", "fusion", "dtype")},
        matrix_macs_per_s=_effective(compute, "matrix_macs_per_s"),
        vector_ops_per_s=_effective(compute, "vector_ops_per_s"),
        mac_pj={dtype: float(energy) for dtype, energy in compute["mac_pj"].items()},
        vector_pj={dtype: float(energy) for dtype, energy in compute["vector_pj"].items()},
        op_overhead_ps=compute["op_overhead_ns"],
        static_power_w=float(compute["static_power_w"]),
        dma_efficiency=float(values.get("dma", {}).get("efficiency", 1)),
        systolic=_slowed(Systolic(**compute["systolic"]), compute) if "systolic" in compute else None,
        levels=levels,
        tiling=_slowed(values["tiling"], compute) if "tiling" in values else None,
        cost_model=values.get("cost_model", "roofline"),
        measured=values.get("measured"),
        inplace=values.get("inplace", "none"),
        io_level=values.get("io_level", BACKING),
        mechanisms=values.get("event", NO_MECHANISMS),
    )
    if min(accelerator.dma_bytes_per_s) < 1:
        raise AcceleratorError("dma.efficiency leaves transfers less than 1 byte/s: raise it")
    return accelerator


def _effective(compute: dict[str, Any], rates: str) -> dict[str, int]:
    """Return the peaks times the fraction of them that ops reach."""
    share = compute.get("efficiency", Fraction(1))
    effective = {dtype: int(peak * share) for dtype, peak in compute[rates].items()}
    if min(effective.values(), default=1) < 1:
        raise AcceleratorError("compute.efficiency leaves less than 1 operation/s: raise it")
    return effective


def _slowed(unit: Any, compute: dict[str, Any]) -> Any:
    """Return the unit with its clock, if it has one, times the fraction of the peak that ops reach."""
    if not hasattr(unit, "clock_hz"):
        return unit
    clock_hz = int(unit.clock_hz * compute.get("efficiency", Fraction(1)))
    if clock_hz < 1:
        raise AcceleratorError("compute.efficiency leaves less than 1 cycle/s: raise it")
    return replace(unit, clock_hz=clock_hz)


def _level(values: dict[str, Any], where: str) -> MemoryLevel:
    share = values.get("efficiency", Fraction(1))
    read, write = (int(values[f"{way}_bytes_per_s"] * share) for way in ("read", "write"))
    if min(read, write) < 1:
        raise AcceleratorError(f"{where}.efficiency leaves less than 1 byte/s: raise it")
    capacity = values["capacity_bytes"] - values.get("runtime_bytes", 0)
    if capacity < values.get("alignment_bytes", 1):
        raise AcceleratorError(f"{where}.runtime_bytes and alignment_bytes leave no block any byte: lower them")
    named = ("alignment_bytes", "holds", "writable", "largest_block_bytes")
    return MemoryLevel(
        name=values["name"],
        capacity_bytes=capacity,
        read_bytes_per_s=read,
        write_bytes_per_s=write,
        latency_ps=values["latency_ns"],
        pj_per_byte=float(values["pj_per_byte"]),
        access=values.get("access"),
        **{key: values[key] for key in named if key in values},
    )


def _joined(levels: list[MemoryLevel], values: list[dict[str, Any]]) -> tuple[MemoryLevel, ...]:
    """Return the levels with each one that is `contiguous` joined to the one before it: a block may lie in both."""
    joined: list[MemoryLevel] = []
    for index, (level, value) in enumerate(zip(levels, values, strict=True)):
        if not value.get("contiguous", False):
            joined.append(level)
            continue
        if index == 0 or replace(level, name="", capacity_bytes=0) != replace(joined[-1], name="", capacity_bytes=0):
            raise AcceleratorError(
                f"memory[{index}].contiguous is true, but no memory before it is the same in all but name and capacity"
            )
        together = joined[-1].capacity_bytes + level.capacity_bytes
        joined[-1] = replace(joined[-1], name=f"{joined[-1].name}+{level.name}", capacity_bytes=together)
    if len(joined) < 2:
        raise AcceleratorError("memory has one level where all are contiguous: leave the backing memory apart")
    return tuple(joined)


def _check_roles(levels: tuple[MemoryLevel, ...], io_level: str) -> None:
    """Refuse levels that nothing could be in, or where a kind of tensor could be nowhere."""
    for index, level in enumerate(levels):
        if not level.writable and (index < len(levels) - 1 or level.holds != ("weights",)):
            raise AcceleratorError(
                f"memory[{index}].writable is false, so that it must be the last memory and hold weights only: "
                'add holds = ["weights"]'
            )
    last = f"memory[{len(levels) - 1}].holds"
    if "weights" not in levels[-1].holds:
        raise AcceleratorError(f"{last} must name weights, which start in the last memory")
    if all("activations" not in level.holds for level in levels):
        raise AcceleratorError(f"{last}: no memory holds activations: let one of them")
    if io_level == BACKING and "activations" not in levels[-1].holds:
        raise AcceleratorError(
            f'io_level must be "{ANY}" or the name of a memory, as {levels[-1].name} holds no graph inputs and outputs'
        )
    names = {level.name: level for level in levels[:-1]}
    if io_level in (BACKING, ANY):
        return
    if io_level not in names:
        given = ", ".join((BACKING, ANY, *names))
        raise AcceleratorError(f"io_level must be one of {given}, not {shorten(io_level)}{hint(io_level, names)}")
    if "activations" not in names[io_level].holds:
        raise AcceleratorError(f"io_level is {io_level}, which holds no activations: let it")


def _check_dtypes(dtype: str, compute: dict[str, Any]) -> None:
    peaks = compute["matrix_macs_per_s"]
    if dtype not in peaks:
        raise AcceleratorError(f"dtype is {dtype}, which has no peak: add compute.matrix_macs_per_s.{dtype}")
    for table in ("vector_ops_per_s", "mac_pj", "vector_pj"):
        odd = sorted(peaks.keys() ^ compute[table].keys())
        if odd:
            raise AcceleratorError(
                f"compute.{table} and compute.matrix_macs_per_s must have the same dtypes: add or remove {odd[0]}"
            )


def _check_blocks(unit: Any) -> None:
    """Refuse a unit with so many blocks that no memory would hold the list of them."""
    if not isinstance(unit, EthosU):
        return
    in_a_row = 1, 4, unit.microblocks[0][2]  # see `microblock` in costs/tiled/ethos_u_blocks.py
    for box in (*unit.microblocks, *unit.vector_microblocks, in_a_row):
        if prod(max(1, most // step) for most, step in zip(unit.largest_block, box, strict=True)) > MAX_BLOCKS:
            raise AcceleratorError(
                f"tiling.largest_block has more than {MAX_BLOCKS:,} blocks of {list(box)}: make it smaller"
            )


def _check_order(levels: tuple[MemoryLevel, ...]) -> None:
    for index, (fast, slow) in enumerate(pairwise(levels), start=1):
        where, order = f"memory[{index}]", f"that of memory[{index - 1}]: order the levels fastest first"
        if slow.name in [level.name for level in levels[:index]]:
            raise AcceleratorError(f"{where}.name repeats {slow.name}: give every level its own name")
        if slow.read_bytes_per_s > fast.read_bytes_per_s:
            raise AcceleratorError(f"{where}.read_bytes_per_s, times efficiency, must not exceed {order}")
