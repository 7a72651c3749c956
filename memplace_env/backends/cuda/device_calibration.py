"""Measurement of a device's bus, memory and units, and of the times of ops on it; the numbers as a table."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

import torch
from rich.table import Table
from torch import Tensor

from memplace_env.backends.cuda.bench import Bench
from memplace_env.backends.cuda.device_protocol import Device, Stream, Work, median_seconds, repeated
from memplace_env.machine.costs import op_key
from memplace_env.placement.task import Task
from memplace_env.report.quantities import count, rate, seconds, size
from memplace_env.report.tables import add_row, new_table

SMALL_BYTES: Final = 4096
"""Bytes of a copy whose time is nearly all latency. Our choice."""
CHAIN: Final = 100
"""Short steps timed as one, so that the clocks' own time does not count. Our choice."""
MEASUREMENTS: Final = 6
"""Calls of `progress` by `measure_numbers`."""


class Sizes(NamedTuple):
    """Sizes of the copies and computations that measure rates; our choice, large enough to fill any GPU.

    Attributes:
        copy_bytes: bytes of a copy.
        side: rows and columns of the matrices that are multiplied.
        elements: numbers added.
        runs: runs of which the median is taken.
    """

    copy_bytes: int = 2**28
    side: int = 4096
    elements: int = 2**26
    runs: int = 20


SIZES: Final = Sizes()


@dataclass(frozen=True)
class DeviceNumbers:
    """Numbers of a device for a chip's description, in SI units.

    Attributes:
        name: name of the chip.
        device: name of the device.
        host_to_device_bytes_per_s, device_to_host_bytes_per_s: rates of a large copy over the bus.
        copy_latency_s: time of a copy beyond that of its bytes, mean of both directions.
        device_bytes_per_s: rate of the device's memory, reads and writes together.
        launch_s: time from the start of one tiny op to the next.
        macs_per_s: multiply-accumulates of a large float32 product.
        vector_ops_per_s: additions of many float32 numbers.
        capacity_bytes: bytes of the device that a plan may use, as requested.
        host_bytes: size of the host's memory.
        captured: whether everything was measured in graphs.
        sizes: sizes of copies and computations.
    """

    name: str
    device: str
    host_to_device_bytes_per_s: float
    device_to_host_bytes_per_s: float
    copy_latency_s: float
    device_bytes_per_s: float
    launch_s: float
    macs_per_s: float
    vector_ops_per_s: float
    capacity_bytes: int
    host_bytes: int
    captured: bool
    sizes: Sizes = SIZES

    @property
    def issued(self) -> str:
        """Text that says whether the device replayed graphs."""
        return "replayed as a graph" if self.captured else "issued one by one"


def unmeasured(*, name: str, capacity_bytes: int, host_bytes: int) -> DeviceNumbers:
    """Return numbers of a device of which only the memories are known: enough of a chip to make tasks for."""
    rate = 1e12
    return DeviceNumbers(name, "a device", rate, rate, 0, rate, 0, rate, rate, capacity_bytes, host_bytes, True)


