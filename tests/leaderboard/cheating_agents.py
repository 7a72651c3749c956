"""Agents that cheat, for `test_judge`: each once passed as honest."""

import ctypes
import gc
import os
import resource
import signal
import stat
import struct
import time
from contextlib import suppress
from pathlib import Path

import numpy as np

from memplace_agents import Agent
from memplace_env.envs.registration import Formulation
from memplace_env.placement.compiler import HEURISTICS, native_plan
from memplace_env.placement.simulator import evaluate_plan
from memplace_leaderboard.pinned import make_env


class Cheat(Agent):
    """Base of the others: plays one-shot environments."""

    formulations = (Formulation.ONE_SHOT,)


class BehindItsBack(Cheat):
    """Times tens of thousands of plans on another copy, and asks for one."""

    name = "behind its back"

    def run(self, evaluator, seed):
        own = make_env(evaluator.env.spec.id)
        rng, problem = np.random.default_rng(seed), own.problem
        tried = rng.integers(problem.accelerator.num_levels, size=(50_000, problem.num_decisions))
        best = tried[own.score(tried)[1].latency_s.argmin()]
        evaluator(best[None])


class CounterReset(Cheat):
    """Measures as often as it likes, and sets every counter that it finds back."""

    name = "counter reset"

    def run(self, evaluator, seed):
        task, plan = evaluator.env.task, native_plan(evaluator.env.task)
        for _ in range(30):
            try:
                evaluate_plan(task, plan)
            except Exception:
                break
            task.simulator.measured = evaluator.evaluations = evaluator.env.problem.evaluated = 0
        evaluator.evaluations = 0
        evaluator._best_plan, evaluator._best_latency = plan, 1.0
        evaluator._race = None


class ClockPatch(Cheat):
    """Stops the clocks of its process, and takes its time."""

    name = "clock patch"

    def run(self, evaluator, seed):
        time.perf_counter = time.process_time = time.monotonic = lambda: 0.0
        while resource.getrusage(resource.RUSAGE_SELF).ru_utime < 4.0:
            evaluator(evaluator.env.problem.native_assignment[None])


FOUND = []
"""Plans that `WarmCache` keeps for later seeds."""


class WarmCache(Cheat):
    """Searches with the first seed, and knows the result with all others."""

    name = "warm cache"

    def run(self, evaluator, seed):
        plan = FOUND[0] if FOUND else native_plan(evaluator.env.task)
        FOUND.append(HEURISTICS["all-fastest"](evaluator.env.task))
        evaluator.offer(plan)


class FactorReader(Cheat):
    """Looks for the machine and its seed in all objects, and in the folder `LEADERBOARD_OUT`."""

    name = "factor reader"

    def run(self, evaluator, seed):
        found = [each for each in gc.get_objects() if hasattr(type(each), "additive_task")]
        found += [name for name in vars(evaluator.env.task.simulator) if "seed" in name or "machine" in name]
        folder = Path(os.environ.get("LEADERBOARD_OUT", "/nowhere"))
        texts = [path.read_bytes() for path in folder.glob("*") if path.is_file()]
        found += [text for text in texts if b"machine_seeds" in text or b"latency_ps" in text]
        evaluator.offer(native_plan(evaluator.env.task))
        if found:
            raise RuntimeError(f"found {len(found)}: {found[0]!r:.60}")


class Fork(Cheat):
    """Leaves a process behind, to search on while others are judged."""

    name = "fork"

    def run(self, evaluator, seed):
        if os.fork() == 0:
            Path(os.environ["LEADERBOARD_OUT"], "pid").write_text(str(os.getpid()))
            time.sleep(60)
            os._exit(0)
        evaluator.offer(native_plan(evaluator.env.task))


class Death(Cheat):
    """Ends its process in the middle."""

    name = "death"

    def run(self, evaluator, seed):
        os._exit(3)


class Pretender(Cheat):
    """Returns a solution with another plan than it evaluated, and no evaluations."""

    name = "pretender"

    def solve(self, env, *, budget=100, seed=0, callback=None, time_limit=None):
        solution = super().solve(env, budget=budget, seed=seed, callback=callback, time_limit=time_limit)
        object.__setattr__(solution, "evaluations", 0)
        return solution

    def run(self, evaluator, seed):
        evaluator(np.repeat(evaluator.env.problem.native_assignment[None], 8, axis=0))


