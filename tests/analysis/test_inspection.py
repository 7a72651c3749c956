"""What a program asks of a chip's memories adds up, and agrees with the simulator."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings

from memplace_env.accelerator import Accelerator, load_accelerator
from memplace_env.analysis import all_backing_baseline, inspect_task
from memplace_env.resolve import make_task
from memplace_env.testing.strategies import accelerators, programs
from memplace_env.workload.program import Program
from memplace_env.workload.synthetic import planted, random_dag


def test_it_adds_up() -> None:
    program = random_dag(5, ops=20)
    values = inspect_task(make_task(program, load_accelerator("nnp-i")), ("batch",)).to_json()
    assert values["ops"] == 20 == sum(kind["ops"] for kind in values["op_types"])
    assert values["moved_bytes"] == program.use_bytes.sum()
    backing, fastest = values["extremes"]["backing"], values["extremes"]["fastest"]
    assert (backing["level"], fastest["level"]) == ("DRAM", "SRAM")
    assert backing["latency_s"] >= fastest["latency_s"] >= values["compute_s"]
    assert sum(kind["backing"]["memory_bound_ops"] for kind in values["op_types"]) == backing["memory_bound_ops"]
    assert 0 <= backing["memory_bound_share"] <= 1
    json.dumps(values, allow_nan=False)


@settings(max_examples=40)
@given(programs(), accelerators())
def test_all_in_the_backing_memory_is_what_the_simulator_says(program: Program, chip: Accelerator) -> None:
    task = make_task(program, chip)
    backing, report = inspect_task(task).backing, all_backing_baseline(task).report
    np.testing.assert_array_equal(backing.time_ps, report.op_time_ps)
    np.testing.assert_array_equal(backing.memory_bound, report.bound_by == chip.backing)


def test_a_planted_program() -> None:
    """Its compute time is what its traffic takes, so in the backing memory it is slower and memory-bound."""
    program = planted("chain", ops=12).program
    found = inspect_task(make_task(program, load_accelerator("nnp-i")))
    assert found.backing.memory_bound.any()
    assert found.intensity == pytest.approx(float(program.vector_ops.sum() / found.op_bytes.sum()))
