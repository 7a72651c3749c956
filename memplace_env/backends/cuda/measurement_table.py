"""The numbers measured on a device as a table."""

from __future__ import annotations

from collections.abc import Mapping

from rich.table import Table

from memplace_env.backends.cuda.device_calibration import DeviceNumbers
from memplace_env.report.quantities import count, rate, seconds, size
from memplace_env.report.tables import add_row, new_table


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