WORK_S = 0.4
"""Processor seconds that a helper works."""


def work():
    begin = time.process_time()
    while time.process_time() - begin < WORK_S:
        pass


def pipe_to_the_judge():
    for handle in range(3, 100):
        with suppress(OSError):
            if stat.S_ISSOCK(os.fstat(handle).st_mode):
                return handle
    raise RuntimeError("there is none")


class Helped(Cheat):
    """Has a process work in its place, which it does not wait for."""

    name = "helped"

    def run(self, evaluator, seed):
        read, write = os.pipe()
        self.start(write)
        os.read(read, 1)
        time.sleep(0.1)
        evaluator.offer(native_plan(evaluator.env.task))

    def start(self, write):
        if os.fork() == 0:
            self.help(write)

    def help(self, write):
        work()
        os.write(write, b"x")
        os._exit(0)


class Orphan(Helped):
    """The same with a process that is nobody's child, in a session of its own, and does not end."""

    name = "orphan"

    def start(self, write):
        child = os.fork()
        if child == 0:
            os.setsid()
            if os.fork() == 0:
                Path(os.environ["LEADERBOARD_OUT"], "pid").write_text(str(os.getpid()))
                self.help(write)
            os._exit(0)
        os.waitpid(child, 0)

    def help(self, write):
        work()
        os.write(write, b"x")
        time.sleep(600)


class Ignored(Helped):
    """The same with a process whose end is reported to nobody."""

    name = "ignored"

    def start(self, write):
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        super().start(write)


class Waiting(Orphan):
    """The same, and never returns."""

    name = "waiting"

    def run(self, evaluator, seed):
        self.start(os.pipe()[1])
        time.sleep(600)


class Sender(Cheat):
    """Sends something that is no message, or without end."""

    def run(self, evaluator, seed):
        self.send(pipe_to_the_judge())
        time.sleep(600)


class HalfMessage(Sender):
    """Announces 1,000 bytes, and sends one."""

    name = "half message"

    def send(self, pipe):
        os.write(pipe, struct.pack("!i", 1000) + b"x")


class Drip(Sender):
    """Announces 1,000 bytes, and sends them one by one."""

    name = "drip"

    def send(self, pipe):
        os.write(pipe, struct.pack("!i", 1000))
        while True:
            os.write(pipe, b"x")
            time.sleep(0.1)


class Flood(Sender):
    """Reports improvements for ever."""

    name = "flood"

    def send(self, pipe):
        message = b'{"evaluations": 1, "latency_ps": 5}'
        while True:
            os.write(pipe, (struct.pack("!i", len(message)) + message) * 1000)


class Frozen(Sender):
    """Stops itself."""

    name = "frozen"

    def send(self, pipe):
        os.kill(os.getpid(), signal.SIGSTOP)


class Deaf(Cheat):
    """Asks for measurements, and reads none."""

    name = "deaf"

    def run(self, evaluator, seed):
        judge = evaluator.env.task.simulator._judge
        judge.recv_bytes = lambda: b"m"
        while True:
            evaluator.env.task.simulator.run_batch(None, None, [native_plan(evaluator.env.task)] * 50)


class Assassin(Cheat):
    """Ends the process that started it, which knows its time."""

    name = "assassin"
    signal = signal.SIGKILL

    def run(self, evaluator, seed):
        os.kill(os.getppid(), self.signal)
        evaluator.offer(native_plan(evaluator.env.task))


class Hypnotist(Assassin):
    """Stops it."""

    name = "hypnotist"
    signal = signal.SIGSTOP


class Burglar(Cheat):
    """Opens the memory of that process, and takes its pipes."""

    name = "burglar"

    def run(self, evaluator, seed):
        server, found = os.getppid(), []
        try:
            Path(f"/proc/{server}/mem").open("r+b").close()
            found.append("memory")
        except OSError:
            pass
        handle = os.pidfd_open(server)
        pidfd_getfd = 438
        found += [str(each) for each in range(3, 30) if ctypes.CDLL(None).syscall(pidfd_getfd, handle, each, 0) >= 0]
        raise RuntimeError(f"found {found}")
