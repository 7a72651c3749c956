"""The fields for tiled costs in an accelerator's file: read whole, and a clear error for every kind of mistake."""

from __future__ import annotations

import copy
import tomllib
from fractions import Fraction
from typing import Any

import pytest

from memplace_env._lib.errors import AcceleratorError
from memplace_env.machine.accelerator import accelerator_names, load_accelerator
from memplace_env.machine.accelerator.tiling_description import Access, EthosU
from tests.machine.accelerator.documents import NO_NUMBERS, PRESETS, Document, Read, put
from tests.offenders import every

DOCUMENTS: dict[str, Document] = {
    name: tomllib.loads((PRESETS / f"{name}.toml").read_text()) for name in accelerator_names()
}
ETHOS_U = [name for name in DOCUMENTS if DOCUMENTS[name].get("tiling", {}).get("unit", "").startswith("ethos-u")]
OLD, NEW = "ethos-u65-256", "ethos-u85-512"
BOXES = ["largest_block", "microblocks[0]", "vector_microblocks[0]"]


def changed(name: str, path: str, value: Any) -> Document:
    document = copy.deepcopy(DOCUMENTS[name])
    put(document, path, value)
    return document


@every("name", ETHOS_U)
def test_everything_in_the_file_is_in_the_unit(name: str) -> None:
    chip, fields = load_accelerator(name), dict(DOCUMENTS[name]["tiling"])
    unit = chip.tiling
    assert isinstance(unit, EthosU)
    assert unit.generation == fields.pop("unit")
    fields.pop("source")
    rates = fields.pop("output_cycles")
    assert vars(unit.output_cycles) == {key: Fraction(str(rate)) for key, rate in rates.items()}
    for key, value in fields.items():
        assert getattr(unit, key) == tuples(value), key
    assert unit.request_words == tuple(fields.get("request_words", ()))
    for level, table in zip(chip.levels, DOCUMENTS[name]["memory"], strict=True):
        access = {key: 1000 * value if "_ns" in key else value for key, value in table["access"].items()}
        assert level.access == Access(**{key.replace("_ns", "_ps"): value for key, value in access.items()})


def tuples(value: Any) -> Any:
    return tuple(map(tuples, value)) if isinstance(value, list) else value


@every("name", ETHOS_U)
def test_a_copy_of_the_file_is_the_same_chip(read: Read, name: str) -> None:
    assert read(DOCUMENTS[name]) == load_accelerator(name)


@every("name", ETHOS_U)
def test_every_number_has_a_source_or_is_its_own(name: str) -> None:
    tiling = DOCUMENTS[name]["tiling"]
    assert tiling["source"].keys() <= tiling.keys()
    assert tiling.keys() - tiling["source"].keys() <= {"unit", "clock_hz", "cores", "vector_microblocks", "source"}
    assert all("access" in table["source"] for table in DOCUMENTS[name]["memory"])


def test_tiling_and_access_may_be_left_out(read: Read) -> None:
    assert read(changed(OLD, "tiling", ...)).tiling is None
    assert read(changed(OLD, "memory[1].access", ...)).levels[1].access is None


DIFFERENCES = [
    *(f"memory[0].access.{key}" for key in DOCUMENTS[NEW]["memory"][0]["access"]),
    *(f"tiling.{key}" for key in ("clock_hz", "cores", "depth_slice", "output_cycles.plain", "output_cycles.add")),
    *(f"tiling.{box}[2]" for box in BOXES),
    *("tiling.buffer_bytes[1]", "tiling.request_words[0]"),
]


@every("path", DIFFERENCES)
def test_hash_tells_apart_whatever_counts(read: Read, path: str) -> None:
    assert read(changed(NEW, path, 7)).sha256 != load_accelerator(NEW).sha256


@every("path", ["tiling", "memory[1].access"])
def test_hash_tells_apart_what_is_left_out(read: Read, path: str) -> None:
    assert read(changed(NEW, path, ...)).sha256 != load_accelerator(NEW).sha256


ACCESS = [f"memory[1].access.{key}" for key in DOCUMENTS[NEW]["memory"][1]["access"]]
TIMES = [path for path in ACCESS if path.endswith("_ns")]
RATES = [f"tiling.output_cycles.{key}" for key in DOCUMENTS[NEW]["tiling"]["output_cycles"]]
FIELDS = [f"tiling.{key}" for key in DOCUMENTS[NEW]["tiling"] if key not in ("source", "unit")]
COUNTS = [
    *(path for path in ACCESS if path not in TIMES),
    *("tiling.clock_hz", "tiling.cores", "tiling.depth_slice"),
    *(f"tiling.{box}[{axis}]" for box in BOXES for axis in range(3)),
    *("tiling.buffer_bytes[0]", "tiling.buffer_bytes[1]", "tiling.request_words[2]"),
]
LISTS = {
    "buffer_bytes": "2",
    "request_words": "4",
    "microblocks": "1 to 8",
    "microblocks[1]": "3",
    "largest_block": "3",
}
TABLES = ["tiling", "tiling.output_cycles", "memory[1].access"]

MISTAKES = [
    *((path, ..., f"{path} is missing: add it") for path in (*ACCESS, *FIELDS, *RATES)),
    *((f"{table}.x", 1, f"{table}.x is not a field") for table in TABLES),
    *((path, value, path) for path in (*COUNTS, *TIMES, *RATES) for value in NO_NUMBERS),
    *((path, value, path) for path in COUNTS for value in (0, -1, 0.5, 10**18 + 1, -1e300)),
    *((path, value, path) for path in TIMES for value in (-1, 0.0001, 1e-300, 10**15 + 1)),
    *((path, value, path) for path in RATES for value in (-1, 1e-300, 1e19, 10**400)),
    *(
        (f"tiling.{key}", value, f"tiling.{key} must be a list of {size} values")
        for key, size in LISTS.items()
        for value in ([], 5, [[2, 2, 8]] * 9)
    ),
    *((table, 5, f"{table} must be a table") for table in TABLES),
    ("tiling", [], "tiling must be a table, not an array"),
    ("tiling.source", [], "tiling.source must be a table"),
    ("tiling.source.x", "text", "tiling.source.x is not a field"),
    ("tiling.unit", ..., "tiling.unit is missing: add one of ethos-u65, ethos-u85"),
    ("tiling.unit", "ethos-u86", "tiling.unit must be one of ethos-u65, ethos-u85"),
    ("tiling.unit", 85, "tiling.unit must be one of ethos-u65, ethos-u85"),
    ("tiling.unit", "ethos-u65", "tiling.request_words is not a field"),
    ("tiling.core", 1, "did you mean cores?"),
    ("memory[1].access.burst", 1, "did you mean burst_bytes?"),
]


@every(("path", "value", "message"), MISTAKES)
def test_mistake_is_named(read: Read, path: str, value: Any, message: str) -> None:
    with pytest.raises(AcceleratorError) as error:
        read(changed(NEW, path, value))
    text = str(error.value)
    assert message in text.partition("mine.toml: ")[2]
    assert "\n" not in text


def test_the_older_unit_has_one_buffer(read: Read) -> None:
    with pytest.raises(AcceleratorError, match=r"tiling\.buffer_bytes must be a list of 1 values"):
        read(changed(OLD, "tiling.buffer_bytes", [1, 2]))
