"""The judge's side of a run: it holds simulator, counter, clock and machine seed, and answers an agent over a pipe.

The agent is in another process (`contestant`), a new one for each run. Of what that sends, nothing is believed: plans
to measure are validated before they are measured and counted, messages are parsed as untrusted input and have to come
in time, wall time is that of this process, and processor time that which the operating system accounts to the agent's
process and all those below it.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from memplace_agents.built_in_agents import BUILT_IN
from memplace_env._lib.errors import LeaderboardError, PlanError, WorkerError
from memplace_env._lib.foreign import parse_json, shown
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_leaderboard.checks import latest_s
from memplace_leaderboard.contestant import traits_of
from memplace_leaderboard.enclosure import end_group, hide_memory
from memplace_leaderboard.entry import Point
from memplace_leaderboard.folder import LINE_BYTES, POINTS
from memplace_leaderboard.judge_pipe import MESSAGE_S, JudgePipe
from memplace_leaderboard.judged_machine import JudgedMachine
from memplace_leaderboard.remote_simulator import MEASURE

_SENTENCE: Final = 1000
"""Most characters of an error that is shown."""
LONGEST_S: Final = 3600.0
"""Wall time after which a run without a budget in seconds is given up. Our choice; the longest of ours took 62 s."""
START_S: Final = 600.0
"""Wall time in which the process that starts agents has to start one: it may compile kernels. Our choice."""
REPORTS: Final = 10**6
"""Most improvements that a run reports. Our choice."""


@dataclass(frozen=True)
class JudgedSearch:
    """One search of an agent, as the judge saw it.

    Attributes:
        plan: the plan that the agent returned; not validated yet.
        evaluations: plans: the agent's claim, and at least what the judge measured.
        seconds, processor_seconds: from when the agent's environment was made, and before its code was loaded.
        curve: the agent's claims of improvements, each with the judge's clock.
    """

    plan: MemoryPlan
    evaluations: int
    seconds: float
    processor_seconds: float
    curve: Sequence[Point]


class Judge:
    """Runs agents in processes of their own, and measures them."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._control: JudgePipe | None = None
        self._cold: set[str] = set()
        self._paths: list[str] = []
        self._end: Callable[[], Any] = lambda: None

    def describe(self, agent: str, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return name, formulations, budgeted and deterministic of an agent, as its process says.

        Raises:
            LeaderboardError: if it cannot be made.
        """
        if any(spec.name == agent for spec in BUILT_IN):
            return traits_of(agent, options)
        return self._ask({"do": "describe", "agent": agent, "options": dict(options)})

    def check(self, agent: str, options: Mapping[str, Any]) -> None:
        """Try an agent on small environments, see `check_agent`.

        Raises:
            LeaderboardError: if it breaks its contract.
        """
        self._ask({"do": "check", "agent": agent, "options": dict(options)})

    def search(
        self,
        agent: str,
        options: Mapping[str, Any],
        env_id: str,
        *,
        budget: int,
        seconds: float | None,
        seed: int,
        measurements: JudgedMachine | None = None,
        noisy: bool = False,
    ) -> JudgedSearch:
        """Let an agent search in a new process.

        Args:
            agent, options: name as in `memplace_agents.registry.agent_spec`, and arguments.
            env_id: the environment.
            budget, seconds, seed: as `Agent.solve` takes them.
            measurements: what answers the agent; None where it has the cost arrays.
            noisy: whether measurements of one plan differ.

        Raises:
            LeaderboardError: if the agent raises an exception, dies, finds no plan, or takes far more than its time.
        """
        request = {
            **{"do": "play", "agent": agent, "options": dict(options), "env_id": env_id, "budget": budget},
            **{"seconds": seconds, "seed": seed, "noisy": noisy, "measured": measurements is not None},
        }
        pipe, pid = self._start(request)
        try:
            claimed = _listen(pipe, measurements, LONGEST_S if seconds is None else latest_s(seconds))
        finally:
            used = self._account(pipe, pid)
        if used is None:
            raise LeaderboardError("it ended or stopped the process that starts agents, which knows its time.")
        return JudgedSearch(
            claimed.plan, claimed.evaluations, claimed.seconds, max(used - claimed.ready_s, 1e-6), claimed.curve
        )

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        pipe, pid = self._start(request)
        try:
            document = _document(_received(pipe, LONGEST_S))
        finally:
            self._account(pipe, pid)
        _require_no_error(document)
        return document

    def _account(self, pipe: JudgePipe, pid: int) -> float | None:
        """End a run; return the processor seconds of all of its processes, or None if nobody knows them."""
        pipe.close()
        end_group(pid)
        assert self._control is not None
        try:
            return float(json.loads(self._control.receive(MESSAGE_S))["processor_seconds"])
        except (EOFError, OSError):
            self.close()
            return None

    def _start(self, request: dict[str, Any]) -> tuple[JudgePipe, int]:
        """Start a run; return the pipe to it and its process id."""
        while True:
            if self._process is None or self._process.poll() is not None or self._paths != _paths():
                self.close()
                self._hire()
            assert self._process is not None
            assert self._control is not None
            pipe = JudgePipe()
            request["warm"] = request["agent"] not in self._cold
            try:
                self._control.send(json.dumps(request).encode())
                self._control.send_end(pipe.theirs)
                answer = json.loads(self._control.receive(START_S))
            except (EOFError, OSError):
                self.close()
                raise WorkerError(
                    "The process that starts agents died; give it more memory, and run it again."
                ) from None
            if "pid" in answer:
                return pipe, answer["pid"]
            # Preparing the agent started threads, which a forked process would wait for: import it, and run nothing.
            pipe.close()
            self._cold.add(request["agent"])
            self.close()

    def _hire(self) -> None:
        self._control, self._paths = JudgePipe(), _paths()
        with self._control.theirs as theirs:
            code = f"import sys; sys.path[:] = {self._paths!r}; "
            code += f"from memplace_leaderboard.contestant import serve; serve({theirs.fileno()})"
            # In a session of its own, no signal to the judge's group ends it before it has ended the agent.
            options: dict[str, Any] = {"pass_fds": [theirs.fileno()], "start_new_session": True}
            self._process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.DEVNULL, **options)
        self._end = weakref.finalize(self, _dismiss, self._process, self._control)
        hide_memory()

    def close(self) -> None:
        """End the process; the next run starts a new one."""
        self._end()
        self._process = self._control = None


@dataclass(frozen=True)
class _Claimed:
    plan: MemoryPlan
    evaluations: int
    seconds: float
    ready_s: float
    curve: Sequence[Point]


def _listen(pipe: JudgePipe, measurements: JudgedMachine | None, most_s: float) -> _Claimed:
    """Answer a run until it has a result; `most_s` is the wall time after which it is given up."""
    begin, ready_s, curve, reports = time.perf_counter(), None, list[Point](), 0
    while True:
        message = _received(pipe, most_s - (time.perf_counter() - begin))
        now = time.perf_counter()
        if message[:1] == MEASURE:
            if measurements is None:
                raise LeaderboardError("it asked for measurements where there are none.")
            try:
                pipe.send(measurements.answer(message[1:]))
            except OSError:
                raise LeaderboardError("it does not read the answers to its measurements.") from None
            continue
        document = _document(message)
        _require_no_error(document)
        if ready_s is None:  # the first message, sent before any code of the agent was loaded
            ready_s, begin = float(document["ready"]), time.perf_counter()
            if measurements is not None:
                measurements.begin()
            continue
        evaluations = document.get("evaluations")
        if type(evaluations) is not int or not 0 <= evaluations < 2**62:
            raise LeaderboardError("its number of evaluations is none.")
        if "plan" in document:
            counted = 0 if measurements is None else measurements.count
            return _Claimed(_plan(document), max(evaluations, counted), now - begin, ready_s, curve)
        latency_ps = document.get("latency_ps")
        if type(latency_ps) is int and 0 < latency_ps < 2**62 and len(curve) < POINTS:
            curve.append(Point(evaluations, now - begin, latency_ps))
        if (reports := reports + 1) > REPORTS:
            raise LeaderboardError(f"it reported more than {REPORTS:,} improvements.")


def _received(pipe: JudgePipe, left_s: float) -> bytes:
    try:
        return pipe.receive(left_s)
    except TimeoutError:
        raise LeaderboardError("it did not end long after its time was up, and was killed.") from None
    except (EOFError, OSError):
        raise LeaderboardError("its process died; run it by 'memplace solve' to see why.") from None


def _document(message: bytes) -> dict[str, Any]:
    try:
        document = parse_json(message) if len(message) <= LINE_BYTES else None
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise LeaderboardError("it sent something else than a result.")
    return document


def _require_no_error(document: Mapping[str, Any]) -> None:
    if "error" in document:
        said = shown(str(document["error"]), _SENTENCE)
        raise LeaderboardError(said if document.get("ours") else f"the agent raised {said.rstrip('.')}.")


def _plan(document: Mapping[str, Any]) -> MemoryPlan:
    if document["plan"] is None:
        raise LeaderboardError("no plan was found, though everything in the backing memory is one.")
    try:
        return MemoryPlan.from_document(document["plan"])
    except PlanError as error:
        raise LeaderboardError(f"its plan is not usable: {error}") from None


def _paths() -> list[str]:
    """Return the search path of modules; agents are loaded from it as it is when a run starts."""
    return [path or os.getcwd() for path in sys.path]


def _dismiss(process: subprocess.Popen[bytes], control: JudgePipe) -> None:
    control.close()
    process.send_signal(signal.SIGCONT)  # an agent may have stopped it
    try:
        process.wait(5.0)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
