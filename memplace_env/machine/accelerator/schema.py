"""The fields of an accelerator's TOML file, as data, and the few rules that check their values."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from decimal import Decimal
from fractions import Fraction
from functools import partial
from reprlib import repr as shorten
from typing import Any, get_args

from memplace_env._lib.errors import AcceleratorError
from memplace_env._lib.hints import nearest
from memplace_env.machine.accelerator.accelerator import KINDS, Fusion, InPlace, MeasuredTimes, Ports, Weights
from memplace_env.machine.accelerator.event_description import DmaEngines, DramBanks, Mechanisms, Tiles
from memplace_env.machine.accelerator.tiling_description import Access, Engines, EthosU, LocalMemory, OutputCycles

DTYPES = ("int8", "float16", "bfloat16", "float32")
MAX_LEVELS = 8
MAX_ALIGNMENT = 2**16
"""Largest alignment in bytes. Our choice: more than a page, and what a DMA engine asks for."""

Rule = Callable[[Any, str], Any]
"""Takes a value of the file and the dotted path of its field; returns what to store or raises AcceleratorError."""


def hint(name: Any, names: Collection[str]) -> str:
    """Return the end of an error message about an unknown name: the closest name, if any is close."""
    close = nearest(name, names)
    return f"; did you mean {close}?" if close else ""


def schema_version(value: Any, where: str) -> Any:
    if type(value) is not int or value != 1:
        raise AcceleratorError(f"{where} must be 1, the only version of the format that this release reads")
    return value


def _number(least: str, most: int, *, zero: bool = False, step: str | None = None) -> Rule:
    """A number in [least, most], or also 0: an int that counts `step`s if there is a step, else an exact Fraction.

    The lower bound keeps exact arithmetic on something like 1e-999999999 from filling the memory.
    """
    bounds = f"{'0 or ' if zero else ''}between {least} and {most:g}"
    multiple = "a whole number" if step == "1" else f"a whole multiple of {step}"

    def read(value: Any, where: str) -> Any:
        if isinstance(value, bool) or not isinstance(value, int | Decimal):
            raise AcceleratorError(f"{where} must be a number {bounds}, not {_kind(value)}")
        finite = isinstance(value, int) or value.is_finite()
        if not finite or not (Decimal(least) <= value <= most or (zero and value == 0)):
            raise AcceleratorError(f"{where} must be {bounds}")
        if step is None:
            return Fraction(value)
        steps = Fraction(value) / Fraction(step)
        if steps.denominator != 1:
            raise AcceleratorError(f"{where} must be {multiple}")
        return steps.numerator

    return read


def _choice(*allowed: str) -> Rule:
    def read(value: Any, where: str) -> Any:
        if not isinstance(value, str) or value not in allowed:
            given = shorten(value) if isinstance(value, str) else _kind(value)
            raise AcceleratorError(f"{where} must be one of {', '.join(allowed)}, not {given}{hint(value, allowed)}")
        return value

    return read


def _flag(value: Any, where: str) -> Any:
    if not isinstance(value, bool):
        raise AcceleratorError(f"{where} must be true or false, not {_kind(value)}")
    return value


def _kinds(value: Any, where: str) -> Any:
    kinds = _list(_choice(*KINDS), 1, len(KINDS))(value, where)
    if len(set(kinds)) != len(kinds):
        raise AcceleratorError(f"{where} names {kinds[0]} twice: name each kind once")
    return tuple(kind for kind in KINDS if kind in kinds)


def _power_of_two(value: Any, where: str) -> Any:
    count = _number("1", MAX_ALIGNMENT, step="1")(value, where)
    if count & (count - 1):
        raise AcceleratorError(f"{where} must be a power of two")
    return count


def _line(most: int) -> Rule:
    """One line of at most so many characters, without control characters."""

    def read(value: Any, where: str) -> Any:
        if not isinstance(value, str) or not value.strip() or not value.isprintable():
            raise AcceleratorError(f"{where} must be one line of text in quotes")
        if len(value) > most:
            raise AcceleratorError(f"{where} has {len(value):,} characters: shorten it to {most:,}")
        return value

    return read


_name, _text = _line(100), _line(2_000)


def _table(fields: Mapping[str, Rule], optional: Collection[str] = ()) -> Rule:
    """A table with these fields and, if wanted, a `source` table of texts that is keyed by them."""

    def read(value: Any, where: str) -> Any:
        _check_table(value, where)
        prefix = f"{where}." if where else ""
        _check_keys(value, prefix, [*fields, "source"])
        missing = [key for key in fields if key not in value and key not in optional]
        if missing:
            raise AcceleratorError(f"{prefix}{missing[0]} is missing: add it")
        sources = value.get("source", {})
        _check_table(sources, f"{prefix}source")
        _check_keys([key.split(".")[0] for key in sources], f"{prefix}source.", fields)
        for key, text in sources.items():
            _text(text, f'{prefix}source."{key}"')
        return {key: rule(value[key], prefix + key) for key, rule in fields.items() if key in value}

    return read


def _check_table(value: Any, where: str) -> None:
    if not isinstance(value, dict):
        raise AcceleratorError(f"{where} must be a table, not {_kind(value)}")


def _check_keys(keys: Collection[str], prefix: str, fields: Collection[str]) -> None:
    for key in keys:
        if key not in fields:
            remedy = f"remove it or use one of {', '.join(fields)}{hint(key, fields)}"
            raise AcceleratorError(f"{prefix}{key} is not a field: {remedy}")


def _list(item: Rule, least: int, most: int) -> Rule:
    """A list of so many values, as a tuple."""

    def read(value: Any, where: str) -> Any:
        if not isinstance(value, list) or not least <= len(value) <= most:
            size = least if least == most else f"{least} to {most}"
            raise AcceleratorError(f"{where} must be a list of {size} values")
        return tuple(item(element, f"{where}[{index}]") for index, element in enumerate(value))

    return read


def _unit(forms: Mapping[str, Rule]) -> Rule:
    """A table whose other fields have one of these forms, chosen by the field `unit`."""
    which = _choice(*forms)

    def read(value: Any, where: str) -> Any:
        _check_table(value, where)
        if "unit" not in value:
            raise AcceleratorError(f"{where}.unit is missing: add one of {', '.join(forms)}")
        form = forms[which(value["unit"], f"{where}.unit")]
        return form({key: field for key, field in value.items() if key != "unit"}, where)

    return read


def _built(make: Callable[..., Any], rule: Rule) -> Rule:
    """An object that `make` builds of the fields of a table; fields in ns are read, and named, as ps."""

    def read(value: Any, where: str) -> Any:
        return make(**{key.replace("_ns", "_ps"): field for key, field in rule(value, where).items()})

    return read


def _levels(value: Any, where: str) -> Any:
    if not isinstance(value, list) or not 2 <= len(value) <= MAX_LEVELS:
        raise AcceleratorError(
            f"{where} must be 2 to {MAX_LEVELS} tables [[{where}]], the fastest first and the backing memory last"
        )
    return [_LEVEL(level, f"{where}[{index}]") for index, level in enumerate(value)]


def _by_text(rule: Rule, most: int) -> Rule:
    """A table from any lines of text of at most so many characters to values of one kind."""
    line = _line(most)

    def read(value: Any, where: str) -> Any:
        _check_table(value, where)
        for key in value:
            line(key, f"{where}: the key {shorten(key)}")
        return {key: rule(item, f"{where}.{shorten(key)}") for key, item in value.items()}

    return read


def _kind(value: Any) -> str:
    names = {
        bool: "true or false",
        str: "text",
        dict: "a table",
        list: "an array",
        int: "a number",
        Decimal: "a number",
    }
    return names.get(type(value), "a date or time")


_MOST = 10**18  # So that a time in picoseconds fits int64.
_COUNT = _number("1", _MOST, step="1")
_NANOSECONDS = _number("0.001", _MOST // 1000, zero=True, step="0.001")
_EVENT_NANOSECONDS = _number("0.001", 10**6, zero=True, step="0.001")  # paid by every request: 1 ms at most
_AMOUNT = _number("1e-18", _MOST, zero=True)
_SHARE = _number("1e-9", 1)
_COUNTS = _table(dict.fromkeys(DTYPES, _COUNT), optional=DTYPES)
_AMOUNTS = _table(dict.fromkeys(DTYPES, _AMOUNT), optional=DTYPES)

_ACCESS = _table(
    {
        "burst_bytes": _COUNT,
        "ports": _COUNT,
        "outstanding_reads": _COUNT,
        "outstanding_writes": _COUNT,
        "read_latency_ns": _NANOSECONDS,
        "write_latency_ns": _NANOSECONDS,
    }
)
_LEVEL = _table(
    {
        "name": _name,
        "capacity_bytes": _COUNT,
        "read_bytes_per_s": _COUNT,
        "write_bytes_per_s": _COUNT,
        "efficiency": _SHARE,
        "latency_ns": _NANOSECONDS,
        "pj_per_byte": _AMOUNT,
        "access": _built(Access, _ACCESS),
        "alignment_bytes": _power_of_two,
        "holds": _kinds,
        "writable": _flag,
        "largest_block_bytes": _COUNT,
        "runtime_bytes": _number("1", _MOST, zero=True, step="1"),
        "contiguous": _flag,
    },
    optional=[
        "efficiency",
        "access",
        "alignment_bytes",
        "holds",
        "writable",
        "largest_block_bytes",
        "runtime_bytes",
        "contiguous",
    ],
)
_SYSTOLIC = _table(
    {"rows": _COUNT, "columns": _COUNT, "arrays": _COUNT, "clock_hz": _COUNT, "fill": _choice("hidden", "exposed")}
)
_COMPUTE = _table(
    {
        "op_overhead_ns": _NANOSECONDS,
        "static_power_w": _AMOUNT,
        "matrix_macs_per_s": _COUNTS,
        "vector_ops_per_s": _COUNTS,
        "mac_pj": _AMOUNTS,
        "vector_pj": _AMOUNTS,
        "efficiency": _SHARE,
        "systolic": _SYSTOLIC,
    },
    optional=["efficiency", "systolic"],
)
_BOX = _list(_number("1", 2**12, step="1"), 3, 3)  # so that its elements, times the layers' strides, fit int64
MAX_BLOCKS = 2**20
"""Blocks of a unit, one per multiple of its micro-block, among which tiled costs choose for each layer. Our choice."""
_ETHOS_U: dict[str, Rule] = {
    "clock_hz": _COUNT,
    "cores": _number("1", 1024, step="1"),
    "microblocks": _list(_BOX, 1, 8),
    "vector_microblocks": _list(_BOX, 1, 8),
    "largest_block": _BOX,
    "depth_slice": _COUNT,
    "output_cycles": _built(OutputCycles, _table(dict.fromkeys(("plain", "max_pool", "multiply", "add"), _AMOUNT))),
}
_ETHOS_U65 = _ETHOS_U | {"buffer_bytes": _list(_COUNT, 1, 1)}
_ETHOS_U85 = _ETHOS_U | {"buffer_bytes": _list(_COUNT, 2, 2), "request_words": _list(_COUNT, 4, 4)}
_TILING = _unit(
    {
        "ethos-u65": _built(partial(EthosU, "ethos-u65"), _table(_ETHOS_U65)),
        "ethos-u85": _built(partial(EthosU, "ethos-u85"), _table(_ETHOS_U85)),
        "engines": _built(
            Engines,
            _table({"engines": _number("1", 1024, step="1"), "grid": _BOX, "loads": _choice("hidden", "exposed")}),
        ),
        "systolic": _built(LocalMemory, _table({"local_bytes": _COUNT})),
    }
)
_EVENT = _table(
    {
        "tiles": _built(
            Tiles,
            _table(
                {
                    "buffers": _number("1", 64, step="1"),
                    "local_bytes": _COUNT,
                    "ops_in_flight": _number("1", 2, step="1"),
                }
            ),
        ),
        "dma": _built(
            DmaEngines,
            _table(
                {
                    "engines": _number("1", 64, step="1"),
                    "bytes_per_s": _COUNT,
                    "descriptor_bytes": _COUNT,
                    "descriptor_ns": _EVENT_NANOSECONDS,
                }
            ),
        ),
        "dram": _built(
            DramBanks,
            _table(
                {
                    "banks": _COUNT,
                    "interleave_bytes": _COUNT,
                    "same_bank_ns": _EVENT_NANOSECONDS,
                    "read_to_write_ns": _EVENT_NANOSECONDS,
                    "write_to_read_ns": _EVENT_NANOSECONDS,
                }
            ),
        ),
    },
    optional=["tiles", "dma", "dram"],
)
MAX_KEY = 150
"""Characters of an op's key, see `memplace_env.machine.costs.op_key`. Our choice."""
_MEASURED = _table(
    {
        "copy_latency_ns": _NANOSECONDS,
        "op_ns": _by_text(_number("0.001", _MOST // 1000, step="0.001"), MAX_KEY),
    }
)
DOCUMENT = _table(
    {
        "schema": schema_version,
        "name": _name,
        "description": _text,
        "ports": _choice(*get_args(Ports)),
        "weights": _choice(*get_args(Weights)),
        "fusion": _choice(*get_args(Fusion)),
        "inplace": _choice(*get_args(InPlace)),
        "io_level": _name,
        "dtype": _choice(*DTYPES),
        "cost_model": _name,
        "compute": _COMPUTE,
        "memory": _levels,
        "tiling": _TILING,
        "measured": _built(MeasuredTimes, _MEASURED),
        "event": _built(Mechanisms, _EVENT),
        "dma": _table({"efficiency": _SHARE}, optional=["efficiency"]),
    },
    optional=["inplace", "io_level", "dma", "cost_model", "tiling", "measured", "event"],
)
"""Rule for a whole document, parsed with `parse_float=Decimal`. Counts and picoseconds come out as int, the rest of the
numbers as Fraction, so nothing is rounded yet; optional fields that the file leaves out stay out."""
