"""`memplace dataset`: write episodes of an agent's plans."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memplace_env._lib.errors import AgentError
from memplace_env.cli.agent_choice import choose_agent
from memplace_env.cli.console import print_json, stdout
from memplace_env.cli.shared_options import (
    BudgetFlag,
    FolderFlag,
    ForceFlag,
    JsonFlag,
    PlayerFlag,
    SeedFlag,
    TimeLimitFlag,
)
from memplace_env.envs.registration import Formulation

if TYPE_CHECKING:
    from memplace_agents import Agent, Solution
    from memplace_env.cli.agent_run import Limits
    from memplace_env.cli.model_flags import Env
    from memplace_env.envs.datasets import PlanEpisode


def dataset(
    env_id: Annotated[str, typer.Argument(metavar="ID", help="An environment, as 'memplace envs' lists them.")],
    *,
    agent: PlayerFlag = None,
    episodes: Annotated[int, typer.Option("--episodes", min=1, help="Episodes to write.")] = 100,
    epsilon: Annotated[
        float,
        typer.Option("--epsilon", min=0, max=1, help="Chance of a random decision; none in a plan's first episode."),
    ] = 0.02,
    searches: Annotated[
        int, typer.Option("--searches", min=1, help="Searches, each with the next seed; episodes take turns.")
    ] = 1,
    budget: BudgetFlag = 4000,
    seed: SeedFlag = 0,
    time_limit: TimeLimitFlag = None,
    out: FolderFlag = None,
    force: ForceFlag = False,
    json: JsonFlag = False,
) -> None:
    """Write episodes that follow an agent's plans, in the format of Minari, for imitation and offline learning.

    The first episode of each plan is the plan itself, the others make random decisions now and then and go on with the
    plan: an agent like exact finds the same plan whatever its seed. An episode of a one-shot environment is one step;
    stepwise environments follow plans of one-shot agents.

    minari.MinariDataset("OUT/data") reads the folder, out/dataset-ID-AGENT if --out is left out. --json prints id,
    dataset_id, agent, data, episodes, steps, the lowest, mean and highest return (returns), and seed, latency_s and
    first return of each search (plans).
    """
    from memplace_env._lib.files import alone
    from memplace_env.cli.agent_run import Limits
    from memplace_env.cli.console import check_folder, slug
    from memplace_env.cli.interrupts import reporting
    from memplace_env.cli.model_flags import make_registered
    from memplace_env.envs.datasets.minari_folder import DATA, check_free, check_minari, write_minari

    check_minari()
    env = make_registered(env_id, observation="flat")
    searched = _searched(env)
    spec = choose_agent(searched.formulation, agent)
    folder = out or Path("out") / slug(f"dataset-{env_id}-{spec.name}")
    check_folder(folder)
    check_free(folder, force)
    written = Written()
    with alone(folder), reporting(lambda: "nothing was written"):
        solutions = solved(spec.make(), searched, Limits(budget, seed, time_limit), searches)
        stream = written.counted(_recorded(env, solutions, episodes, epsilon, seed))
        dataset_id = write_minari(folder, env, stream, spec.name, replace=force)
    plans = [
        {"seed": solution.seed, "latency_s": solution.report.latency_s, "return": value}
        for solution, value in zip(solutions, written.returns, strict=False)
        if solution.report is not None
    ]
    if json:
        head = {"id": env_id, "dataset_id": dataset_id, "agent": spec.name, "data": str(folder / DATA)}
        print_json({**head, **written.to_json(), "plans": plans})
        return
    stdout().print(written.text(), soft_wrap=True)
    stdout().print(f"Written: {folder / DATA} ({dataset_id})", markup=False, soft_wrap=True)


class Written:
    """Returns and steps of the episodes so far."""

    def __init__(self) -> None:
        self.returns: list[float] = []
        self.steps = 0

    def counted(self, episodes: Iterable[PlanEpisode]) -> Iterator[PlanEpisode]:
        """Yield the episodes, each counted."""
        for episode in episodes:
            self.returns.append(sum(episode.rewards))
            self.steps += len(episode.rewards)
            yield episode

    def to_json(self) -> dict[str, Any]:
        returns, count = self.returns, len(self.returns)
        spread = {"lowest": min(returns), "mean": sum(returns) / count, "highest": max(returns)}
        return {"episodes": count, "steps": self.steps, "returns": spread}

    def text(self) -> str:
        values = self.to_json()
        returns = ", ".join(f"{name} {value:.4g}" for name, value in values["returns"].items())
        return f"{values['episodes']} episodes, {values['steps']} steps; returns: {returns}."


def _searched(env: Env) -> Env:
    """Return the environment that agents search: of a stepwise one, whose plans are the same, the one-shot one."""
    from memplace_env.envs.one_shot import OneShotEnv

    return OneShotEnv(env.task) if env.formulation is Formulation.STEPS else env


def solved(agent: Agent[Any], env: Env, limits: Limits, searches: int) -> list[Solution]:
    """Return the solutions of searches with different seeds.

    Raises:
        AgentError: if one finds no plan.
    """
    from memplace_env.cli.agent_run import search

    solutions = []
    for number in range(searches):
        solution = search(agent, env, limits._replace(seed=limits.seed + number))
        if solution.plan is None:
            raise AgentError(f"{agent.name} found no plan ({solution.outcome}), so there is nothing to play.")
        solutions.append(solution)
    return solutions


def _recorded(env: Env, solutions: list[Solution], count: int, epsilon: float, seed: int) -> Iterator[PlanEpisode]:
    """Yield episodes, of each solution's plan in turn, behind a progress bar."""
    from memplace_env.cli.agent_run import new_bar
    from memplace_env.envs.datasets import PlanFollower

    followers = [PlanFollower(env, solution.plan) for solution in solutions if solution.plan is not None]
    with new_bar(True) as bar:
        line = bar.add_task("episodes", total=count)
        for number in range(count):
            follower = followers[number % len(followers)]
            yield follower.episode(seed + number, epsilon if number >= len(followers) else 0.0)
            bar.advance(line)
