"""`memplace dataset` and `offline-suite`: write episodes of agents' plans."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memplace_env._lib.errors import AgentError
from memplace_env.cli.agent_choice import choose_agent
from memplace_env.cli.console import check_folder, print_json, slug, stdout
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

    The first episode of each plan is the plan itself. The others follow it with some random decisions, as an agent like
    exact finds the same plan whatever its seed. An episode of a one-shot environment is one step; stepwise environments
    follow plans of one-shot agents.

    minari.MinariDataset("OUT/data") reads the folder, out/dataset-ID-AGENT if --out is left out. --json prints id,
    dataset_id, agent, data, episodes, steps, the lowest, mean and highest return (returns), and seed, latency_s and
    first return of each search (plans).
    """
    from memplace_env._lib.files import alone
    from memplace_env.cli.agent_run import Limits
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
    written = _Written()
    with alone(folder), reporting(lambda: "nothing was written"):
        solutions = _solved(spec.make(), searched, Limits(budget, seed, time_limit), searches)
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


def offline_suite(
    *,
    episodes: Annotated[int, typer.Option("--episodes", min=1, help="Episodes of each grade of a game.")] = 40,
    out: FolderFlag = None,
    force: ForceFlag = False,
    json: JsonFlag = False,
) -> None:
    """Write offline data of six small games in the grades random, rule and expert, in the format of Minari.

    The games are the six of the suite quick-v2 whose ids have the lowest SHA-256; forced decisions are skipped. random
    plays random legal decisions. rule follows the best rule's plan. expert follows the exact plan or local search's,
    whichever game returns more. After the first episode of rule and expert one decision in fifty is random. A score is
    the return, scaled: 0 is everything in the backing memory, and 1 the best known plan.

    minari.MinariDataset("OUT/ID/GRADE/data") reads one of the folders; OUT is out/offline-suite if --out is left out.
    --json prints id, grade, dataset_id, data, episodes, steps, mean score (score) and bytes of each.
    """
    from memplace_env._lib.files import alone
    from memplace_env.cli.agent_run import Limits
    from memplace_env.cli.interrupts import reporting
    from memplace_env.cli.model_flags import make_registered
    from memplace_env.envs.datasets.grades import GRADES, OFFLINE, graded_episodes
    from memplace_env.envs.datasets.minari_folder import DATA, check_free, check_minari, write_minari
    from memplace_env.envs.known_returns import best_known
    from memplace_env.report.tables import add_row, new_table

    check_minari()
    folder = out or Path("out") / "offline-suite"
    check_folder(folder)
    for place in [folder / env_id / grade for env_id in OFFLINE for grade in GRADES]:
        check_free(place, force)
    rows = list[dict[str, Any]]()
    with alone(folder), reporting(lambda: f"{len(rows)} datasets were written"):
        names = sorted({name for agents, _ in GRADES.values() for name in agents})
        for env_id in OFFLINE:
            env: Any = make_registered(env_id, observation="flat", skip_forced=True)
            specs = [choose_agent(env.formulation, name) for name in names]
            plans: dict[str, Any] = {spec.name: _solved(spec.make(), env, Limits(4000, 0), 1)[0].plan for spec in specs}
            best = best_known(env_id).best_return
            for grade, (agents, epsilon) in GRADES.items():
                written, place, by = _Written(), folder / env_id / grade, " or ".join(agents)
                stream = written.counted(graded_episodes(env, [plans[name] for name in agents], epsilon, episodes))
                dataset_id = write_minari(place, env, stream, by, force, grade, best)
                score = sum(written.returns) / episodes / best
                size = sum(path.stat().st_size for path in (place / DATA).iterdir())
                head = {"id": env_id, "grade": grade, "dataset_id": dataset_id, "data": str(place / DATA)}
                rows.append(head | {"episodes": episodes, "steps": written.steps, "score": score, "bytes": size})
    if json:
        print_json(rows)
        return
    shown = new_table(None, "id", "grade", "episodes", "steps", "mean score", "kB", left=(0, 1))
    for row in rows:
        values = (row["episodes"], f"{row['steps']:,}", f"{row['score']:.3f}", f"{row['bytes'] / 1e3:,.0f}")
        add_row(shown, row["id"], row["grade"], *values)
    stdout().print(shown)
    stdout().print(f"Written: {folder}, {sum(row['bytes'] for row in rows) / 1e6:.1f} MB", markup=False, soft_wrap=True)


class _Written:
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


def _solved(agent: Agent[Any], env: Env, limits: Limits, searches: int) -> list[Solution]:
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
