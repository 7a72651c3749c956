"""Reading accelerators: the shipped ones, exactness, and a clear error for every kind of mistake."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memplace_env._lib.errors import AcceleratorError
from memplace_env.machine.accelerator import accelerator_names, load_accelerator
from memplace_env.machine.accelerator.accelerator import Fusion
from memplace_env.machine.accelerator.schema import DTYPES
from memplace_env.program.model_file import RECORDED_FUSION, as_written
from memplace_env.program.program import FLOAT_BYTES
from tests.fuzz.documents import document_to_toml
from tests.machine.accelerator.documents import GOOD, NO_NUMBERS, PRESETS, Document, Read, changed
from tests.offenders import every

# Shipped accelerators


def test_a_file_of_that_name_is_no_streamed_chip(tmp_path, monkeypatch):
    """A plan names shipped chips, whatever lies in the working folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "nnp-i-streamed").write_text("a user's")
    assert load_accelerator("nnp-i-streamed").name == "nnp-i-streamed"


def test_names_are_those_of_the_files() -> None:
    ethos = "ethos-u65", "ethos-u65-256", "ethos-u65-512", "ethos-u85-2048", "ethos-u85-512"
    assert accelerator_names() == ("edge-tpu", *ethos, "intel-npu-4000", "nnp-i", "tpu-v4i")


@every("name", accelerator_names())
def test_preset_loads_under_its_own_name(name: str) -> None:
    accelerator = load_accelerator(name)
    assert accelerator.name == name
    assert load_accelerator(PRESETS / f"{name}.toml") == accelerator
    assert load_accelerator(str(PRESETS / f"{name}.toml")) == accelerator
    assert load_accelerator(accelerator) is accelerator


def test_streamed_copies() -> None:
    chip = load_accelerator("edge-tpu-streamed")
    resident = load_accelerator("edge-tpu")
    assert chip == replace(resident, name="edge-tpu-streamed", weights="streamed") == resident.streamed()
    assert chip.sha256 != resident.sha256
    assert load_accelerator(f"{PRESETS / 'edge-tpu.toml'}-streamed") == chip.streamed() == chip
    assert load_accelerator("tpu-v4i-streamed") == load_accelerator("tpu-v4i"), "which streams anyway"
    with pytest.raises(AcceleratorError, match=r"^'edge-tpx' is not a shipped accelerator.*did you mean edge-tpu\?"):
        load_accelerator("edge-tpx-streamed")


def test_a_file_may_be_called_streamed(tmp_path: Path) -> None:
    path = tmp_path / "mine-streamed"
    path.write_bytes((PRESETS / "edge-tpu.toml").read_bytes())
    assert load_accelerator(path).name == "edge-tpu"


def numbers(table: Document, prefix: str = "") -> Iterator[str]:
    """Dotted paths of a table's numbers; tables with a `source` of their own speak for themselves."""
    for key, value in table.items():
        if isinstance(value, dict) and "source" not in value and key != "source":
            yield from numbers(value, f"{prefix}{key}.")
        elif isinstance(value, int | float):
            yield prefix + key


@every("name", accelerator_names())
def test_every_number_of_a_preset_has_a_source(name: str) -> None:
    document = tomllib.loads((PRESETS / f"{name}.toml").read_text())
    assert "memory" in document
    tables = {key for key, value in document.items() if isinstance(value, dict)}
    assert tables <= {"compute", "dma", "event", "source", "tiling"}
    for table in [
        document["compute"],
        *document["memory"],
        document.get("dma", {}),
        *document.get("event", {}).values(),
    ]:
        sources = table.get("source", {})
        for number in numbers(table):
            assert number in sources or number.split(".")[0] in sources, number
        for key in sources:
            assert any(number == key or number.startswith(f"{key}.") for number in numbers(table)), key
    tiling = document.get("tiling", {})
    assert bool(tiling) == bool(tiling.get("source"))
    assert tiling.get("source", {}).keys() <= tiling.keys()


