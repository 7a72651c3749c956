"""`memplace solve`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

import typer

from memplace_env._lib.errors import AgentError
from memplace_env.cli.agent_choice import choose_agent, default_agents
from memplace_env.cli.console import note, print_json, stdout
from memplace_env.cli.learner_flags import LearnerFlags, learner_flags
from memplace_env.cli.model_flags import ModelFlags, model_flags
from memplace_env.cli.shared_options import FormulationFlag, JsonFlag, Model
from memplace_env.envs.registration import Formulation

NO_PLAN = 1
"""Exit code if a search ends without a plan."""


@model_flags()
@learner_flags
def solve(
    model: Model,
    *,
    flags: ModelFlags,
    played: FormulationFlag = None,
    agent: Annotated[
        list[str] | None,
        typer.Option(
            "--agent",
            help="A name of 'memplace agents', or module:Class; repeat to compare.",
            show_default=default_agents(),
        ),
    ] = None,
    budget: Annotated[int, typer.Option("--budget", help="Plans to evaluate at most.")] = 4000,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of all randomness.")] = 0,
    time_limit: Annotated[
        float | None,
        typer.Option(
            "--time-limit",
            help="Seconds to search at most. Without it default agents limit work: a busy machine finds the same plan.",
        ),
    ] = None,
    noise: Annotated[
        float, typer.Option("--noise", help="Relative standard deviation of every latency that the agent measures.")
    ] = 0.0,
    workers: Annotated[
        int, typer.Option("--workers", help="Processes in which --simulator evaluates plans of a batch; same result.")
    ] = 1,
    tie_break: Annotated[
        Literal["backing", "none"] | None,
        typer.Option(
            "--tie-break",
            help="Which of equally fast plans an exact agent returns: the one with the least time of the backing "
            "memory's port, or any.",
            show_default="backing",
        ),
    ] = None,
    machine: Annotated[
        Path | None,
        typer.Option("--machine", help="What 'memplace calibrate --from' learned of the machine, for calibrated."),
    ] = None,
    learner: LearnerFlags,
    bound: Annotated[
        float, typer.Option("--bound", min=0, help="Seconds to prove a bound if no agent proved one; 0: none.")
    ] = 10,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="Folder; default out/MODEL-ACCELERATOR[-SIMULATOR], with -AGENT if one is named."),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Write over a faster plan, or one for another task, that is in the folder.")
    ] = False,
    json: JsonFlag = False,
) -> None:
    """Search for a fast plan and write it: plan.json, plan.png and trace.json.

    The default agent writes the best plan that was found, --agent the best plan of the agents that it names. A zoo
    model with an environment of its own runs with that environment's settings, unless a flag about the model is
    passed. An id of 'memplace envs' is that environment, whose single settings such flags replace. Each agent gets the
    whole budget. A faster plan that is in the folder already stays.

    With --simulator or --noise latencies are measured: 'memplace solve model.onnx --simulator mine --agent calibrated
    --budget 100' fits costs to at most 100 measured plans and solves those. The default agent does so, too.

    The plan of the default agent goes to out/MODEL-ACCELERATOR, also if other agents run beside it. Without it, the
    plan goes to out/MODEL-ACCELERATOR-AGENT, with "+" between several agents. The name of a simulator other than the
    built-in one stands behind the accelerator's.

    A row of the table that 'memplace agents' does not list is a rule of the compiler (all-fastest) or a set of XLA's
    options (xla-msa llama2-70b). No flag asks for its plan alone; the default agent writes it if it is the fastest.

    --json prints the summary of the plan (found_by, speedup, gap, bound_s, report, ...), a faster plan that was found
    but not written (faster_plan: agent, latency_s, speedup), the baseline's report (native), stage_results,
    bottlenecks, speed-ups of solvers that take no time (baselines), the files, and the latency of a faster plan that
    stays (standing_s). Exit code 1 if no search found a plan.
    """
    _check_limits(budget, time_limit)
    _check_workers(workers, flags)
    from memplace_env.cli.env_ids import posed_by
    from memplace_env.cli.environments import baseline_of, make_env

    formulation = posed_by(model, Formulation(played) if played else None)
    specs = [
        choose_agent(formulation, name, learner.given, tie_break=tie_break, machine=machine)
        for name in agent or (None,)
    ]
    from memplace_agents.registry import DEFAULTS
    from memplace_env.cli.agent_run import Limits, search
    from memplace_env.cli.baselines import baselines_of, progress_note
    from memplace_env.cli.interrupts import reporting
    from memplace_env.cli.output import check_folder, default_folder
    from memplace_env.cli.proven_bound import with_proven_bound
    from memplace_env.cli.result_folder import ResultFolder
    from memplace_env.cli.solve_result import Result

    if out is not None:
        check_folder(out)
    model, flags = flags.registered(model, formulation)
    env = make_env(model, flags, formulation)
    names = [spec.name for spec in specs]
    best_of_all = DEFAULTS[formulation] in names
    named = () if best_of_all else dict.fromkeys(names)
    path = out or default_folder(model, env.accelerator.name, flags.other_simulator, named)
    check_folder(path)
    folder = ResultFolder(path, env.task, force)
    given = {"tie_break": tie_break, "machine": machine}
    options = {name: value for name, value in given.items() if value is not None}
    solvers = {spec.name: learner.make(spec, **options) for spec in specs}
    baselines, limits = baselines_of(env), Limits(budget, seed, time_limit, workers)
    result = Result(baseline_of(env), {}, baselines, best_of_all, env=env, formulation=formulation)
    with reporting(lambda: folder.left):
        for name, solver in solvers.items():
            beside = progress_note(env, baselines)
            solution = search(solver, env, limits, noise=noise, beside=beside, left=folder.left)
            if solution.plan is None:
                note(f"{name} found no plan ({solution.outcome}).")
                continue
            result = replace(result, solutions={**result.solutions, name: solution})
            folder.keep(result)
        if not result.solutions:
            if json:
                print_json(solution.summary())
            raise typer.Exit(NO_PLAN)
        result = with_proven_bound(result, bound, left=folder.left)
        folder.keep(result)
    if json:
        print_json({**result.to_json(), **folder.to_json()})
        return
    result.show()
    stdout().print(folder.summary(result.evaluated), soft_wrap=True)


def _check_limits(budget: int, time_limit: float | None) -> None:
    if budget < 1:
        raise AgentError(f"--budget must be at least 1, not {budget}.")
    if time_limit is not None and not time_limit > 0:
        raise AgentError(f"--time-limit must be more than 0, not {time_limit:g}.")


def _check_workers(workers: int, flags: ModelFlags) -> None:
    if workers < 1:
        raise AgentError(f"--workers must be at least 1, not {workers}.")
    if workers > 1 and flags.simulator is None:
        raise AgentError("--workers needs --simulator, whose work it divides; without one all cores are in use anyway.")
