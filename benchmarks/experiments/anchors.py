"""Published figures, and cycles of the simulators SCALE-Sim and ZigZag on the same layers, beside ours."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import onnx

from benchmarks.experiments import nnp_i, tpu_cmem
from benchmarks.harness import ROOT, Experiment, Records, Render, Rows, as_rows, heads, table
from benchmarks.ledger import Record
from memplace_env.machine.accelerator import load_accelerator
from memplace_env.machine.accelerator.event_description import Mechanisms
from memplace_env.machine.costs import CostModel, Roofline, op_times
from memplace_env.machine.costs.roofline import scale_sim_cycles
from memplace_env.machine.costs.tiled import Tiled
from memplace_env.placement.compiler import native_report
from memplace_env.placement.resolve_task import resolve_task
from memplace_env.placement.simulator import EventSimulator
from memplace_env.placement.workloads import resolve_workload
from memplace_env.program.model_file import as_written
from memplace_env.program.program import Program

TPU_LIKE = ROOT / "benchmarks" / "data" / "zigzag-tpu-like.toml"
ZIGZAG_CYCLES = 8_002_606
"""ZigZag's total for the 54 convolutions and products of ResNet-50 on `TPU_LIKE`."""
ZIGZAG_ROOFLINE = 7_578_525
"""Sum over these layers of the larger of its compute and its DRAM cycles."""


LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
"""Folder of public networks without weights in the package onnx."""

EDGE_TPU_MS: dict[str, tuple[str | Path, float]] = {
    "MobileNetV2": ("MobileNetV2", 2.6),
    "SqueezeNet": (LIGHT / "light_squeezenet.onnx", 2.0),
    "Inception v1": (LIGHT / "light_inception_v1.onnx", 4.1),
    "DenseNet": (LIGHT / "light_densenet121.onnx", 25.0),
    "VGG19": (LIGHT / "light_vgg19.onnx", 357.0),
}
"""Workload and milliseconds on Coral's Dev Board (coral.ai, benchmarks), of its networks at 224 x 224 that we have."""

HC31, MLPERF, ISCA = "Intel, Hot Chips 31", "MLPerf 0.5, offline", "Jouppi et al., ISCA 2021, fig. 10"


class Anchor(NamedTuple):
    """One published figure.

    Attributes:
        name: the subject of the figure, and its unit.
        published: the figure.
        source: publication.
        simulate: function that returns our figure under a cost model.
        digits: digits behind the point.
        bound: largest relative error that is required; None if none is.
        has_tiling: True if the chip's description has a section on tiling.
    """

    name: str
    published: float
    source: str
    simulate: Callable[[CostModel], float]
    digits: int = 2
    bound: float | None = None
    has_tiling: bool = True

    def simulated(self) -> dict[str, float]:
        """Return our figures by the name of the cost model."""
        models: dict[str, CostModel] = {"roofline": Roofline()} | ({"tiled": Tiled()} if self.has_tiling else {})
        return {name: self.simulate(model) for name, model in models.items()}

    def error(self, simulated: float) -> float:
        """Return the relative error of one of our figures."""
        return simulated / self.published - 1


def edge_tpu_ms(workload: str | Path, model: CostModel) -> float:
    """Return the latency on edge-tpu under the native compiler's plan."""
    return native_report(resolve_task(workload, "edge-tpu", costs=model, **as_written("edge-tpu"))).latency_s * 1e3


def _nnp_i(tops: int, source: str) -> Anchor:
    name = f"NNP-I at {tops} TOPS, ResNet-50 int8, six pairs of engines with batch 4, images/s"
    simulate = partial(nnp_i.images_per_s, nnp_i.THROUGHPUT, tops)
    return Anchor(name, nnp_i.PUBLISHED[tops], source, simulate, digits=0, bound=0.2)


def _cmem(case: tpu_cmem.Case, bound: float | None = None) -> Anchor:
    name = f"TPUv4i, {case.workload} {case.scenario}, batch {case.batch}, gain by CMEM"
    return Anchor(name, case.published, ISCA, partial(tpu_cmem.speedup, case), bound=bound)


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