@every("name", accelerator_names())
def test_systolic_arrays_make_the_matrix_peak(name: str) -> None:
    accelerator = load_accelerator(name)
    if accelerator.systolic is not None:
        shape = accelerator.systolic
        peak = shape.rows * shape.columns * shape.arrays * shape.clock_hz
        assert accelerator.matrix_macs_per_s[accelerator.dtype] == peak


def test_published_figures() -> None:
    tpu, npu = load_accelerator("tpu-v4i"), load_accelerator("intel-npu-4000")
    assert tpu.dma_bytes_per_s == (614_000_000_000, 614_000_000_000)
    assert npu.levels[0].latency_ps == 32_956
    assert npu.dma_bytes_per_s == (130_369_600_000, 130_369_600_000)  # 136 GB/s x 0.9586
    assert load_accelerator("ethos-u65").levels[-1].latency_ps == 500_000


def test_dtypes_are_those_of_programs() -> None:
    assert tuple(DTYPES) == tuple(FLOAT_BYTES)


# Exactness


@given(peak=st.integers(1, 10**18), share=st.decimals("0.000001", 1, places=6))
def test_effective_bandwidth_is_exact(file: Path, peak: int, share: Any) -> None:
    text = document_to_toml(changed(("memory[0].read_bytes_per_s", 10**18), ("memory[1].efficiency", 0.5)))
    text = text.replace('"efficiency" = 0.5', f'"efficiency" = {share}').replace("614000000000", str(peak))
    file.write_text(text)
    exact = int(peak * Fraction(share))
    if exact < 1:
        with pytest.raises(AcceleratorError, match=r"memory\[1\]\.efficiency"):
            load_accelerator(file)
    else:
        level = load_accelerator(file).levels[1]
        assert level.read_bytes_per_s == level.write_bytes_per_s == exact


def test_efficiency_and_dma_default_to_one(read: Read) -> None:
    accelerator = read(changed(("memory[1].efficiency", ...), ("dma", ...)))
    assert accelerator.levels[1].read_bytes_per_s == 614_000_000_000
    assert accelerator.dma_efficiency == 1.0
    assert read(changed(("dma.efficiency", ...))).dma_efficiency == 1.0


