"""Compare our cycles with those of other simulators on the same layers: SCALE-Sim and ZigZag."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, NamedTuple

import numpy as np

from benchmarks.harness import ROOT, Rows, as_rows
from memplace_env.machine.accelerator import load_accelerator
from memplace_env.machine.costs import CostModel, Roofline, op_times
from memplace_env.machine.costs.roofline import scale_sim_cycles
from memplace_env.placement.workloads import resolve_workload
from memplace_env.program.program import Program

TPU_LIKE = ROOT / "benchmarks" / "data" / "zigzag-tpu-like.toml"
ZIGZAG_CYCLES = 8_002_606
"""ZigZag's total for the 54 convolutions and products of ResNet-50 on `TPU_LIKE`."""
ZIGZAG_ROOFLINE = 7_578_525
"""Sum over these layers of the larger of its compute and its DRAM cycles."""


class Layer(NamedTuple):
    """A convolution as a product, and the cycles that SCALE-Sim reports for it without memory stalls."""

    name: str
    product: tuple[int, int, int]
    size: int
    dataflow: Literal["weights", "outputs"]
    cycles: int


_RES2, _RES4, _RES5 = (56 * 56, 9 * 64, 64), (14 * 14, 9 * 256, 256), (7 * 7, 512, 2048)
SCALE_SIM = (
    Layer("res2 3x3 64-64", _RES2, 32, "weights", 116_279),
    Layer("res4 3x3 256-256", _RES4, 32, "weights", 167_039),
    Layer("res5 1x1 512-2048", _RES5, 32, "weights", 146_431),
    Layer("res4 3x3 256-256", _RES4, 128, "weights", 20_807),
    Layer("res5 1x1 512-2048", _RES5, 128, "weights", 27_583),
    Layer("res4 3x3 256-256", _RES4, 32, "outputs", 132_495),
    Layer("res5 1x1 512-2048", _RES5, 32, "outputs", 73_471),
)


def closed_form(layer: Layer) -> int:
    """Return our cycles for the layer."""
    return scale_sim_cycles(layer.product, (layer.size, layer.size), layer.dataflow)


def scale_sim_table() -> Rows:
    """Return a row for each layer."""
    rows = [
        [layer.name, f"{layer.size} x {layer.size}", layer.dataflow, f"{layer.cycles}", f"{closed_form(layer)}"]
        for layer in SCALE_SIM
    ]
    return as_rows(["layer of ResNet-50", "array", "what stays", "SCALE-Sim, cycles", "closed form"], rows)


def zigzag_cycles(model: CostModel, result_bytes: int = 1) -> float:
    """Return our total for the same 54 layers, everything in DRAM; a cycle is 1 ns there.

    Args:
        model: cost model; the roofline uses the unit's peak only, not its shape.
        result_bytes: bytes of each element that a layer writes.
    """
    chip = load_accelerator(TPU_LIKE)
    if isinstance(model, Roofline):
        chip = replace(chip, systolic=None)
    program = resolve_workload("ResNet50", batch=1, dtype="int8", fusion=chip.fusion)
    program = _with_results(program, result_bytes)
    costs = model.costs(program, chip)
    used = np.zeros((program.num_ops, chip.num_levels), dtype=np.int64)
    np.add.at(used[:, chip.backing], program.use_op, costs.use_ps[:, chip.backing])
    return float(op_times(costs, used).op_ps[program.macs > 0].sum()) / 1000


def _with_results(program: Program, result_bytes: int) -> Program:
    """Return the program with results of so many bytes for each element."""
    use_bytes = np.where(program.use_is_result, result_bytes, 1) * program.use_bytes
    return replace(program, tensor_bytes=program.tensor_bytes * result_bytes, use_bytes=use_bytes)
