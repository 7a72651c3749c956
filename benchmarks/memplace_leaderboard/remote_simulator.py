"""The simulator that an agent meets in a black-box track: the judge's, at the other end of a pipe."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import replace
from multiprocessing.connection import Connection

from memplace_env._lib.errors import SimulatorError
from memplace_env.machine.accelerator import Accelerator
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.simulator_report import Report
from memplace_env.program.program import Program
from memplace_leaderboard.plan_wire import to_bytes

MEASURE, MEASURED, REFUSED = b"M", b"m", b"r"
"""First bytes of a request to measure plans, and of both answers: what was measured, and a sentence."""
RESULT = struct.Struct("<qd")
"""Latency in ps and energy in joules of one plan."""


class RemoteSimulator:
    """Asks the judge to measure plans, and reports latency and energy, and no more.

    It holds a pipe: neither a machine, nor a seed, nor a counter that anybody reads.

    Args:
        judge: the pipe.
        noisy: whether measurements of one plan differ.
    """

    def __init__(self, judge: Connection, noisy: bool) -> None:
        self._judge, self.noisy = judge, noisy

    def run(self, program: Program, accelerator: Accelerator, plan: MemoryPlan) -> Report:
        """Measure a valid plan."""
        return self.run_batch(program, accelerator, [plan])[0]

    def run_batch(self, program: Program, accelerator: Accelerator, plans: Sequence[MemoryPlan]) -> list[Report]:
        """Measure valid plans.

        Raises:
            SimulatorError: with the judge's sentence, if it refuses.
        """
        self._judge.send_bytes(MEASURE + to_bytes(plans))
        answer = self._judge.recv_bytes()
        if answer[:1] != MEASURED:
            raise SimulatorError(answer[1:].decode())
        return [_report(*each) for each in RESULT.iter_unpack(answer[1:])]


def _report(latency_ps: int, energy_j: float) -> Report:
    """Return a report of latency and energy, exact to the picosecond."""
    return replace(Report.measured(1, energy_j=energy_j), latency_ps=latency_ps)