def test_compute_efficiency_scales_rates_and_clocks(read: Read) -> None:
    whole, part = read(GOOD), read(changed(("compute.efficiency", 0.3)))
    for rates, effective in (
        (whole.matrix_macs_per_s, part.matrix_macs_per_s),
        (whole.vector_ops_per_s, part.vector_ops_per_s),
    ):
        assert effective == {dtype: rate * 3 // 10 for dtype, rate in rates.items()}
    assert whole.systolic
    assert part.systolic == replace(whole.systolic, clock_hz=whole.systolic.clock_hz * 3 // 10)
    assert read(changed(("compute.efficiency", 1))) == whole
    with pytest.raises(AcceleratorError, match=r"compute\.efficiency leaves less than 1"):
        read(changed(("compute.efficiency", 0.1), ("compute.vector_ops_per_s.int8", 5)))


def test_nanoseconds_become_picoseconds_exactly(read: Read) -> None:
    accelerator = read(changed(("memory[0].latency_ns", 0.001), ("compute.op_overhead_ns", 123456789.123)))
    assert (accelerator.levels[0].latency_ps, accelerator.op_overhead_ps) == (1, 123_456_789_123)


def test_whole_numbers_may_be_written_as_floats(read: Read) -> None:
    assert read(changed(("memory[0].read_bytes_per_s", 2e12))) == read(GOOD)


# Hash


def test_hash_ignores_how_a_number_is_written_name_description_and_sources(read: Read) -> None:
    same = read(
        changed(
            ("name", "x"),
            ("description", "y"),
            ("dma.source", ...),
            ("memory[0].pj_per_byte", 20.0),
            ("memory[0].latency_ns", -0.0),
            ("compute.op_overhead_ns", 0.0),
        )
    )
    tpu = read(GOOD)
    assert same.sha256 == tpu.sha256
    assert hash(same) == hash(tpu)
    assert same != tpu
    assert replace(same, name=tpu.name, description=tpu.description) == tpu


@every(
    ("path", "value"),
    [
        ("ports", "parallel"),
        ("weights", "resident"),
        ("dtype", "int8"),
        ("compute.op_overhead_ns", 1),
        ("compute.efficiency", 0.5),
        ("compute.static_power_w", 1),
        ("compute.matrix_macs_per_s.int8", 1),
        ("compute.vector_ops_per_s.int8", 1),
        ("compute.mac_pj.int8", 1),
        ("compute.vector_pj.int8", 1),
        ("compute.systolic.fill", "exposed"),
        ("compute.systolic", ...),
        ("memory[0].name", "VMEM"),
        ("memory[0].capacity_bytes", 1),
        ("memory[1].efficiency", 0.76),
        ("memory[1].latency_ns", 0.001),
        ("memory[1].pj_per_byte", 32),
        ("dma.efficiency", 0.5),
    ],
)
def test_hash_tells_apart_whatever_counts(read: Read, path: str, value: Any) -> None:
    assert read(changed((path, value))).sha256 != read(GOOD).sha256


def test_hash_of_a_shipped_name_has_the_fusion_of_records(read: Read) -> None:
    fusions = get_args(Fusion)
    for name in RECORDED_FUSION.keys() | {"tpu-v4i-streamed"}:
        shipped = [read(changed(("name", name), ("fusion", fusion))) for fusion in fusions]
        assert {chip.sha256 for chip in shipped} == {replace(shipped[0], fusion=as_written(name)["fusion"]).sha256}
    own = [read(changed(("name", "x"), ("fusion", fusion))).sha256 for fusion in fusions]
    assert len(set(own)) == len(fusions)
    assert as_written("x") == {"in_place": "none", "patterns": "off"}


def test_hashes_of_presets_are_those_that_results_were_recorded_with() -> None:
    assert {name: load_accelerator(name).sha256[:16] for name in accelerator_names()} == {
        "edge-tpu": "f0abc2b5d58ac466",
        "ethos-u65": "fc852ef57835b881",
        "ethos-u65-256": "79665dc467bcb167",
        "ethos-u65-512": "392b34f8aac56a7e",
        "ethos-u85-2048": "9020605c71a0de18",
        "ethos-u85-512": "ed4b850ee8cc568b",
        "intel-npu-4000": "3b38c8f29d4189c4",
        "nnp-i": "df73c9515f0541ca",
        "tpu-v4i": "bb2afd5e7b9c11fb",
    }


def test_hashes_of_presets_differ() -> None:
    assert len({load_accelerator(name).sha256 for name in accelerator_names()}) == len(accelerator_names())


# Mistakes in the argument and the file


@every("name", ["nnpi", "tpu-v4", "NNP-I", "zzz", "", "x" * 5000, "a\0b"])
def test_unknown_name_lists_the_shipped_ones(name: str) -> None:
    with pytest.raises(AcceleratorError, match=", ".join(accelerator_names())):
        load_accelerator(name)


def test_unknown_name_suggests_a_close_one() -> None:
    with pytest.raises(AcceleratorError, match=r"'nnpi' is not .*did you mean nnp-i\?$"):
        load_accelerator("nnpi")


@every("as_type", [str, Path])
def test_missing_file(tmp_path: Path, as_type: type) -> None:
    with pytest.raises(AcceleratorError, match=r"absent\.toml: there is no such file"):
        load_accelerator(as_type(tmp_path / "absent.toml"))


def test_path_that_no_system_takes() -> None:
    with pytest.raises(AcceleratorError, match="cannot be read"):
        load_accelerator("a\0.toml")


def test_directory(tmp_path: Path) -> None:
    with pytest.raises(AcceleratorError, match=f"{re.escape(str(tmp_path))}: this is a directory"):
        load_accelerator(tmp_path)


@every(
    ("content", "message"),
    [
        (b"schema = 1\nname = \n", r"not valid TOML.*line 2"),
        (b"\xff", r"not valid TOML.*utf-8"),
        (b"x = " + b"9" * 5000, "not valid TOML.*too many digits"),
        (b"x = 1e99999999999999999999", "not valid TOML.*too many digits"),
        (b"x = " + b"[" * 100_000, "not valid TOML.*nested too deeply"),
        (b"", "schema is missing"),
        (b"a." * 2000 + b"a = 1", "not valid TOML.*line 1 has more than 1,000 dots"),
        (b"#" * (2**19 + 1), "cannot be read, it has 524,289 bytes; the limit is 524,288"),
    ],
)
def test_unreadable_content(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "bad.toml"
    path.write_bytes(content)
    with pytest.raises(AcceleratorError, match=message) as error:
        load_accelerator(path)
    assert str(error.value).startswith(f"{path}: ")


def test_devices_and_pipes_are_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.toml")
    for path, kind in ((tmp_path / "pipe.toml", "pipe"), (Path("/dev/zero"), "device")):
        with pytest.raises(AcceleratorError, match=f"{path}: cannot be read, it is a {kind}, not a regular file"):
            load_accelerator(path)


def test_a_key_cannot_fill_the_screen(read: Read) -> None:
    with pytest.raises(AcceleratorError) as error:
        read(changed(("x" * 50_000, 1)))
    assert len(str(error.value)) < 1_000


def test_no_more_blocks_than_a_memory_can_list(file: Path) -> None:
    text = (PRESETS / "ethos-u85-512.toml").read_text()
    file.write_text(text.replace("largest_block = [128, 128, 1024]", "largest_block = [4096, 4096, 4096]"))
    with pytest.raises(AcceleratorError, match=r"tiling\.largest_block has more than 1,048,576 blocks"):
        load_accelerator(file)


def test_a_name_is_streamed_once() -> None:
    with pytest.raises(AcceleratorError, match="is not a shipped accelerator"):
        load_accelerator("edge-tpu" + "-streamed" * 5000)


def test_byte_order_mark_and_windows_line_ends(tmp_path: Path) -> None:
    path = tmp_path / "windows.toml"
    path.write_bytes(b"\xef\xbb\xbf" + (PRESETS / "nnp-i.toml").read_bytes().replace(b"\n", b"\r\n"))
    assert load_accelerator(path) == load_accelerator("nnp-i")


# Mistakes in the fields

REQUIRED = [
    *("schema", "name", "description", "ports", "weights", "fusion", "dtype", "compute", "memory"),
    *(f"compute.{key}" for key in GOOD["compute"] if key not in ("source", "systolic")),
    *(f"compute.systolic.{key}" for key in GOOD["compute"]["systolic"]),
    *(f"memory[1].{key}" for key in GOOD["memory"][1] if key not in ("source", "efficiency")),
]
COUNTS = [
    *(f"memory[1].{key}" for key in ("capacity_bytes", "read_bytes_per_s", "write_bytes_per_s")),
    *("compute.matrix_macs_per_s.int8", "compute.vector_ops_per_s.int8"),
    *(f"compute.systolic.{key}" for key in ("rows", "columns", "arrays", "clock_hz")),
]
TIMES = ["memory[1].latency_ns", "compute.op_overhead_ns"]
AMOUNTS = ["memory[1].pj_per_byte", "compute.static_power_w", "compute.mac_pj.int8", "compute.vector_pj.int8"]
SHARES = ["memory[1].efficiency", "dma.efficiency", "compute.efficiency"]
TEXTS = ["name", "description", "memory[1].name", "dma.source.efficiency"]
CHOICES = ["ports", "weights", "fusion", "dtype", "compute.systolic.fill"]
TABLES = ["compute", "compute.mac_pj", "compute.systolic", "compute.source", "memory[1]", "memory[1].source", "dma"]
UNKNOWN = ["x", "compute.x", "compute.mac_pj.x", "compute.systolic.x", "compute.source.x", "memory[1].x", "dma.x"]
NO_TEXTS: list[Any] = [5, True, "", "  ", "a\tb", [], {}]
NO_CHOICES: list[Any] = [5, True, "", "nothing", [], {}]

TILES = {"buffers": 2, "local_bytes": 1024, "ops_in_flight": 2}
DMA = {"engines": 2, "bytes_per_s": 10**10, "descriptor_bytes": 2**18, "descriptor_ns": 300}
DRAM = {"banks": 4, "interleave_bytes": 64, "same_bank_ns": 36, "read_to_write_ns": 1, "write_to_read_ns": 12}
ENGINES = {"unit": "engines", "engines": 12, "grid": [32, 32, 4], "loads": "hidden"}
MISTAKES = [
    *((path, ..., f"{path} is missing") for path in REQUIRED),
    *((path, 1, f"{path} is not a field") for path in UNKNOWN),
    *((path, value, path) for path in COUNTS + TIMES + AMOUNTS + SHARES for value in NO_NUMBERS),
    *((path, value, path) for path in COUNTS for value in (0, -1, 0.5, 1.5, 10**18 + 1, 1e19, -1e300)),
    *((path, value, path) for path in TIMES for value in (-1, 0.0001, 1.0005, 1e-300, 10**15 + 1)),
    *((path, value, path) for path in AMOUNTS for value in (-1, -1e-300, 1e-300, 1e19, 10**400)),
    *((path, value, path) for path in SHARES for value in (0, -0.5, 1.0001, 2, 1e-300)),
    *((path, value, path.split(".source")[0]) for path in TEXTS for value in NO_TEXTS),
    *((path, value, f"{path} must be one of") for path in CHOICES for value in NO_CHOICES),
    *((path, value, f"{path} must be a table") for path in TABLES for value in (5, True, "text", [1])),
    ("schema", 2, "schema must be 1"),
    ("schema", True, "schema must be 1"),
    ("schema", "1", "schema must be 1"),
    ("compute.op_overhed_ns", 1, "did you mean op_overhead_ns?"),
    ("memory[0].capacity", 1, "did you mean capacity_bytes?"),
    ("ports", "seriel", "did you mean serial?"),
    ("memory", {"name": "CMEM"}, "memory must be 2 to 8 tables [[memory]]"),
    ("memory", [], "memory must be 2 to 8 tables"),
    ("memory", GOOD["memory"][:1], "memory must be 2 to 8 tables"),
    ("memory", GOOD["memory"] * 5, "memory must be 2 to 8 tables"),
    ("memory", GOOD["memory"][::-1], "memory[1].read_bytes_per_s, times efficiency, must not exceed"),
    *((f"memory[1].{path}", value, f"memory[1].{path}") for path in ("writable", "contiguous") for value in (1, "no")),
    *(("memory[1].alignment_bytes", value, "memory[1].alignment_bytes must be") for value in (0, 3, 2**17, "x")),
    *(("memory[1].holds", value, "memory[1].holds") for value in ("weights", [], ["code"], ["weights", "weights"])),
    ("memory[1].holds", ["activations"], "memory[1].holds must name weights, which start in the last memory"),
    ("memory[1].holds", ["weights"], 'io_level must be "any" or the name of a memory'),
    ("memory[0].writable", False, "memory[0].writable is false, so that it must be the last memory"),
    ("memory[1].writable", False, "memory[1].writable is false, so that it must be the last memory"),
    ("memory[1].contiguous", True, "memory[1].contiguous is true, but no memory before it is the same"),
    ("memory[0].contiguous", True, "memory[0].contiguous is true, but no memory before it is the same"),
    ("memory[0].runtime_bytes", 134_217_728, "memory[0].runtime_bytes and alignment_bytes leave no block any byte"),
    ("memory[0].largest_block_bytes", 0, "memory[0].largest_block_bytes must be between 1"),
    ("io_level", "CMEN", "io_level must be one of backing, any, CMEM, not 'CMEN'; did you mean CMEM?"),
    ("io_level", "HBM", "io_level must be one of backing, any, CMEM"),
    ("memory[1].read_bytes_per_s", 2_666_666_666_669, "memory[1].read_bytes_per_s, times efficiency, must not exceed"),
    ("memory[1].name", "CMEM", "memory[1].name repeats CMEM"),
    ("memory[1].read_bytes_per_s", 1, "memory[1].efficiency leaves less than 1 byte/s"),
    ("memory[1].write_bytes_per_s", 1, "memory[1].efficiency leaves less than 1 byte/s"),
    ("compute.mac_pj.int8", ..., "compute.mac_pj and compute.matrix_macs_per_s must have the same dtypes"),
    ("compute.vector_pj.float32", 1, "compute.vector_pj and compute.matrix_macs_per_s must have the same dtypes"),
    ("compute.vector_ops_per_s.int8", ..., "compute.vector_ops_per_s and compute.matrix_macs_per_s must have"),
    ("compute.matrix_macs_per_s", {}, "dtype is bfloat16, which has no peak: add compute.matrix_macs_per_s.bfloat16"),
    ("dtype", "float32", "dtype is float32, which has no peak: add compute.matrix_macs_per_s.float32"),
    ("name", "a" * 101, "name has 101 characters: shorten it to 100"),
    ("memory[0].name", "a" * 101, "memory[0].name has 101 characters"),
    ("description", "a" * 2001, "description has 2,001 characters"),
    ("dma.source.efficiency", "a" * 2001, "has 2,001 characters"),
    ("tiling.unit", "systolik", "did you mean systolic?"),
    ("tiling.unit", ..., "tiling.unit is missing: add one of"),
    ("tiling.local_bytes", ..., "tiling.local_bytes is missing: add it"),
    ("tiling.unit", "engines", "tiling.local_bytes is not a field"),
    ("tiling", {**ENGINES, "engines": 0}, "tiling.engines must be between 1 and 1024"),
    ("tiling", {**ENGINES, "grid": [32, 32]}, "tiling.grid must be a list of 3 values"),
    ("tiling", {**ENGINES, "loads": "hiden"}, "did you mean hidden?"),
    ("event", {"tile": {}}, "event.tile is not a field: remove it or use one of tiles, dma, dram"),
    ("event.tiles", {**TILES, "buffers": 0}, "event.tiles.buffers must be between 1 and 64"),
    ("event.tiles", {**TILES, "ops_in_flight": 3}, "event.tiles.ops_in_flight must be between 1 and 2"),
    ("event.tiles", {"buffers": 2}, "event.tiles.local_bytes is missing: add it"),
    ("event.dma", {"engines": 2}, "event.dma.bytes_per_s is missing: add it"),
    ("event.dma", {**DMA, "descriptor_ns": 1e14}, "event.dma.descriptor_ns must be 0 or between 0.001 and 1e+06"),
    ("event.dram", {**DRAM, "same_bank_ns": 1e15}, "event.dram.same_bank_ns must be 0 or between 0.001 and 1e+06"),
    ("event.dram", {"banks": 4}, "event.dram.interleave_bytes is missing: add it"),
]


@every(("path", "value", "message"), MISTAKES)
def test_mistake_is_named(read: Read, file: Path, path: str, value: Any, message: str) -> None:
    with pytest.raises(AcceleratorError) as error:
        read(changed((path, value)))
    text = str(error.value)
    assert text.startswith(f"{file}: ")
    assert message in text
    assert "\n" not in text


def test_transfers_need_bandwidth(read: Read) -> None:
    slow = [("memory[1].read_bytes_per_s", 2), ("memory[1].efficiency", 1), ("dma.efficiency", 0.4)]
    with pytest.raises(AcceleratorError, match=r"dma\.efficiency leaves transfers less than 1 byte/s"):
        read(changed(*slow))


def test_wrong_schema_is_told_before_unknown_fields(read: Read) -> None:
    with pytest.raises(AcceleratorError, match="schema must be 1"):
        read(changed(("schema", 2), ("new", 1)))


@every("number", ["1e-999999999", "1e999999999", "-1e999999999", "0xf" + "f" * 9999])
@every("field", ["efficiency", "latency_ns", "pj_per_byte", "rows", "schema"])
def test_extreme_numbers_are_refused_at_no_cost(file: Path, field: str, number: str) -> None:
    file.write_text(re.sub(rf'"{field}" = [\d.]+', f'"{field}" = {number}', document_to_toml(GOOD)))
    with pytest.raises(AcceleratorError, match=field):
        load_accelerator(file)


def test_zero_with_a_huge_exponent_is_zero(file: Path, read: Read) -> None:
    good = read(GOOD)
    file.write_text(document_to_toml(GOOD).replace('"latency_ns" = 0', '"latency_ns" = 0e-999999999'))
    assert load_accelerator(file) == good
