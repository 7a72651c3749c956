"""The description of a measured chip says what was measured, exactly as it is read again."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memplace_env._lib.errors import CalibrationError
from memplace_env.backends.cuda.chip_file import description
from memplace_env.backends.cuda.device_calibration import DeviceNumbers
from memplace_env.machine.accelerator import Accelerator, load_accelerator
from memplace_env.machine.accelerator.schema import MAX_KEY
from memplace_env.machine.costs import op_key
from memplace_env.placement.resolve_task import make_task
from memplace_env.placement.synthetic import random_dag

NUMBERS = DeviceNumbers("cuda", "a GPU", 25e9, 26e9, 8e-6, 1.6e12, 2e-6, 9e12, 4e11, 2**26, 2**36, True)

RATES = st.floats(1, 1e17)
TIMES = st.floats(0, 1e3)
KEYS = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=MAX_KEY).filter(str.isprintable)


@st.composite
def device_numbers(draw: st.DrawFn) -> DeviceNumbers:
    """Any that a device could have."""
    capacity = draw(st.integers(1, 2**40))
    rates = {name: draw(RATES) for name in vars(NUMBERS) if name.endswith("_per_s")}
    times = {name: draw(TIMES) for name in ("copy_latency_s", "launch_s")}
    return DeviceNumbers(
        name=draw(KEYS.filter(lambda key: len(key) <= 100)),
        device=draw(st.text(max_size=200)),
        capacity_bytes=capacity,
        host_bytes=capacity + draw(st.integers(1, 2**40)),
        captured=draw(st.booleans()),
        **rates,
        **times,
    )


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("chip") / "cuda.toml"


def loaded(file: Path, text: str) -> Accelerator:
    file.write_text(text, encoding="utf-8")
    return load_accelerator(file)


@given(device_numbers(), st.dictionaries(KEYS, st.floats(0.001, 1e15), max_size=5))
def test_all_of_it_is_read_again(file: Path, numbers: DeviceNumbers, op_ns: dict[str, float]) -> None:
    chip = loaded(file, description(numbers, op_ns))
    assert chip.measured is not None
    assert {key: time / 1000 for key, time in chip.measured.op_ps.items()} == pytest.approx(
        op_ns, rel=1e-15, abs=0.0005
    )
    near, bus = chip.levels
    for read, measured in (
        (bus.read_bytes_per_s, numbers.host_to_device_bytes_per_s),
        (bus.write_bytes_per_s, numbers.device_to_host_bytes_per_s),
        (near.write_bytes_per_s, numbers.device_bytes_per_s),
        (near.read_bytes_per_s, max(numbers.device_bytes_per_s, numbers.host_to_device_bytes_per_s)),
        (chip.matrix_macs_per_s["float32"], numbers.macs_per_s),
        (chip.vector_ops_per_s["float32"], numbers.vector_ops_per_s),
    ):
        assert read == pytest.approx(measured, abs=0.5)
    for picoseconds, measured in (
        (chip.measured.copy_latency_ps, numbers.copy_latency_s),
        (bus.latency_ps, numbers.copy_latency_s),
        (chip.op_overhead_ps, numbers.launch_s),
    ):
        assert picoseconds == pytest.approx(1e12 * measured, abs=0.5)
    assert (near.capacity_bytes, bus.capacity_bytes) == (numbers.capacity_bytes, numbers.host_bytes)
    assert chip.name == numbers.name


def test_what_is_not_measured_is_as_agreed(file: Path) -> None:
    chip = loaded(file, description(NUMBERS, {}))
    assert (chip.ports, chip.weights, chip.fusion, chip.dtype) == ("serial", "streamed", "conv", "float32")
    assert chip.cost_model == "measured"
    assert chip.static_power_w == chip.mac_pj["float32"] == chip.levels[0].pj_per_byte == 0
    assert [level.name for level in chip.levels] == ["device", "host"]


def test_every_number_has_a_source() -> None:
    document = tomllib.loads(description(NUMBERS, {"Add x": 5.0}))
    for table in (document["compute"], *document["memory"], document["measured"]):
        assert table["source"].keys() == table.keys() - {"name", "source"}


@pytest.mark.parametrize(("captured", "issued"), [(True, "replayed as a graph"), (False, "issued one by one")])
def test_it_says_how_the_device_was_given_its_work(captured: bool, issued: str) -> None:
    document = tomllib.loads(description(replace(NUMBERS, captured=captured), {}))
    assert document["compute"]["source"]["op_overhead_ns"] == (
        f"Measured: 100 additions of one number, {issued}, median of 20, over 100."
    )


def test_programs_run_on_the_chip(file: Path) -> None:
    program = random_dag(1, ops=8, dtype="float32")
    keys = [op_key(program, op) for op in range(program.num_ops)]
    task = make_task(program, loaded(file, description(NUMBERS, dict.fromkeys(keys, 1234.5))))
    assert task.costs.overhead_ps.tolist() == [1_234_500] * 8


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(
        CalibrationError, match=r"measured on a GPU is not a valid chip: memory\[1\].capacity_bytes must be"
    ):
        description(replace(NUMBERS, host_bytes=0), {})
    with pytest.raises(CalibrationError, match=r"is not a valid chip: measured.op_ns.'Add x' must be between"):
        description(NUMBERS, {"Add x": 1e16})
    with pytest.raises(CalibrationError, match="is not a valid chip: name has 101 characters"):
        description(replace(NUMBERS, name="a" * 101), {})
    with pytest.raises(CalibrationError, match="4,000 ops are more than fit into the 524,288 bytes"):
        description(NUMBERS, {f"{number:0150}": 1.0 for number in range(4000)})
