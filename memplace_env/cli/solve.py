"""`memplace solve`."""

from __future__ import annotations

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
        str | None, typer.Option("--agent", help="Who searches; see 'memplace agents'.", show_default=default_agents())
    ] = None,
    budget: Annotated[int, typer.Option("--budget", help="Plans to evaluate at most.")] = 4000,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of all randomness.")] = 0,
    time_limit: Annotated[float | None, typer.Option("--time-limit", help="Seconds to search at most.")] = None,
    noise: Annotated[
        float, typer.Option("--noise", help="Relative standard deviation of every latency that the agent measures.")
    ] = 0.0,
    learner: LearnerFlags,
    bound: Annotated[
        float, typer.Option("--bound", min=0, help="Seconds to prove a bound after a one-shot search; 0: none.")
    ] = 10,
    out: Annotated[Path | None, typer.Option("--out", help="Folder; default out/MODEL-ACCELERATOR.")] = None,
    json: JsonFlag = False,
) -> None:
    """Search for a fast plan and write plan.json, plan.png and trace.json.

    A zoo model that has an environment of its own runs with that environment's settings, unless a flag about the
    model is passed. --json prints the agent's summary (speedup, gap, bound_s, report, ...) with the baseline's report
    (native), what the exact agent found while it proved the bound (exact), speed-ups of solvers that take no time
    (rivals), what still hurts and the files. Exit code 1 if the search ended without a plan.
    """
    _check_limits(budget, time_limit)
    spec = choose_agent(formulation, agent, learner.given)
    from memplace_env.analysis import Judged
    from memplace_env.cli.environments import make_env
    from memplace_env.cli.output import check_folder, default_folder
    from memplace_env.cli.proven_bound import with_proven_bound
    from memplace_env.cli.result import Result
    from memplace_env.cli.rivals import compared, rivals_of
    from memplace_env.cli.search import Limits, search

    if out is not None:
        check_folder(out)
    model, flags = flags.registered(model, formulation)
    env = make_env(model, flags, formulation)
    folder = out or default_folder(model, env.accelerator.name)
    check_folder(folder)
    solver, rivals = learner.make(spec), rivals_of(env)
    solution = search(solver, env, Limits(budget, seed, time_limit), noise=noise, compared=compared(env, rivals))
    if solution.plan is None or solution.report is None:
        note(f"{solver.name} found no plan ({solution.outcome}); nothing was written.")
        if json:
            print_json(solution.summary())
        raise typer.Exit(NO_PLAN)
    result = Result(env, solution, Judged(solution.plan, solution.report), rivals)
    written = result.write(folder)
    result = with_proven_bound(result, bound, kept=f"the plan is in {folder}")
    if json:
        print_json(result.to_json(written))
        return
    result.show()
    stdout().print("Written: " + ", ".join(path for path in written.values() if path), markup=False, soft_wrap=True)


def _check_limits(budget: int, time_limit: float | None) -> None:
    if budget < 1:
        raise AgentError(f"--budget {budget} leaves nothing to do; pass at least 1.")
    if time_limit is not None and not time_limit > 0:
        raise AgentError(f"--time-limit {time_limit:g} leaves nothing to do; pass more than 0.")
