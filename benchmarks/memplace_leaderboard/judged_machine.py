"""The machine of a run in a black-box track: the judge measures valid plans on it, and counts them."""

from __future__ import annotations

from memplace_env._lib.errors import LeaderboardError
from memplace_env.placement.task import Task
from memplace_env.placement.validation import violations
from memplace_leaderboard.drawn_machines import MeasuredMachine
from memplace_leaderboard.plan_wire import from_bytes
from memplace_leaderboard.remote_simulator import MEASURED, REFUSED, RESULT


class JudgedMachine:
    """The machine of a run, and the count of what it measured.

    Args:
        machine: the simulator.
        task: task of the environment.
        most: plans that may be measured after the free baselines; None for any number.
    """

    def __init__(self, machine: MeasuredMachine, task: Task, most: int | None) -> None:
        self._machine, self._task, self._most = machine, task, most
        self._free: int | None = None

    @property
    def count(self) -> int:
        """Plans measured since `begin`."""
        return self._machine.measured - (self._free or 0)

    def begin(self) -> None:
        """Count from here: what was measured before is the baseline, which is free."""
        self._free = self._machine.measured

    def answer(self, request: bytes) -> bytes:
        """Return the answer to a request to measure plans."""
        try:
            plans = from_bytes(request, self._task)
        except LeaderboardError as error:
            return REFUSED + str(error).encode()
        limited = self._most is not None and self._free is not None
        if limited and self.count + self._machine.cost(plans) > (self._most or 0):
            return REFUSED + f"the budget is {self._most} measurements, which are spent.".encode()
        for plan in plans:
            broken = violations(self._task, plan)
            if broken:
                return REFUSED + f"a plan cannot run: {broken[0].message}".encode()
        reports = self._machine.run_batch(self._task.program, self._task.accelerator, plans)
        return MEASURED + b"".join(RESULT.pack(report.latency_ps, report.energy_j) for report in reports)
