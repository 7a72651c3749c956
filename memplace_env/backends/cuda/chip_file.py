"""The description of a chip with the numbers measured on a device."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from memplace_env._lib.errors import AcceleratorError, CalibrationError
from memplace_env._lib.foreign import printable, shown
from memplace_env._lib.units import PS_PER_S
from memplace_env.backends.cuda.device_calibration import CHAIN, SMALL_BYTES, DeviceNumbers
from memplace_env.machine.accelerator.load import FILE_BYTES, build, parse


def description(numbers: DeviceNumbers, op_ns: Mapping[str, float]) -> str:
    """Return the TOML of a chip that `load_accelerator` reads.

    Rates are rounded to whole bytes and ops per second, times to picoseconds. The format requires that the fast memory
    is read no slower than the backing memory: if the bus is faster, its rate is written for both, as measured costs do
    not use that of the device's own memory.

    Args:
        numbers: the device's numbers.
        op_ns: nanoseconds of ops, by `op_key`.

    Raises:
        CalibrationError: the numbers are no valid chip, or there are more ops than a description may have.
    """
    text = _HEAD.format(**_fields(numbers)) + "".join(
        f"{json.dumps(key, ensure_ascii=False)} = {_ns(max(1, round(1000 * time)))}\n" for key, time in op_ns.items()
    )
    if len(text.encode()) > FILE_BYTES:
        raise CalibrationError(
            f"{len(op_ns):,} ops are more than fit into the {FILE_BYTES:,} bytes of a description; calibrate fewer "
            "models at once."
        )
    try:
        build(parse(text))
    except AcceleratorError as error:
        raise CalibrationError(
            f"What was measured on {shown(numbers.device, 100)} is not a valid chip: {error}"
        ) from None
    return text


def _fields(numbers: DeviceNumbers) -> dict[str, Any]:
    device_rate, to_device, to_host, macs, vector_ops = (
        max(1, round(rate))
        for rate in (
            numbers.device_bytes_per_s,
            numbers.host_to_device_bytes_per_s,
            numbers.device_to_host_bytes_per_s,
            numbers.macs_per_s,
            numbers.vector_ops_per_s,
        )
    )
    about = f"{shown(numbers.device, 100)} and its host, as measured by memplace calibrate."
    return {
        "name": json.dumps(printable(numbers.name), ensure_ascii=False),
        "description": json.dumps(about, ensure_ascii=False),
        "launch_ns": _ns(round(PS_PER_S * numbers.launch_s)),
        "latency_ns": _ns(round(PS_PER_S * numbers.copy_latency_s)),
        "device_read": max(device_rate, to_device),
        "device_rate": device_rate,
        "to_device": to_device,
        "to_host": to_host,
        "macs": macs,
        "vector_ops": vector_ops,
        "capacity_bytes": numbers.capacity_bytes,
        "host_bytes": numbers.host_bytes,
        "issued": numbers.issued,
        "chain": CHAIN,
        "small_bytes": SMALL_BYTES,
        **numbers.sizes._asdict(),
    }


def _ns(picoseconds: int) -> str:
    return f"{picoseconds // 1000}.{picoseconds % 1000:03d}"


_HEAD = """\
schema = 1
name = {name}
description = {description}
ports = "serial"
weights = "streamed"
fusion = "conv"
dtype = "float32"
cost_model = "measured"

[compute]
op_overhead_ns = {launch_ns}
static_power_w = 0

[compute.matrix_macs_per_s]
float32 = {macs}

[compute.vector_ops_per_s]
float32 = {vector_ops}

[compute.mac_pj]
float32 = 0

[compute.vector_pj]
float32 = 0

[compute.source]
op_overhead_ns = "Measured: {chain} additions of one number, {issued}, median of {runs}, over {chain}."
static_power_w = "Not measured: 0."
matrix_macs_per_s = "Measured: product of two {side} x {side} matrices, median of {runs}."
vector_ops_per_s = "Measured: {elements} additions, median of {runs}."
mac_pj = "Not measured: 0."
vector_pj = "Not measured: 0."

[[memory]]
name = "device"
capacity_bytes = {capacity_bytes}
read_bytes_per_s = {device_read}
write_bytes_per_s = {device_rate}
latency_ns = 0
pj_per_byte = 0

[memory.source]
capacity_bytes = "As asked for: what plans may use of the device's memory."
read_bytes_per_s = "Measured: {device_rate}, as writes; but no less than the host's, as the format requires."
write_bytes_per_s = "Measured: a copy of {copy_bytes} bytes within the device, read and written, median of {runs}."
latency_ns = "Part of the ops' times."
pj_per_byte = "Not measured: 0."

[[memory]]
name = "host"
capacity_bytes = {host_bytes}
read_bytes_per_s = {to_device}
write_bytes_per_s = {to_host}
latency_ns = {latency_ns}
pj_per_byte = 0

[memory.source]
capacity_bytes = "The memory of the machine, as the operating system says."
read_bytes_per_s = "Measured: a copy of {copy_bytes} bytes from pinned memory to the device, median of {runs}."
write_bytes_per_s = "Measured: a copy of {copy_bytes} bytes from the device to pinned memory, median of {runs}."
latency_ns = "As measured.copy_latency_ns, for cost models that do not read that."
pj_per_byte = "Not measured: 0."

[measured]
copy_latency_ns = {latency_ns}

[measured.source]
copy_latency_ns = "Measured: {chain} copies of {small_bytes} bytes in a row, less their bytes' time; mean of both ways."
op_ns = "Measured: each op with all that it reads and makes in the device."

[measured.op_ns]
"""
