"""`memplace prove`: what is proven of a plan, of which problem, by which solver, and a second solver's opinion."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from memplace_env._lib.errors import AgentError, PlanError
from memplace_env._lib.units import PS
from memplace_env.cli.agent_choice import check_has_agents
from memplace_env.cli.console import print_json, stdout
from memplace_env.cli.model_flags import ModelFlags, model_flags
from memplace_env.cli.shared_options import FormulationFlag, JsonFlag, Model
from memplace_env.envs.registration import Formulation
from memplace_env.report.plans.headlines import task_title
from memplace_env.report.plans.result_tables import piece_of
from memplace_env.report.quantities import seconds as duration

if TYPE_CHECKING:
    from memplace_agents import Solution
    from memplace_agents.exact.second_opinion import Opinion
    from memplace_agents.solution import Outcome
    from memplace_env.cli.environments import Env
    from memplace_env.placement.memory_plan import MemoryPlan
    from memplace_env.placement.task import Task
    from memplace_env.report.plans.evaluated_plan import EvaluatedPlan

DISPROVEN = 1
"""Exit code if the second solver finds a faster plan."""


@model_flags(without=["simulator"])
def prove(
    model: Model,
    *,
    flags: ModelFlags,
    formulation: FormulationFlag = Formulation.ONE_SHOT,
    plan: Annotated[
        Path | None, typer.Option("--plan", help="A plan.json for the model, in place of the exact agent's own plan.")
    ] = None,
    time_limit: Annotated[
        float | None,
        typer.Option("--time-limit", help="Seconds to prove at most.", show_default="work of about two minutes"),
    ] = None,
    second_opinion: Annotated[
        bool, typer.Option("--second-opinion", help="Ask SCIP, too: needs pip install 'memplace[audit]'.")
    ] = False,
    seconds: Annotated[
        float, typer.Option("--seconds", help="Seconds of the processor that SCIP may take at most.")
    ] = 60.0,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="Folder for a faster plan of SCIP; default out/MODEL-ACCELERATOR-second-opinion."),
    ] = None,
    json: JsonFlag = False,
) -> None:
    """Say how far a plan may be from the optimum, of which plans that is proven, and by which solver.

    --second-opinion asks another solver, SCIP, whether a plan is faster by more than 0.01 %. If it finds one, that is
    written as plan.json. A program of which it finds a solution that is no plan is made more exact, and asked again.

    --json prints the summary of the plan (outcome, gap, bound_s, proof, report, ...), the problem, second_opinion
    (answer: no, yes or open; solver, rounds, nodes, seconds, ...) and faster_plan, the file of a faster plan. Exit code
    1 if SCIP finds one.
    """
    check_has_agents(formulation)
    for option, value in (("--time-limit", time_limit), ("--seconds", seconds)):
        if value is not None and not value > 0:
            raise AgentError(f"{option} must be more than 0, not {value:g}.")
    from memplace_agents import Exact, ExactDynamic
    from memplace_agents.exact import scip
    from memplace_agents.exact.exact_agent import DYNAMIC_WORK, MAPS_WORK
    from memplace_agents.exact.second_opinion import ENDLESS
    from memplace_env.cli.agent_run import Limits, search
    from memplace_env.cli.environments import make_env
    from memplace_env.cli.output import check_folder, default_folder
    from memplace_env.cli.saved_plans import evaluate_saved, read_saved

    if second_opinion:
        scip.package()
    saved = None
    if plan is None:
        model, flags = flags.registered(model, formulation)
    else:
        saved, model, flags = read_saved(model, plan, flags)
    env = make_env(model, flags, formulation)
    given = None if saved is None else evaluate_saved(env.task, saved, plan)
    folder = out or default_folder(model, env.accelerator.name, agents=["second-opinion"])
    check_folder(folder)
    agent = ExactDynamic() if formulation is Formulation.DYNAMIC else Exact(work=MAPS_WORK + DYNAMIC_WORK)
    solution = search(agent, env, Limits(ENDLESS, 0, time_limit), left="nothing is proven")
    if given is not None:
        solution = _with_plan(solution, given, formulation)
    assert solution.plan is not None
    opinion = _ask(env, solution.plan, formulation, seconds) if second_opinion else None
    faster = None
    if opinion is not None and opinion.plan is not None:
        folder.mkdir(parents=True, exist_ok=True)
        faster = opinion.plan.save(folder / "plan.json")
    problem = _problem(env.task, formulation)
    if json:
        asked = opinion and opinion.summary()
        written = faster and str(faster)
        print_json({**solution.summary(), "problem": problem, "second_opinion": asked, "faster_plan": written})
    else:
        stdout().print(f"{task_title(env.task)}: {_quality(solution)}", style="bold", soft_wrap=True)
        for line in (f"Of all plans with {', '.join(problem)}.", _method(solution), *_opinion_lines(opinion, faster)):
            stdout().print(line, soft_wrap=True)
    if faster is not None:
        raise typer.Exit(DISPROVEN)


def _with_plan(solution: Solution, given: EvaluatedPlan, formulation: Formulation) -> Solution:
    """Return what a solution's bound says of another plan.

    Raises:
        PlanError: if the plan is faster than the bound, which then is not about plans of its kind.
    """
    from memplace_agents.optimality import contradicts, is_optimal

    assert solution.bound_s is not None
    latency_s = given.report.latency_s
    if formulation is Formulation.ONE_SHOT and contradicts(latency_s, solution.bound_s):
        raise PlanError(f"{given.name} is faster than plans can be that move no tensors; pass --formulation dynamic.")
    outcome: Outcome = "optimal" if is_optimal(latency_s, solution.bound_s) else "feasible"
    return replace(solution, plan=given.plan, report=given.report, outcome=outcome)


def _problem(task: Task, formulation: Formulation) -> list[str]:
    """Return the properties of the plans that the bound is about."""
    piece = piece_of(task.program)
    levels = f"one level a {piece}" if formulation is Formulation.ONE_SHOT else "moves between levels"
    return ["the ops in the order of the file", "whole tensors" if piece == "tensor" else "tensors in slices", levels]


def _quality(solution: Solution) -> str:
    """Return how good a plan is."""
    assert solution.latency_s is not None
    assert solution.gap is not None
    best = "proven optimal" if solution.outcome == "optimal" else "not proven optimal"
    return f"{duration(solution.latency_s)}, {best}, at most {100 * solution.gap:.2g} % above the bound."


def _method(solution: Solution) -> str:
    """Return how the bound is proven, and by which solver."""
    proof = solution.proof
    if proof is None or proof.solver is None:
        return "The bound is proven by weak duality."
    presolve = "" if proof.presolve else " without presolve"
    again = "; asked again without presolve, it finds no faster plan" if proof.presolve and proof.checked else ""
    return f"The bound is proven by branch and bound of {proof.solver}{presolve}{again}."


def _ask(env: Env, plan: MemoryPlan, formulation: Formulation, seconds: float) -> Opinion:
    """Return the second opinion on a plan."""
    from memplace_agents.exact.second_opinion import second_opinion
    from memplace_env.cli.agent_run import new_bar
    from memplace_env.cli.interrupts import in_thread

    with new_bar(counted=False) as bar:
        bar.add_task("SCIP looks for a faster plan", total=None)
        asking = partial(second_opinion, env, plan, formulation, seconds=seconds)
        return in_thread(asking, bar, lambda: "the second solver has no answer yet")


def _opinion_lines(opinion: Opinion | None, faster: Path | None) -> Iterator[str]:
    """Yield what the second solver says."""
    if opinion is None:
        return
    rounds = f"{opinion.rounds} rounds, " if opinion.rounds > 1 else ""
    nodes = "1 node" if opinion.nodes == 1 else f"{opinion.nodes} nodes"
    spent, gap = f"({rounds}{nodes}, {opinion.seconds:.1f} s)", f"by more than {100 * opinion.gap:g} %"
    if opinion.answer == "no":
        yield f"{opinion.solver} finds no plan faster {gap} {spent}."
    elif opinion.faster_ps is None:
        yield f"{opinion.solver} leaves open whether a plan is faster {gap} {spent}; --seconds gives it more time."
    else:
        latency = duration(opinion.faster_ps * PS)
        yield f"{opinion.solver} finds a plan that takes {latency}, faster {gap} {spent}. Written: {faster}"
