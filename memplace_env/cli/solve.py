"""`memplace solve`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from memplace_env.cli.agent_choice import choose_agent, default_agents
from memplace_env.cli.console import note, print_json, stdout
from memplace_env.cli.learner_flags import LearnerFlags, learner_flags
from memplace_env.cli.model_flags import ModelFlags, model_flags
from memplace_env.cli.options import FormulationFlag, JsonFlag, Model
from memplace_env.errors import AgentError
from memplace_env.registration import Formulation

NO_PLAN = 1
"""Exit code if a search ends without a plan."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog="Example: memplace solve BERT --agent greedy-dp --budget 4000 --out out/bert")(solve)


@model_flags()
@learner_flags
def solve(
    model: Model,
    *,
    flags: ModelFlags,
    formulation: FormulationFlag = Formulation.ONE_SHOT,
    agent: Annotated[
        list[str] | None,
        typer.Option(
            "--agent", help="Who searches; repeat to compare. See 'memplace agents'.", show_default=default_agents()
        ),
    ] = None,
    budget: Annotated[int, typer.Option("--budget", help="Plans to evaluate at most.")] = 4000,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of all randomness.")] = 0,
    time_limit: Annotated[float | None, typer.Option("--time-limit", help="Seconds to search at most.")] = None,
    noise: Annotated[
        float, typer.Option("--noise", help="Relative standard deviation of every latency that the agent measures.")
    ] = 0.0,
    workers: Annotated[
        int, typer.Option("--workers", help="Processes in which --simulator judges plans of a batch; same result.")
    ] = 1,
    learner: LearnerFlags,
    bound: Annotated[
        float, typer.Option("--bound", min=0, help="Seconds to prove a bound if no agent proved one; 0: none.")
    ] = 10,
    out: Annotated[Path | None, typer.Option("--out", help="Folder; default out/MODEL-ACCELERATOR.")] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Write over a faster plan, or one for another task, that is in the folder.")
    ] = False,
    json: JsonFlag = False,
) -> None:
    """Search for a fast plan and write the best that anybody found: plan.json, plan.png and trace.json.

    A zoo model that has an environment of its own runs with that environment's settings, unless a flag about the
    model is passed. Each agent gets the whole budget. A faster plan that is in the folder already stays. --json prints
    the summary of the best plan (found_by, speedup, gap, bound_s, report, ...) with the baseline's report (native), who
    found what (findings), speed-ups of solvers that take no time (rivals), what still hurts, the files, and the
    latency of a faster plan that stays (standing_s). Exit code 1 if no search found a plan.
    """
    _check_limits(budget, time_limit)
    _check_workers(workers, flags)
    specs = [choose_agent(formulation, name, learner.given) for name in agent or (None,)]
    from memplace_env.cli.environments import make_env
    from memplace_env.cli.interrupts import telling
    from memplace_env.cli.output import check_folder, default_folder
    from memplace_env.cli.proven_bound import with_proven_bound
    from memplace_env.cli.result import Result
    from memplace_env.cli.result_folder import ResultFolder
    from memplace_env.cli.rivals import compared, rivals_of
    from memplace_env.cli.search import Limits, search

    if out is not None:
        check_folder(out)
    model, flags = flags.registered(model, formulation)
    env = make_env(model, flags, formulation)
    path = out or default_folder(model, env.accelerator.name)
    check_folder(path)
    folder = ResultFolder(path, env.task, force)
    solvers = {spec.name: learner.make(spec) for spec in specs}
    rivals, limits = rivals_of(env), Limits(budget, seed, time_limit, workers)
    result = Result(env, formulation, {}, rivals)
    with telling(lambda: folder.left):
        for name, solver in solvers.items():
            solution = search(solver, env, limits, noise=noise, compared=compared(env, rivals), kept=folder.left)
            if solution.plan is None:
                note(f"{name} found no plan ({solution.outcome}).")
                continue
            result = replace(result, found={**result.found, name: solution})
            folder.keep(result)
        if not result.found:
            if json:
                print_json(solution.summary())
            raise typer.Exit(NO_PLAN)
        result = with_proven_bound(result, bound, kept=folder.left)
        folder.keep(result)
    if json:
        print_json({**result.to_json(), **folder.to_json()})
        return
    result.show()
    stdout().print(folder.told(result.judged), soft_wrap=True)


def _check_limits(budget: int, time_limit: float | None) -> None:
    if budget < 1:
        raise AgentError(f"--budget {budget} leaves nothing to do; pass at least 1.")
    if time_limit is not None and not time_limit > 0:
        raise AgentError(f"--time-limit {time_limit:g} leaves nothing to do; pass more than 0.")


def _check_workers(workers: int, flags: ModelFlags) -> None:
    if workers < 1:
        raise AgentError(f"--workers {workers} judge nothing; pass at least 1.")
    if workers > 1 and flags.simulator is None:
        raise AgentError("--workers shares out what --simulator has to do; without one, all cores are in use anyway.")
