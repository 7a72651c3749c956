"""`memplace calibrate --device`, on the CPU in place of a GPU."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from memplace_env._lib.errors import ExecutionError
from memplace_env.backends.cuda import device_calibration
from memplace_env.backends.cuda.simulator import DeviceSimulator
from memplace_env.machine.accelerator import load_accelerator
from memplace_env.machine.costs import op_key
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.resolve_task import resolve_task
from memplace_env.placement.simulator import evaluate_plan
from tests.backends.cuda.cpu_device import CpuDevice
from tests.backends.cuda.test_calibration import SIZES, FakeBench
from tests.backends.ort.models import convolutional
from tests.cli.conftest import MODEL, Run

DEVICE = ("calibrate", "--device", "cuda")


@pytest.fixture
def _device(monkeypatch: pytest.MonkeyPatch) -> None:
    """The CPU as if it were a GPU, with quick measurements."""
    measure = device_calibration.measure_numbers
    monkeypatch.setitem(sys.modules, "memplace_env.backends.cuda.cuda", SimpleNamespace(open_cuda=CpuDevice))
    monkeypatch.setattr(device_calibration, "Bench", FakeBench)
    monkeypatch.setattr(
        device_calibration, "measure_numbers", lambda device, **asked: measure(device, sizes=SIZES, **asked)
    )


@pytest.mark.usefixtures("_device")
def test_what_is_written_is_a_chip_for_the_models(parsed: Callable[..., Any], tmp_path: Path) -> None:
    found = parsed(*DEVICE, "--model", "AlexNet", "--model", "SqueezeNet", "--capacity", 8, "--batch", 2)
    assert found["written"] == "cuda.toml"
    assert found["models"] == ["AlexNet", "SqueezeNet"]
    chip = load_accelerator(tmp_path / "cuda.toml")
    assert (chip.name, chip.levels[0].capacity_bytes) == ("cuda", 8 * 2**20)
    assert chip.measured
    assert found["captured"] is False, "the CPU has no graphs"
    assert {key: time / 1000 for key, time in chip.measured.op_ps.items()} == pytest.approx(found["op_ns"])
    assert chip.levels[-1].read_bytes_per_s == round(found["host_to_device_bytes_per_s"])
    for model in found["models"]:
        program = resolve_task(model, chip, batch=2).program
        assert program.dtype == "float32"
        assert {op_key(program, op) for op in range(program.num_ops)} <= found["op_ns"].keys()
    solved = parsed("solve", "AlexNet", "-a", "cuda.toml", "--batch", 2, "--agent", "random", "--budget", 4)
    assert solved["settings"]["accelerator"] == "cuda.toml"


@pytest.mark.usefixtures("_device")
def test_another_network_needs_its_own_times(parsed: Callable[..., Any], run: Run) -> None:
    parsed(*DEVICE, "--model", "AlexNet")
    other = run("inspect", "SqueezeNet", "-a", "cuda.toml")
    assert other.exit_code == 2
    assert "run `memplace calibrate --device cuda --model MODEL`" in other.stderr
    assert run("inspect", "SqueezeNet", "-a", "cuda.toml", "--costs", "roofline").exit_code == 0


@pytest.mark.usefixtures("_device")
def test_table_and_overwriting(run: Run, tmp_path: Path) -> None:
    command = (*DEVICE, "--model", "AlexNet", "--out", "my-gpu.toml")
    first = run(*command)
    assert first.exit_code == 0, first.stderr
    for part in (
        "my-gpu: a CPU",
        "host to device",
        "B/s",
        "start of an op, issued one by one",
        "different ops",
        "64 MiB",
        "Written: my-gpu.toml",
    ):
        assert part in first.stdout
    written = (tmp_path / "my-gpu.toml").read_text()
    again = run(*command, "--capacity", 32)
    assert again.exit_code == 2
    assert "exists already" in again.stderr
    assert (tmp_path / "my-gpu.toml").read_text() == written
    assert run(*command, "--capacity", 32, "--force").exit_code == 0
    assert load_accelerator(tmp_path / "my-gpu.toml").levels[0].capacity_bytes == 2**25
    assert run(*DEVICE, "--model", "AlexNet", "--out", "deep/mine.toml").exit_code == 0
    assert load_accelerator(tmp_path / "deep" / "mine.toml").name == "mine"


@pytest.mark.usefixtures("_device")
@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["calibrate"], "Pass either a .csv file of measured latencies, or --device cuda"),
        ([*DEVICE, "m.csv", "--model", MODEL], "Pass either a .csv file of measured latencies, or --device cuda"),
        ([*DEVICE], "--device needs networks"),
        (["calibrate", "--device", "tpu", "--model", MODEL], "--device"),
        *(([*DEVICE, "--model", MODEL, flag, "x"], f"{flag} cannot go with --device")
          for flag in ("--fit", "--accelerator", "--fusion", "--costs")),
        *((["calibrate", "m.csv", *flag], f"{flag[0]} cannot go with a file of measurements")
          for flag in (("--model", "x"), ("--capacity", 1), ("--batch", 1), ("--dim", "a=1"))),
        ([*DEVICE, "--model", MODEL, "--capacity", 0], "--capacity"),
        ([*DEVICE, "--model", MODEL, "--capacity", 10**15], "must be less than the memory of the host"),
        ([*DEVICE, "--model", MODEL, "--out", "x" * 101 + ".toml"], "name has 101 characters"),
        ([*DEVICE, "--model", "AlexNat"], "There is no workload 'AlexNat'"),
        ([*DEVICE, "--model", "MemPlace-BERR-v0"], "did you mean 'MemPlace-BERT-v0'?"),
        ([*DEVICE, "--model", "AlexNet", "--dim", "width=3"], "width"),
        ([*DEVICE, "--model", MODEL], "has no int8 unit"),
    ],
)  # fmt: skip
def test_one_sentence_and_nothing_written(run: Run, tmp_path: Path, arguments: list[Any], named: str) -> None:
    _refused(run(*arguments), named)
    assert list(tmp_path.iterdir()) == []


def test_a_model_of_ones_own_from_its_ops_to_a_plan(
    parsed: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing stands in for the bench here: its ops run, are timed alone, and then in a plan's memory."""
    measure = device_calibration.measure_numbers
    monkeypatch.setattr("memplace_env.backends.cuda.cuda.open_cuda", CpuDevice)
    monkeypatch.setattr(
        device_calibration, "measure_numbers", lambda device, **asked: measure(device, sizes=SIZES, **asked)
    )
    model = convolutional(tmp_path / "mine.onnx")
    found = parsed(*DEVICE, "--model", model)
    assert all(time > 0 for time in found["op_ns"].values())
    solved = parsed("solve", model, "-a", "cuda.toml", "--formulation", "game", "--agent", "native", "--out", "out")
    plan = MemoryPlan.load(tmp_path / "out" / "plan.json")
    task = resolve_task(model, tmp_path / "cuda.toml")
    simulator = DeviceSimulator(CpuDevice, task=task, runs=3)
    assert simulator.run(task.program, task.accelerator, plan).latency_s > 0
    assert solved["report"]["latency_s"] == pytest.approx(evaluate_plan(task, plan).latency_s)


def test_without_a_device(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> None:
        raise ExecutionError("No CUDA device can be reached; run this on a machine with an NVIDIA GPU.")

    monkeypatch.setitem(sys.modules, "memplace_env.backends.cuda.cuda", SimpleNamespace(open_cuda=none))
    _refused(run(*DEVICE, "--model", "AlexNet"), "No CUDA device can be reached")
    monkeypatch.setattr("memplace_env.cli.calibrate.find_spec", lambda name: None)
    _refused(run(*DEVICE, "--model", "AlexNet"), "Measuring a device needs PyTorch")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_searching_by_the_clock_needs_a_device(run: Run, tmp_path: Path) -> None:
    result = run("solve", "ResNet50", "--simulator", "cuda")
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.splitlines()[-1].startswith("memplace: No CUDA device can be reached")
    assert list(tmp_path.iterdir()) == []


def _refused(result: Any, named: str) -> None:
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    assert named in result.stderr
