"""The process that agents run in: a clean one, forked anew for each run, with the public side of the environment.

`serve` is the main loop of a process that never runs a third party's code. It loads the package, the program and the
kernels, and forks a child for each run. A child makes the environment, says so, and only then loads the agent. What it
sends is a claim; the judge counts, times and validates by itself (`judge`).
"""

from __future__ import annotations

import gc
import importlib
import json
import math
import os
import signal
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.reduction import recv_handle
from typing import Any, Final

from memplace_agents.built_in_agents import BUILT_IN, load
from memplace_agents.registry import agent_spec
from memplace_env._lib.errors import MemPlaceError
from memplace_env._lib.units import PS
from memplace_env.envs.registration import Formulation, formulation_of_id
from memplace_env.placement.compiler import all_backing_report, native_report
from memplace_env.testing import check_agent
from memplace_leaderboard.enclosure import ProcessTimes, adopt_orphans, die_with, end_group, fence, hide_memory
from memplace_leaderboard.pinned import make_env, task_of
from memplace_leaderboard.remote_simulator import RemoteSimulator

_POLL_S: Final = 0.02
"""Seconds between two looks whether a child has ended, or the judge."""
WARM_PLANS: Final = 100
"""Plans of the search that prepares a kind of run: enough for every kernel to be loaded. Our choice."""
Request = dict[str, Any]


def serve(handle: int) -> None:
    """Run each request in a child of its own until the judge closes its end: the main loop of the process."""
    hide_memory()
    adopt_orphans()
    control, warm = Connection(handle), _Warmth()
    if hasattr(os, "sched_setaffinity"):  # budgets are seconds of one core
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[os.getpid() % len(cores)]})
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the judge ends the runs
    while True:
        try:
            request = json.loads(control.recv_bytes())
            pipe = recv_handle(control)
        except (EOFError, OSError):
            return
        if not warm.ready(request):
            os.close(pipe)
            if not _told(control, {"threads": True}):
                return
            continue
        gc.collect()
        gc.freeze()
        server, child = os.getpid(), os.fork()
        if child == 0:
            control.close()
            die_with(server)
            fence()
            _run(request, Connection(pipe))
        os.close(pipe)
        _group(child)
        ended = _waited(child, control)
        if ended is None or not _told(control, ended):
            return


def _waited(child: int, control: Connection) -> dict[str, float] | None:
    """Name a child to the judge, and wait for its end.

    Returns:
        The processor time of the child and of all processes that were started below it; None if the judge has ended, as
        have they then.
    """
    times, here, ended = ProcessTimes(), _told(control, {"pid": child}), 0
    while here and ended != child:
        ended = times.wait()
        # The judge says nothing while a child runs, so that this is its end.
        here = bool(ended) or not control.poll(_POLL_S)
    end_group(child)
    times.sweep()
    return {"processor_seconds": times.seconds} if here else None


def _group(process: int) -> None:
    """Make a process the head of a group of its own, unless it has done so or ended."""
    with suppress(ProcessLookupError, PermissionError):
        os.setpgid(process, process)


class _Warmth:
    """Kinds of runs that were prepared, so that loading and compiling is in no run's time."""

    def __init__(self) -> None:
        self._kinds: set[str] = set()
        self._threads = _threads()

    def ready(self, request: Request) -> bool:
        """Prepare for a request; return whether a child may be forked: no thread was started on the way."""
        with suppress(Exception):  # the run itself says what is wrong
            self._prepare(request)
        return _threads() <= self._threads

    def _prepare(self, request: Request) -> None:
        own = next((spec for spec in BUILT_IN if spec.name == request["agent"]), None)
        if own is not None and own.lacking is None:
            for module in own.needs:
                importlib.import_module(module)
            load(own.home)
        if request["do"] != "play":
            return
        env_id = request["env_id"]
        chip = task_of(env_id).accelerator.name
        kind = json.dumps([request["agent"], request["options"], formulation_of_id(env_id), chip])
        if request["warm"] and kind not in self._kinds:
            self._kinds.add(kind)
            agent = "native" if own is None or "policy" in request["options"] else request["agent"]
            options = request["options"] if agent == request["agent"] else {}
            agent_spec(agent).make(**options).solve(make_env(env_id), budget=WARM_PLANS, seed=0, time_limit=1.0)


def _threads() -> int:
    """Return the number of threads of this process; 1 where that cannot be known."""
    try:
        return len(os.listdir("/proc/self/task"))
    except OSError:
        return 1


def _run(request: Request, judge: Connection) -> None:
    """Serve one request, and end the process."""
    code = 1
    try:
        os.setpgid(0, 0)
        document = _DOING[request["do"]](request, judge)
        _send(judge, document)
        code = 0
    except MemPlaceError as error:
        _send(judge, {"error": str(error), "ours": True})
    except BaseException as error:  # whatever a third party's code may raise
        _send(judge, {"error": f"{type(error).__name__}: {' '.join(str(error).split())}"[:2000], "ours": False})
    finally:
        os._exit(code)


def _describe(request: Request, judge: Connection) -> dict[str, Any]:
    return traits_of(request["agent"], request["options"])


def traits_of(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return name, formulations, budgeted and deterministic of an agent, which is loaded and made.

    Raises:
        AgentError: if there is no such agent, or it takes no such option.
    """
    spec = agent_spec(name)
    agent = spec.make(**options)
    return {
        "name": str(agent.name),
        "formulations": [str(kind) for kind in spec.formulations],
        "budgeted": bool(getattr(agent, "budgeted", True)),
        "deterministic": bool(getattr(agent, "deterministic", False)),
    }


def _check(request: Request, judge: Connection) -> dict[str, Any]:
    check_agent(agent_spec(request["agent"]).make(**request["options"]))
    return {}


def _play(request: Request, judge: Connection) -> dict[str, Any]:
    """Let the agent search; improvements are sent as they are found."""
    simulator = RemoteSimulator(judge, request["noisy"]) if request["measured"] else None
    env: Any = make_env(request["env_id"], simulator)
    if simulator is not None:  # the baseline is free
        (all_backing_report if env.formulation is Formulation.GAME else native_report)(env.task)
    before = int(env.problem.evaluated)
    _send(judge, {"ready": time.process_time()})
    best: list[float] = []

    def report(progress: Any) -> None:
        if math.isfinite(progress.latency_s) and best != [progress.latency_s]:
            best[:] = [progress.latency_s]
            _send(judge, {"evaluations": int(progress.evaluations), "latency_ps": round(progress.latency_s / PS)})

    agent = agent_spec(request["agent"]).make(**request["options"])
    budget, limit = request["budget"], request["seconds"]
    solution = agent.solve(env, budget=budget, seed=request["seed"], time_limit=limit, callback=report)
    counted = 0 if simulator is not None else int(env.problem.evaluated) - before
    return {
        "plan": None if solution.plan is None else json.loads(solution.plan.to_json()),
        "evaluations": max(int(solution.evaluations), counted),
    }


_DOING: Final[dict[str, Callable[[Request, Connection], dict[str, Any]]]] = {
    "describe": _describe,
    "check": _check,
    "play": _play,
}


def _told(judge: Connection, document: dict[str, Any]) -> bool:
    """Send a document; return False if the judge has ended."""
    try:
        _send(judge, document)
    except OSError:
        return False
    return True


def _send(pipe: Connection, document: dict[str, Any]) -> None:
    pipe.send_bytes(json.dumps(document).encode())