NNP_I = (_nnp_i(48, HC31), _nnp_i(85, MLPERF))
TPU_V4I = (_cmem(tpu_cmem.SERVER, 0.1), _cmem(tpu_cmem.OFFLINE))
TPU_V4I_BERT = (_cmem(tpu_cmem.BERT_SERVER, 0.15), _cmem(tpu_cmem.BERT_OFFLINE))
ZIGZAG = Anchor(
    "ZigZag's tpu_like, ResNet-50, 54 layers, cycles",
    ZIGZAG_CYCLES,
    "ZigZag",
    zigzag_cycles,
    digits=0,
)
EDGE_TPU = tuple(
    Anchor(
        f"Edge TPU, {name}, ms",
        published,
        "coral.ai, Dev Board",
        partial(edge_tpu_ms, workload),
        digits=1,
        has_tiling=False,
    )
    for name, (workload, published) in EDGE_TPU_MS.items()
)
ANCHORS = (*NNP_I, *TPU_V4I, *TPU_V4I_BERT, ZIGZAG, *EDGE_TPU)


def anchor_table() -> Rows:
    """Return a row for each anchor; the error is the tiled figure's where there is one."""
    titles = ["anchor", "published", "source", "roofline", "tiled", "error", "bound", "met"]
    return as_rows(titles, [_row(anchor) for anchor in ANCHORS])


def _row(anchor: Anchor) -> list[str]:
    figures = anchor.simulated()
    error = anchor.error(figures.get("tiled", figures["roofline"]))
    ours = [f"{figures[name]:.{anchor.digits}f}" if name in figures else "–" for name in ("roofline", "tiled")]
    bound, met = "–", "–"
    if anchor.bound is not None:
        bound, met = f"{anchor.bound:.0%}", "yes" if abs(error) <= anchor.bound else "no"
    return [anchor.name, f"{anchor.published:.{anchor.digits}f}", anchor.source, *ours, f"{error:+.0%}", bound, met]


def event_images_per_s(tops: int, buffers: int) -> float:
    """Return NNP-I's rate in its mode for throughput with a number of tile buffers."""
    mode, model = nnp_i.THROUGHPUT, Tiled()
    task = nnp_i.task_of(mode, tops, model)
    on = task.accelerator.mechanisms
    assert on.tiles is not None
    event = EventSimulator(model, Mechanisms(replace(on.tiles, buffers=buffers), on.dma, on.dram))
    return mode.groups * mode.batch / native_report(replace(task, simulator=event)).latency_s


def cmem_gain(case: tpu_cmem.Case) -> float:
    """Return the gain by CMEM with the chip's own mechanisms."""
    return tpu_cmem.speedup(case, Tiled(), simulator=EventSimulator(Tiled()))


def event_table() -> Rows:
    """Return a row for each published figure of rates of NNP-I and gains by CMEM, sums and events under tiled costs."""
    rows = []
    for tops, published in nnp_i.PUBLISHED.items():
        sums = nnp_i.images_per_s(nnp_i.THROUGHPUT, tops, Tiled())
        for buffers in (1, 2):
            name = f"NNP-I at {tops} TOPS, images/s, tile buffers: {buffers}"
            rows.append(_event_row(name, published, sums, event_images_per_s(tops, buffers), 0))
    for case in tpu_cmem.CASES:
        name = f"TPUv4i, {case.workload} {case.scenario}, batch {case.batch}, gain by CMEM"
        rows.append(_event_row(name, case.published, tpu_cmem.speedup(case, Tiled()), cmem_gain(case), 2))
    return as_rows(["anchor", "published", "sums", "events", "error of sums", "of events"], rows)


def _event_row(name: str, published: float, sums: float, events: float, digits: int) -> list[str]:
    figures = [f"{figure:.{digits}f}" for figure in (published, sums, events)]
    return [name, *figures, *(f"{figure / published - 1:+.0%}" for figure in (sums, events))]


TABLES: dict[str, Callable[[], Rows]] = {
    "anchors": anchor_table,
    "anchors-nnp-i": nnp_i.bracket_table,
    "anchors-hbm": tpu_cmem.memory_table,
    "anchors-cmem": tpu_cmem.capacity_table,
    "anchors-event": event_table,
    "anchors-scale-sim": scale_sim_table,
}
"""Functions that make the tables, by the name of their markers."""


def measure(setting: Record) -> Record:
    """Return the rows of a table."""
    return {**setting, "rows": TABLES[setting["table"]]()}


def of(name: str) -> Render:
    """Return what shows a table."""

    def rows(records: Records) -> Rows:
        return next((record["rows"] for record in records if record["table"] == name), [])

    return table(heads, rows)


EXPERIMENTS = [
    Experiment(
        "anchors",
        __doc__,
        {f"docs/model.md#{name}": of(name) for name in TABLES},
        lambda records: [{"table": name} for name in TABLES],
        measure,
        key=("table",),
    )
]
