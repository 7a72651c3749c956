"""The replay agrees with the simulator about every copy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from memplace_env.accelerator import Accelerator
from memplace_env.compiler import compile_mapping
from memplace_env.plan import MemoryPlan
from memplace_env.simulator import Report, cost_tables, simulate
from memplace_env.views.timeline import timeline
from memplace_env.workload.program import Program
from tests.strategies import accelerators, mappings, programs
from tests.views.conftest import Subject


def check(program: Program, chip: Accelerator, plan: MemoryPlan, report: Report) -> None:
    """Every copy gets exactly its demand, none at the same time as another or as the op's own traffic."""
    played = timeline(program, chip, plan, report)
    costs = cost_tables(program, chip)
    got = np.zeros(len(plan.transfers), dtype=np.int64)
    clock = 0
    for service in played.services:
        assert clock <= service.begin < service.end <= report.latency_ps
        clock = service.end
        got[service.transfer] += service.end - service.begin
        op = int(np.searchsorted(played.op_begin[:-1], service.begin, side="right")) - 1
        if service.begin < played.op_begin[-1] and service.begin < played.op_begin[op] + report.op_time_ps[op]:
            assert service.begin >= played.op_begin[op] + report.port_ps[op, -1]
        assert service.begin >= played.op_begin[plan.transfers[service.transfer, 3]]
    tensor, source = plan.transfers[:, 0], plan.transfers[:, 1]
    demand = np.where(source == chip.backing, costs.prefetch_ps[tensor], costs.writeback_ps[tensor])
    np.testing.assert_array_equal(got, demand)


def test_handmade_plan(copies: Subject) -> None:
    check(*copies)
    played = timeline(*copies)
    late = played.stalled_by(2, int(copies.report.stall_ps[2]))
    assert [copies.program.tensor_name[copies.plan.transfers[copy, 0]] for copy in late] == ["w2"]


@settings(max_examples=40)
@given(st.data())
def test_hurried_copies(data: st.DataObject) -> None:
    """Compiled plans never stall; with their windows cut to one op many do."""
    program, chip = data.draw(programs()), data.draw(accelerators(weights="streamed"))
    plan = compile_mapping(program, chip, data.draw(mappings(program, chip))).plan
    transfers = plan.transfers.copy()
    transfers[:, 3] = transfers[:, 4]
    hurried = replace(plan, transfers=transfers)
    check(program, chip, hurried, simulate(program, chip, hurried))
