"""Running an agent with a progress bar, so that Ctrl-C always works."""

from __future__ import annotations

from threading import Event
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.progress import BarColumn, MofNCompleteColumn, ProgressColumn, SpinnerColumn, Task, TimeElapsedColumn
from rich.progress import Progress as Bar
from rich.text import Text

from memplace_env._lib.compilation import announcing
from memplace_env._lib.errors import AgentError
from memplace_env._lib.foreign import shown
from memplace_env.cli.console import stderr
from memplace_env.cli.environments import baseline_of
from memplace_env.cli.interrupts import in_thread
from memplace_env.report.quantities import percent, ratio

if TYPE_CHECKING:
    from memplace_agents import Agent, Progress, Solution
    from memplace_env.cli.environments import Env


class Limits(NamedTuple):
    """Limits of a search.

    Attributes:
        budget: plans to evaluate at most.
        seed: seed of all randomness.
        time_limit: seconds at most, or None.
        workers: processes in which a black box evaluates plans.
    """

    budget: int
    seed: int
    time_limit: float | None = None
    workers: int = 1

    def arguments(self) -> dict[str, Any]:
        """Return keyword arguments of `Agent.solve`; agents of third parties may take no `workers`."""
        arguments = self._asdict()
        if self.workers == 1:
            del arguments["workers"]
        return arguments


def search(
    agent: Agent[Any],
    env: Env,
    limits: Limits,
    *,
    noise: float = 0.0,
    beside: str = "",
    left: str = "nothing was written",
) -> Solution:
    """Let the agent solve the environment and show its progress over the baseline on stderr.

    The first interrupt ends only the search, with the best plan so far, except for agents of third parties without a
    true attribute `anytime`; a second one, or one before there is a plan, ends the process.

    Args:
        agent: the agent.
        env: the environment.
        limits: budget, seed, time and workers.
        noise: noise of the agent's measurements, see `MeasurementNoise`.
        beside: shown behind the best speed-up.
        left: a few words on what is left after an interrupt.

    Raises:
        AgentError: from the agent, or if it returns no solution.
        EnvError: if there is no such noise.
    """
    from memplace_agents import Solution
    from memplace_env.envs.wrappers import MeasurementNoise

    measured = MeasurementNoise(env, noise) if noise else env
    stop, baseline = Event(), baseline_of(env)
    budgeted = getattr(agent, "budgeted", True)
    with new_bar(budgeted) as bar:
        line = bar.add_task(f"{agent.name} searches", total=limits.budget if budgeted else None)

        def report(progress: Progress) -> None:
            if stop.is_set():
                raise KeyboardInterrupt
            best = ratio(baseline.report.latency_s / progress.latency_s)
            text = f"{agent.name}: best {best} over {baseline.name}{beside}"
            if progress.bound_s:
                text += f", at most {percent(progress.latency_s / progress.bound_s - 1)} above the optimum"
            bar.update(line, completed=progress.evaluations, description=text)

        def compiled(count: int) -> None:
            bar.update(line, description=f"{agent.name} searches; {count} functions compiled first")

        with announcing(compiled):
            solution = in_thread(
                lambda: agent.solve(measured, **limits.arguments(), callback=report),
                bar,
                lambda: left,
                stop if getattr(agent, "anytime", False) else None,
            )
    if not isinstance(solution, Solution):
        raise AgentError(f"{agent.name} returned {type(solution).__name__}, which is not a memplace_agents.Solution.")
    return solution


def new_bar(counted: bool) -> Bar:
    """Return a progress bar on stderr, shown on terminals only; `counted` if its end is known."""
    console = stderr()
    columns: list[ProgressColumn] = [SpinnerColumn(), _Description()]
    columns += [BarColumn(), MofNCompleteColumn()] if counted else []
    return Bar(*columns, TimeElapsedColumn(), console=console, transient=True, disable=not console.is_terminal)


class _Description(ProgressColumn):
    """The description of a line, without markup."""

    def render(self, task: Task) -> Text:
        """Return the text."""
        return Text(shown(task.description))