def measure_numbers(
    device: Device,
    *,
    name: str,
    capacity_bytes: int,
    host_bytes: int,
    sizes: Sizes = SIZES,
    progress: Callable[[], None] = lambda: None,
) -> DeviceNumbers:
    """Measure a device, which should be idle.

    Args:
        device: the device.
        name, capacity_bytes, host_bytes: as in the result.
        sizes: sizes of copies and computations.
        progress: called `MEASUREMENTS` times.

    Raises:
        ExecutionError: the device has no memory for these sizes.
    """

    captured: list[bool] = []

    def seconds(work: Work, repeats: int = 1) -> float:
        replay = repeated(device, work, repeats)
        captured.append(replay.captured)
        return median_seconds(device, replay.play, sizes.runs) / repeats

    def counted(value: float) -> float:
        progress()
        return value

    far, near, other = (device.arena(sizes.copy_bytes, fast=fast) for fast in (False, True, True))
    to_device, to_host = (counted(sizes.copy_bytes / seconds(_copying(*ends))) for ends in ((near, far), (far, near)))
    short = [
        max(0.0, seconds(_copying(target[:SMALL_BYTES], source[:SMALL_BYTES]), CHAIN) - SMALL_BYTES / rate)
        for target, source, rate in ((near, far, to_device), (far, near, to_host))
    ]
    return DeviceNumbers(
        name=name,
        device=device.name,
        host_to_device_bytes_per_s=to_device,
        device_to_host_bytes_per_s=to_host,
        copy_latency_s=counted(statistics.mean(short)),
        device_bytes_per_s=2 * sizes.copy_bytes / seconds(_copying(other, near)),
        launch_s=counted(seconds(_adding(device, 1), CHAIN)),
        macs_per_s=counted(sizes.side**3 / seconds(_multiplying(device, sizes.side))),
        vector_ops_per_s=counted(sizes.elements / seconds(_adding(device, sizes.elements))),
        capacity_bytes=capacity_bytes,
        host_bytes=host_bytes,
        captured=all(captured),
        sizes=sizes,
    )


def measure_ops(
    task: Task, device: Device, known: Collection[str] = (), progress: Callable[[], None] = lambda: None
) -> dict[str, float]:
    """Return the nanoseconds of a network's ops by `op_key`, with all operands and results in the device.

    Args:
        task: the network's task.
        device: the device.
        known: keys of ops that need not be measured.
        progress: called for each op that is prepared, and for each that is measured.

    Raises:
        ExecutionError: naming what cannot be executed.
    """
    first: dict[str, int] = {}
    for op in range(task.program.num_ops):
        first.setdefault(op_key(task.program, op), op)
    new = {key: op for key, op in first.items() if key not in known}
    if not new:
        return {}
    seconds = Bench(task, device, progress=progress).op_seconds(list(new.values()), progress=progress)
    return {key: 1e9 * time for key, time in zip(new, seconds, strict=True)}


def _copying(target: Tensor, source: Tensor) -> Work:
    def work() -> None:
        target.copy_(source, non_blocking=True)

    return work


def _adding(device: Device, elements: int) -> Work:
    one, other, result = (_floats(device, elements) for _ in range(3))

    def work() -> None:
        torch.add(one, other, out=result)

    return work


def _multiplying(device: Device, side: int) -> Work:
    one, other, result = (_floats(device, side * side).view(side, side) for _ in range(3))

    def work() -> None:
        torch.matmul(one, other, out=result)

    return work


def _floats(device: Device, elements: int) -> Tensor:
    """Return float32[elements] in the device, from -1 to 1: a unit's speed can depend on the numbers."""
    numbers = device.arena(4 * elements, fast=True).view(torch.float32)

    def fill() -> None:
        torch.linspace(-1, 1, elements, out=numbers)

    device.issue(Stream.COMPUTE, fill)
    return numbers


def device_table(numbers: DeviceNumbers, op_ns: Mapping[str, float]) -> Table:
    """Return a table of rates, latencies and times of ops; `op_ns` has at least one."""
    table = new_table(f"{numbers.name}: {numbers.device}", "what", "measured", left=(0,))
    shortest, longest = (seconds(1e-9 * time) for time in (min(op_ns.values()), max(op_ns.values())))
    for what, measured in (
        ("host to device", rate(numbers.host_to_device_bytes_per_s)),
        ("device to host", rate(numbers.device_to_host_bytes_per_s)),
        ("latency of a copy", seconds(numbers.copy_latency_s)),
        ("device memory, read and written", rate(numbers.device_bytes_per_s)),
        (f"start of an op, {numbers.issued}", seconds(numbers.launch_s)),
        ("float32 product", count(numbers.macs_per_s, "MAC/s")),
        ("float32 additions", count(numbers.vector_ops_per_s, "op/s")),
        ("different ops", len(op_ns)),
        ("shortest op", shortest),
        ("longest op", longest),
        ("device memory for plans, as asked", size(numbers.capacity_bytes)),
        ("host memory", size(numbers.host_bytes)),
    ):
        add_row(table, what, measured)
    return table
