"""Compare published figures with the event simulator's: rates of NNP-I, and gains by CMEM on TPUv4i."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.experiments import nnp_i, tpu_cmem
from benchmarks.harness import Rows, as_rows
from memplace_env.machine.accelerator.event_description import Mechanisms
from memplace_env.machine.costs.tiled import Tiled
from memplace_env.placement.compiler import native_report
from memplace_env.placement.simulator import EventSimulator


def images_per_s(tops: int, buffers: int) -> float:
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


def table() -> Rows:
    """Return a row for each published figure, sums and events under tiled costs."""
    rows = []
    for tops, published in nnp_i.PUBLISHED.items():
        sums = nnp_i.images_per_s(nnp_i.THROUGHPUT, tops, Tiled())
        for buffers in (1, 2):
            name = f"NNP-I at {tops} TOPS, images/s, tile buffers: {buffers}"
            rows.append(_row(name, published, sums, images_per_s(tops, buffers), 0))
    for case in tpu_cmem.CASES:
        name = f"TPUv4i, {case.workload} {case.scenario}, batch {case.batch}, gain by CMEM"
        rows.append(_row(name, case.published, tpu_cmem.speedup(case, Tiled()), cmem_gain(case), 2))
    return as_rows(["anchor", "published", "sums", "events", "error of sums", "of events"], rows)


def _row(name: str, published: float, sums: float, events: float, digits: int) -> list[str]:
    figures = [f"{figure:.{digits}f}" for figure in (published, sums, events)]
    return [name, *figures, *(f"{figure / published - 1:+.0%}" for figure in (sums, events))]
