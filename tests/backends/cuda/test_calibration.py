"""Measurements of a device: here on the CPU, and on one whose clock goes by what it is asked to do."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, ClassVar

import pytest
import torch

from memplace_env.backends.cuda import device_calibration
from memplace_env.backends.cuda.device_calibration import (
    CHAIN,
    MEASUREMENTS,
    SMALL_BYTES,
    Sizes,
    measure_numbers,
    measure_ops,
)
from memplace_env.backends.cuda.device_protocol import CapturedWork, median_seconds, repeated
from memplace_env.machine.accelerator import load_accelerator
from memplace_env.machine.costs import op_key
from memplace_env.placement.resolve_task import make_task, resolve_task
from memplace_env.placement.synthetic import random_dag
from memplace_env.placement.task import Task
from tests.backends.cuda.cpu_device import CpuDevice

SIZES = Sizes(copy_bytes=2**16, side=16, elements=2**12, runs=3)
ASKED = {"name": "mine", "capacity_bytes": 2**20, "host_bytes": 2**30, "sizes": SIZES}


def test_numbers_are_positive_and_as_asked() -> None:
    steps: list[None] = []
    numbers = measure_numbers(CpuDevice(), **ASKED, progress=lambda: steps.append(None))
    found = asdict(numbers)
    assert found.pop("copy_latency_s") >= 0
    assert found.pop("captured") is False
    assert all(value > 0 for value in found.values() if isinstance(value, int | float))
    assert (numbers.name, numbers.device) == ("mine", "a CPU")
    assert (numbers.capacity_bytes, numbers.host_bytes, numbers.sizes) == (2**20, 2**30, SIZES)
    assert len(steps) == MEASUREMENTS


@pytest.mark.parametrize("first_without", [0, 3, 100])
def test_it_is_told_whether_all_of_it_was_graphs(first_without: int) -> None:
    class Sometimes(CpuDevice):
        asked = 0

        def replay(self, issue: Any, *, capture: bool = True) -> CapturedWork:
            self.asked += 1
            return CapturedWork(issue, captured=self.asked <= first_without)

    numbers = measure_numbers(Sometimes(), **ASKED)
    assert numbers.captured == (first_without == 100)
    assert numbers.issued == ("replayed as a graph" if numbers.captured else "issued one by one")


class Clockwork(CpuDevice):
    """Takes what its plan says: 2 B/s to the device, 4 B/s to the host, 8 B/s within, 3 s for each copy over the bus;
    0.5 s for an addition and 0.01 s for each number; 1e-3 s for a multiply-accumulate."""

    def __init__(self) -> None:
        self.now, self.hosted = 0.0, []

    def arena(self, size: int, *, fast: bool) -> torch.Tensor:
        arena = super().arena(size, fast=fast)
        if not fast:
            self.hosted.append(arena)
        return arena

    def clock(self, stream: Any) -> float:
        return self.now

    def copied(self, target: torch.Tensor, source: torch.Tensor) -> None:
        here, there = (
            any(at.data_ptr() <= each.data_ptr() < at.data_ptr() + at.numel() for at in self.hosted)
            for each in (source, target)
        )
        self.now += 3 + target.numel() / 2 if here else 3 + target.numel() / 4 if there else target.numel() / 8

    def added(self, one: torch.Tensor) -> None:
        self.now += 0.5 + 0.01 * one.numel()

    def multiplied(self, one: torch.Tensor) -> None:
        self.now += 1e-3 * one.shape[0] ** 3


def test_each_number_is_that_of_what_it_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    device = Clockwork()
    torch_copy = torch.Tensor.copy_

    def copy(target: torch.Tensor, source: torch.Tensor, **how: Any) -> torch.Tensor:
        device.copied(target, source)
        return torch_copy(target, source, **how)

    monkeypatch.setattr(torch.Tensor, "copy_", copy)
    monkeypatch.setattr(torch, "add", lambda one, other, out: device.added(one))
    monkeypatch.setattr(torch, "matmul", lambda one, other, out: device.multiplied(one))
    numbers = measure_numbers(device, **ASKED)
    large = SIZES.copy_bytes
    assert numbers.host_to_device_bytes_per_s == pytest.approx(large / (3 + large / 2))
    assert numbers.device_to_host_bytes_per_s == pytest.approx(large / (3 + large / 4))
    assert numbers.copy_latency_s == pytest.approx(3, abs=4 * 3 * SMALL_BYTES / large)
    assert numbers.device_bytes_per_s == pytest.approx(16), "read and written"
    assert numbers.launch_s == pytest.approx(0.51)
    assert numbers.macs_per_s == pytest.approx(1000)
    assert numbers.vector_ops_per_s == pytest.approx(SIZES.elements / (0.5 + 0.01 * SIZES.elements))


def test_the_median_of_runs_is_that_of_one_piece_of_work() -> None:
    device = Clockwork()
    lengths = iter([0] * CHAIN + [1] * CHAIN + [7] * CHAIN + [2] * CHAIN)

    def work() -> None:
        device.now += next(lengths)

    replay = repeated(device, work, CHAIN)
    assert median_seconds(device, replay.play, runs=3) / CHAIN == 2


class FakeBench:
    """Each op takes a microsecond for each op up to it."""

    made: ClassVar[list[Task]] = []
    timed: ClassVar[list[int]] = []

    def __init__(self, task: Task, device: Any, *, progress: Any) -> None:
        self.made.append(task)
        for _ in range(task.program.num_ops):
            progress()

    def op_seconds(self, ops: list[int], *, progress: Any) -> list[float]:
        self.timed += ops
        for _ in ops:
            progress()
        return [1e-6 * (op + 1) for op in ops]


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> type[FakeBench]:
    monkeypatch.setattr(device_calibration, "Bench", FakeBench)
    FakeBench.made.clear()
    FakeBench.timed.clear()
    return FakeBench


def test_each_different_op_is_measured_once(bench: type[FakeBench]) -> None:
    task = resolve_task("ResNet50", "nnp-i", costs="roofline", dtype="float16")
    keys = [op_key(task.program, op) for op in range(task.program.num_ops)]
    steps: list[None] = []
    times = measure_ops(task, CpuDevice(), progress=lambda: steps.append(None))
    assert times == {key: pytest.approx(1e3 * (keys.index(key) + 1)) for key in keys}
    assert bench.timed == sorted(set(map(keys.index, keys)))
    assert len(steps) == task.program.num_ops + len(times)
    known = keys[:3]
    assert measure_ops(task, CpuDevice(), known) == {key: times[key] for key in times if key not in known}


def test_a_network_of_known_ops_is_not_prepared(bench: type[FakeBench]) -> None:
    task = make_task(random_dag(1, ops=8), load_accelerator("nnp-i"))
    times = measure_ops(task, CpuDevice())
    assert measure_ops(task, CpuDevice(), times) == {}
    assert len(bench.made) == 1
