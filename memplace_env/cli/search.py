"""Running an agent with a progress bar, so that Ctrl-C always works."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from concurrent.futures import Future
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from rich.progress import BarColumn, MofNCompleteColumn, ProgressColumn, SpinnerColumn, Task, TimeElapsedColumn
from rich.progress import Progress as Bar
from rich.text import Text

from memplace_env.cli.console import note, stderr
from memplace_env.cli.environments import baseline_of
from memplace_env.errors import AgentError
from memplace_env.foreign import shown
from memplace_env.views.text.quantities import percent, ratio

if TYPE_CHECKING:
    from agents import Agent, Progress, Solution
    from memplace_env.cli.environments import Env

_INTERRUPTED = 130

T = TypeVar("T")


class Limits(NamedTuple):
    """How far a search goes: plans to evaluate and seconds to spend at most, what all randomness comes from, and in
    how many processes a black box judges."""

    budget: int
    seed: int
    time_limit: float | None = None
    workers: int = 1

    def arguments(self) -> dict[str, Any]:
        """Keyword arguments of `Agent.solve`; agents of others need not know of workers."""
        given = self._asdict()
        return given if self.workers > 1 else {name: given[name] for name in given if name != "workers"}


def search(
    agent: Agent[Any],
    env: Env,
    limits: Limits,
    *,
    noise: float = 0.0,
    compared: str = "",
    kept: str = "nothing was written",
) -> Solution:
    """Let the agent solve the environment and show on stderr how far it is above the baseline.

    The first interrupt ends only the search, with the best plan so far, but for agents of others without a true
    attribute `anytime`; a second one, or one before there is a plan, ends the process.

    Args:
        agent: who searches.
        env: where.
        limits: how far.
        noise: of what the agent measures, see `MeasurementNoise`.
        compared: what is shown behind the best speed-up.
        kept: what is left after an interrupt.

    Raises:
        AgentError: what the agent raises, or if it returns no solution.
        EnvError: if there is no such noise.
    """
    from agents import Solution
    from memplace_env.wrappers import MeasurementNoise

    measured = MeasurementNoise(env, noise) if noise else env

    stop, baseline = Event(), baseline_of(env)
    budgeted = getattr(agent, "budgeted", True)
    with new_bar(budgeted) as bar:
        shown = bar.add_task(f"{agent.name} searches", total=limits.budget if budgeted else None)

        def progressed(progress: Progress) -> None:
            if stop.is_set():
                raise KeyboardInterrupt
            best = ratio(baseline.report.latency_s / progress.latency_s)
            told = f"{agent.name}: best {best} over {baseline.name}{compared}"
            if progress.bound_s:
                told += f", at most {percent(progress.latency_s / progress.bound_s - 1)} above the optimum"
            bar.update(shown, completed=progress.evaluations, description=told)

        solution = in_thread(
            lambda: agent.solve(measured, **limits.arguments(), callback=progressed),
            bar,
            lambda: kept,
            stop if getattr(agent, "anytime", False) else None,
        )
    if not isinstance(solution, Solution):
        raise AgentError(f"{agent.name} returned {type(solution).__name__}, which is no agents.Solution.")
    return solution


def new_bar(counted: bool) -> Bar:
    """A progress bar on stderr, shown on terminals only; `counted` if it is known where it ends."""
    console = stderr()
    columns: list[ProgressColumn] = [SpinnerColumn(), _Description()]
    columns += [BarColumn(), MofNCompleteColumn()] if counted else []
    return Bar(*columns, TimeElapsedColumn(), console=console, transient=True, disable=not console.is_terminal)


class _Description(ProgressColumn):
    """What a task says of itself, shown as it is."""

    def render(self, task: Task) -> Text:
        """The text."""
        return Text(shown(task.description))


def in_thread(work: Callable[[], T], bar: Bar, kept: Callable[[], str], stop: Event | None = None) -> T:
    """Work beside the main thread, which alone hears Ctrl-C, even while a solver's compiled code runs.

    An interrupt ends the process; `kept` then says what is left. With `stop`, the first one sets that instead.
    """
    result: Future[T] = Future()

    def run() -> None:
        try:
            result.set_result(work())
        except BaseException as error:
            result.set_exception(error)

    thread = Thread(target=run, name="memplace-search", daemon=True)
    try:
        try:
            thread.start()
            return result.result()
        except KeyboardInterrupt:
            if stop is None or thread.ident is None:
                raise
            stop.set()
            note("interrupted; the best plan so far is kept. Press Ctrl-C again to give it up.")
            return result.result()
    except KeyboardInterrupt:
        bar.stop()
        sys.stderr.write(f"memplace: interrupted, {kept()}.\n")
        sys.stderr.flush()
        # A solver cannot be told to return, and ending the interpreter in order would wait for it or crash in it.
        os._exit(_INTERRUPTED)
