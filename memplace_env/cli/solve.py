"""`memplace solve`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from memplace_env._lib.errors import AgentError
from memplace_env.cli.agent_choice import choose_agent, default_agents
from memplace_env.cli.console import note, print_json, stdout
from memplace_env.cli.model_flags import (
    ModelFlags,
    baseline_of,
    is_env_id,
    make_env,
    model_flags,
    posed_by,
)
from memplace_env.cli.shared_options import (
    BudgetFlag,
    FolderFlag,
    ForceFlag,
    FormulationFlag,
    JsonFlag,
    LearnerFlags,
    Model,
    NoiseFlag,
    SeedFlag,
    TimeLimitFlag,
    learner_flags,
)
from memplace_env.envs.registration import Formulation

if TYPE_CHECKING:
    from memplace_env.cli.model_flags import Env

NO_PLAN = 1
"""Exit code if a search ends without a plan."""
FREE = "free"
"""The order of ops that is searched."""


@model_flags()
@learner_flags
def solve(
    model: Model,
    *,
    flags: ModelFlags,
    played: FormulationFlag = None,
    minimize: Annotated[
        Literal["latency", "memory"],
        typer.Option(
            "--minimize",
            help="latency, or memory: the least fast memory that holds all inner results, with a proof.",
        ),
    ] = "latency",
    agent: Annotated[
        list[str] | None,
        typer.Option(
            "--agent",
            help="A name of 'memplace agents', or module:Class; repeat to compare.",
            show_default=default_agents(),
        ),
    ] = None,
    budget: BudgetFlag = 4000,
    seed: SeedFlag = 0,
    time_limit: TimeLimitFlag = None,
    noise: NoiseFlag = 0.0,
    workers: Annotated[int, typer.Option("--workers", min=1, help="Processes that evaluate plans by --simulator.")] = 1,
    tie_break: Annotated[
        Literal["backing", "none"] | None,
        typer.Option(
            "--tie-break",
            help="Among equally fast plans, return the one that uses the backing port least ('backing') or any "
            "('none').",
            show_default="backing",
        ),
    ] = None,
    machine: Annotated[
        Path | None,
        typer.Option("--machine", help="Cost factors from 'memplace calibrate --from' (used by --agent calibrated)."),
    ] = None,
    learner: LearnerFlags,
    bound: Annotated[
        float, typer.Option("--bound", min=0, help="Seconds to prove a bound if no agent proved one; 0: none.")
    ] = 10,
    out: FolderFlag = None,
    force: ForceFlag = False,
    json: JsonFlag = False,
) -> None:
    """Search for a fast plan, prove a bound, and write plan.json, plan.png and trace.json into out/MODEL-ACCELERATOR.

    A faster plan that is in the folder stays. Exit code 1: no plan was found.
    """
    if workers > 1 and flags.simulator is None:
        raise AgentError("--workers needs --simulator, whose work it divides; without one all cores are in use anyway.")
    formulation = posed_by(model, Formulation(played) if played else None)
    if minimize == "memory":
        refused = {"--agent": agent, "--time-limit": time_limit, "--simulator": flags.simulator}
        refused |= {"--formulation": formulation is not Formulation.ONE_SHOT, f"--order {FREE}": flags.order == FREE}
        for flag in (flag for flag, value in refused.items() if value):
            raise AgentError(f"--minimize memory asks for addresses alone, so {flag} cannot apply; leave it out.")
        from memplace_env.cli.solve_memory import solve_memory

        solve_memory(*flags.registered(model), out, force, json)
        return
    if flags.copies == "all" and formulation is not Formulation.DYNAMIC:
        raise AgentError("--copies all is for plans that move tensors; pass --formulation dynamic, too.")
    specs = [
        choose_agent(formulation, name, learner.given, tie_break=tie_break, machine=machine)
        for name in agent or (None,)
    ]
    from memplace_agents.registry import DEFAULTS
    from memplace_env.cli.agent_run import Limits, baselines_of, progress_note, search, search_order
    from memplace_env.cli.console import check_folder, default_folder
    from memplace_env.cli.interrupts import reporting
    from memplace_env.cli.solve_result import Result, ResultFolder, with_proven_bound
    from memplace_env.envs.one_shot import OneShotEnv
    from memplace_env.report.plans.headlines import vela_note

    if out is not None:
        check_folder(out)
    typed, env_id = model, flags.id_named(model, formulation)
    model, flags = flags.registered(model, formulation)
    order = None
    if flags.order == FREE:
        if formulation is not Formulation.ONE_SHOT:
            raise AgentError(f"--order {FREE} searches plans with one level a tensor; pass --order memory instead.")
        flags = replace(flags, order=None)
        order = search_order(make_env(model, flags, formulation).task, time_limit)
        flags = replace(flags, order=None if order.order is None else order.order.tolist())
    env = make_env(model, flags, formulation)
    if env_id is not None:
        _note_registered(env, env_id, flags)
    names = [spec.name for spec in specs]
    best_of_all = DEFAULTS.get(formulation) in names
    named = () if best_of_all else dict.fromkeys(names)
    path = out or default_folder(
        typed if is_env_id(typed) else model, env.accelerator.name, flags.other_simulator, named
    )
    check_folder(path)
    folder = ResultFolder(path, env.task, force)
    given = {"tie_break": tie_break, "machine": machine}
    options = {name: value for name, value in given.items() if value is not None}
    solvers = {spec.name: learner.make(spec, **options) for spec in specs}
    baselines, limits = baselines_of(env), Limits(budget, seed, time_limit, workers)
    proof = None if order is None else order.solution
    steps = formulation is Formulation.STEPS  # whose plans and bounds are those of one shot
    poses = formulation.base if steps else formulation
    same = OneShotEnv(env.task) if steps else env
    result = Result(baseline_of(env), {}, baselines, best_of_all, proof, env=same, formulation=poses, order=order)
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
    if doubt := vela_note(env.task, result.evaluated.report):
        note(doubt)
    if json:
        print_json({**result.to_json(), **folder.to_json()})
        return
    result.show()
    stdout().print(folder.summary(result.evaluated), soft_wrap=True)


def _note_registered(env: Env, env_id: str, flags: ModelFlags) -> None:
    """Write a line to stderr on whether the environment is the registered problem, if not with both baselines.

    Slices, orders and simulators, with which the problem is another in any case, go without.
    """
    if (flags.slices, flags.order, flags.simulator) != (None, None, None):
        return
    from memplace_env.report.quantities import seconds

    other = make_env(*ModelFlags(costs=flags.costs).of_id(env_id), env.formulation)
    if other.task.program.sha256 == env.task.program.sha256:
        note(f"This is the registered problem, {env_id}.")
        return
    there, here = baseline_of(other), baseline_of(env)
    times = f"{there.name} {seconds(there.report.latency_s)}, here {seconds(here.report.latency_s)}"
    note(f"{env_id}, the registered problem, is another graph: {times}; 'memplace solve {env_id}' solves that.")
