"""Running an agent with a progress bar, so that Ctrl-C always works."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from threading import Event, Thread
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

from memplace_env.cli.console import note, stderr
from memplace_env.views.units import ratio

if TYPE_CHECKING:
    import gymnasium as gym

    from agents import Agent, Progress, Solution

_INTERRUPTED = 130

T = TypeVar("T")


def search(
    agent: Agent,
    env: gym.Env[Any, Any],
    baseline: str,
    baseline_s: float,
    *,
    budget: int,
    seed: int,
    time_limit: float | None,
    kept: str = "nothing was written",
    rivals: Mapping[str, float] = MappingProxyType({}),
) -> Solution:
    """Let the agent solve the environment and show on stderr how far it is above the baseline.

    `rivals` are others' speed-ups, shown beside it; `kept` says what is left if somebody interrupts it. An agent with a
    true attribute `anytime` then returns what it has; only a second interrupt ends the process.
    """
    stop = Event()
    with new_bar(agent.budgeted) as bar:
        others = f" ({rivals_line(rivals)})" if rivals else ""
        shown = bar.add_task(f"{agent.name} searches", total=budget if agent.budgeted else None)

        def progressed(progress: Progress) -> None:
            if stop.is_set():
                raise KeyboardInterrupt
            best = ratio(baseline_s / progress.latency_s)
            told = f"{agent.name}: best {best} over {baseline}{others}"
            bar.update(shown, completed=progress.evaluations, description=told)

        return in_thread(
            lambda: agent.solve(env, budget=budget, seed=seed, callback=progressed, time_limit=time_limit),
            bar,
            lambda: kept,
            stop if getattr(agent, "anytime", False) else None,
        )


def rivals_line(rivals: Mapping[str, float]) -> str:
    """Others' speed-ups in a line."""
    return ", ".join(f"{name} {ratio(speedup)}" for name, speedup in rivals.items())


def new_bar(counted: bool) -> Bar:
    """A progress bar on stderr, shown on terminals only; `counted` if it is known where it ends."""
    console = stderr()
    columns = [SpinnerColumn(), TextColumn("{task.description}")]
    columns += [BarColumn(), MofNCompleteColumn()] if counted else []
    return Bar(*columns, TimeElapsedColumn(), console=console, transient=True, disable=not console.is_terminal)


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

    Thread(target=run, name="memplace-search", daemon=True).start()
    try:
        try:
            return result.result()
        except KeyboardInterrupt:
            if stop is None:
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
