"""Running an agent with a progress bar, so that Ctrl-C always works, and the baselines that it is compared with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from threading import Event
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.progress import BarColumn, MofNCompleteColumn, ProgressColumn, SpinnerColumn, Task, TimeElapsedColumn
from rich.progress import Progress as Bar
from rich.text import Text

from memplace_env._lib.compilation import announcing
from memplace_env._lib.errors import AgentError
from memplace_env._lib.foreign import shown
from memplace_env.cli.console import stderr
from memplace_env.cli.interrupts import in_thread
from memplace_env.cli.model_flags import baseline_of
from memplace_env.envs.registration import Formulation
from memplace_env.report.quantities import percent, ratio

if TYPE_CHECKING:
    from memplace_agents import Agent, Progress, Solution
    from memplace_agents.exact.order.order_search import FoundOrder
    from memplace_agents.xla_msa import PublicSet
    from memplace_env.cli.model_flags import Env
    from memplace_env.placement.task import Task as PlacementTask


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


def search_order(task: PlacementTask, time_limit: float | None) -> FoundOrder:
    """Return an order of a task's ops, with a bar on stderr while it is searched; an interrupt ends the process.

    Raises:
        AgentError: if its orders cannot be searched.
    """
    from memplace_agents.exact.order.order_search import find_order

    with new_bar(counted=False) as bar:
        bar.add_task("orders of ops are searched", total=None)
        return in_thread(lambda: find_order(task, time_limit), bar, lambda: "nothing was written")


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


def baselines_of(env: Env) -> dict[str, Solution]:
    """Return the solutions of greedy play and of XLA's public option sets, by name; empty for all but games."""
    if env.formulation is not Formulation.GAME:
        return {}
    from memplace_agents import GreedyPlayer, XlaMsa
    from memplace_agents.xla_msa import PUBLIC_SETS

    solvers: dict[str, Agent[Any]] = {"greedy-player": GreedyPlayer()}
    solvers |= {_set_name(public): XlaMsa(public.options) for public in PUBLIC_SETS}
    return {name: solver.solve(env) for name, solver in solvers.items()}


def baseline_lines(solution: Solution, baselines: Mapping[str, Solution]) -> Iterator[str]:
    """Yield lines that compare a solution with the baselines, and list the options that XLA's public sets leave out."""
    if not baselines:
        return
    from memplace_agents.xla_msa import PUBLIC_SETS
    from memplace_env.report.plans.headlines import stall_note

    notes = {name: stall_note(other.report) if other.report else "" for name, other in baselines.items()}
    speedups = [f"{name} {ratio(other.speedup)}{notes[name]}" for name, other in baselines.items()]
    yield f"Baselines: {', '.join(speedups)}"
    best = max(map(_set_name, PUBLIC_SETS), key=lambda name: baselines[name].speedup)
    yield f"{ratio(solution.speedup / baselines[best].speedup)} over the best of XLA's public option sets, {best}"
    for public in PUBLIC_SETS:
        yield f"Left out of {_set_name(public)}: {', '.join(public.left_out)}"


def agent_of(name: str, formulation: Formulation) -> str | None:
    """Return the agent that, at its defaults, writes the plan of a baseline or a proof; None if there is none."""
    from memplace_agents import XlaMsa
    from memplace_agents.registry import agent_specs
    from memplace_agents.xla_msa import PUBLIC_SETS

    if name in {_set_name(public) for public in PUBLIC_SETS if public.options == XlaMsa().options}:
        name = "xla-msa"
    return name if name in agent_specs(formulation) else None


def progress_note(env: Env, baselines: Mapping[str, Solution]) -> str:
    """Return the speed-ups of the baselines and of the traffic bound for a progress bar; empty without baselines."""
    if not baselines:
        return ""
    report = baseline_of(env).report
    speedups = {name: solution.speedup for name, solution in baselines.items()}
    speedups["traffic bound"] = report.latency_s / report.traffic_bound_s
    return f" ({', '.join(f'{name} {ratio(speedup)}' for name, speedup in speedups.items())})"


def _set_name(public: PublicSet) -> str:
    return f"xla-msa {public.name}"
