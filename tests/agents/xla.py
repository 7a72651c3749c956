"""A hand-made machine for XLA's solver, and what its plans do with a tensor."""

from dataclasses import replace

from hypothesis import strategies as st

from memplace_agents.xla_msa import PUBLIC_SETS, MsaOptions, assign
from memplace_env.machine.accelerator import Accelerator, MemoryLevel
from memplace_env.placement.resolve_task import make_task
from tests.strategies import accelerators

NS = 1000
"""Picoseconds. On the hand-made machine a byte of backing memory takes one nanosecond, and so does a vector op."""
OPEN = MsaOptions()
OPTIONS = {each.name: each.options for each in PUBLIC_SETS}


def machine(capacity=100, **changes):
    levels = tuple(
        MemoryLevel(name, size, rate, rate, latency_ps=0, pj_per_byte=1.0)
        for name, size, rate in [("fast", capacity, 10**10), ("backing", 2**30, 10**9)]
    )
    chip = Accelerator(
        name="hand-made",
        description="",
        ports="serial",
        weights="streamed",
        fusion="none",
        dtype="int8",
        matrix_macs_per_s={"int8": 10**9},
        vector_ops_per_s={"int8": 10**9},
        mac_pj={"int8": 0.1},
        vector_pj={"int8": 0.1},
        op_overhead_ps=0,
        static_power_w=1.0,
        dma_efficiency=1.0,
        systolic=None,
        levels=levels,
    )
    return replace(chip, **changes)


def task_of(program, capacity=100, **changes):
    return make_task(program, machine(capacity, **changes))


def assigned(program, options=OPEN, order=None):
    """The plan on the hand-made machine."""
    return assign(task_of(program), options, order)


@st.composite
def two_levels(draw):
    chip = draw(accelerators())
    return replace(chip, levels=(chip.levels[0], chip.levels[-1]))


def transfers(plan, tensor):
    return [tuple(row[1:]) for row in plan.transfers.tolist() if row[0] == tensor]


def blocks(plan, tensor):
    return [tuple(row[2:]) for row in plan.allocations.tolist() if row[0] == tensor]
