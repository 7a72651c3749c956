"""`memplace prove`: what is proven of a plan, of which problem, by which solver, and a second solver's opinion."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from memplace_env._lib.errors import AgentError, PlanError
from memplace_env._lib.units import PS
from memplace_env.cli.console import note, print_json, stdout
from memplace_env.cli.model_flags import ModelFlags, baseline_of, make_env, model_flags, posed_by
from memplace_env.cli.shared_options import FormulationFlag, JsonFlag, Model, TimeLimitFlag
from memplace_env.envs.registration import Formulation
from memplace_env.report.quantities import seconds as duration

if TYPE_CHECKING:
    from memplace_agents import Solution
    from memplace_agents.exact.second_opinion import Opinion
    from memplace_agents.solution import Outcome

DISPROVEN = 1
"""Exit code if the second solver finds a faster plan."""
QUESTION_S = 60.0
"""Processor seconds of each question to the second solver without --time-limit."""


@model_flags(without=["simulator"])
def prove(
    model: Model,
    *,
    flags: ModelFlags,
    played: FormulationFlag = None,
    plan: Annotated[
        Path | None, typer.Option("--plan", help="A plan.json to judge instead of the exact agent's plan.")
    ] = None,
    time_limit: TimeLimitFlag = None,
    second_opinion: Annotated[
        bool, typer.Option("--second-opinion", help="Also ask SCIP (needs pip install 'memplace[audit]').")
    ] = False,
    json: JsonFlag = False,
) -> None:
    """Show how far a plan may be from the optimum, for which plans that is proven, and by which solver.

    --second-opinion asks another solver, SCIP, whether a plan is faster by more than 0.01 %. It may take --time-limit
    processor seconds (60). A faster plan is written to out/MODEL-ACCELERATOR-second-opinion/plan.json; exit code 1.

    --json prints the summary of the plan (outcome, gap, bound_s, proof, report, ...), problem (the kind of plans that
    the bound holds for), second_opinion (answer: no, yes or open; solver, rounds, nodes, seconds, latencies in ps) and
    faster_plan, the file.
    """
    formulation = posed_by(model, Formulation(played) if played else None)
    from memplace_agents import Exact, ExactDynamic
    from memplace_agents.exact import scip
    from memplace_agents.exact.exact_agent import DYNAMIC_WORK, MAPS_WORK
    from memplace_agents.exact.second_opinion import ENDLESS, Audit
    from memplace_agents.optimality import contradicts, is_optimal, surviving_bound
    from memplace_env.cli.agent_run import Limits, new_bar, search
    from memplace_env.cli.console import check_folder, default_folder
    from memplace_env.cli.interrupts import in_thread
    from memplace_env.cli.saved_plans import evaluate_saved, read_saved
    from memplace_env.report.plans.evaluated_plan import EvaluatedPlan
    from memplace_env.report.plans.headlines import headline
    from memplace_env.report.plans.result_tables import piece_of

    if second_opinion:
        scip.new_model()
    saved = None
    if plan is None:
        model, flags = flags.registered(model, formulation)
    else:
        saved, model, flags = read_saved(model, plan, flags)
    env = make_env(model, flags, formulation)
    given = None if saved is None else evaluate_saved(env.task, saved, plan)
    folder = default_folder(model, env.accelerator.name, agents=["second-opinion"])
    check_folder(folder)
    agent = ExactDynamic() if formulation is Formulation.DYNAMIC else Exact(work=MAPS_WORK + DYNAMIC_WORK)
    solution = search(agent, env, Limits(ENDLESS, 0, time_limit), left="nothing is proven")
    if solution.plan is None or solution.report is None or solution.bound_s is None:
        raise AgentError(f"{agent.name} proved no bound ({solution.outcome}).")
    best, bound_s = given or EvaluatedPlan(solution.plan, solution.report), solution.bound_s
    latency_s = best.report.latency_s
    if formulation is Formulation.ONE_SHOT and len(best.plan.transfers) and contradicts(latency_s, bound_s):
        raise PlanError(f"{plan} is faster than plans can be that move no tensors; pass --formulation dynamic.")
    left_s, proof = surviving_bound(latency_s, bound_s, solution.proof)
    if left_s is None or proof is None:
        raise PlanError(f"{plan} is faster than the bound that {agent.name} proved, which is false; please report it.")
    bound_s, optimal = left_s, is_optimal(latency_s, left_s)
    outcome: Outcome = "optimal" if optimal else "feasible"
    proof = proof._replace(checked=proof.checked and optimal)
    solution = replace(solution, bound_s=bound_s, proof=proof, outcome=outcome)
    if given is not None:  # what the agent found is not what is proven of
        solution = replace(solution, plan=best.plan, report=best.report, agent=agent.name, stage_results=())
        solution = replace(solution, backing_port_s=None, backing_port_before_s=None)
    opinion, faster = None, None
    if second_opinion:
        audit = Audit(env, best.plan, formulation, time_limit or QUESTION_S)
        with new_bar(counted=False) as bar:
            bar.add_task("SCIP looks for a faster plan", total=None)
            opinion = in_thread(audit.opinion, bar, lambda: "there is no second opinion")
        if opinion.plan is not None:
            folder.mkdir(parents=True, exist_ok=True)
            faster = str(opinion.plan.save(folder / "plan.json"))
    piece = piece_of(env.task.program)
    levels = f"one level a {piece}" if formulation is Formulation.ONE_SHOT else "moving tensors"
    order = "the ops in the order of the " + ("plan" if "order" in env.task.settings else "file")
    problem = [order, "slices" if piece == "slice" else "whole tensors", levels]
    if json:
        asked = opinion and {name: value for name, value in opinion._asdict().items() if name != "plan"}
        print_json({**solution.summary(), "problem": problem, "second_opinion": asked, "faster_plan": faster})
    else:
        console = stdout()
        quality = f"{'' if optimal else 'not '}proven optimal, at most {100 * (latency_s / bound_s - 1):.2g} %"
        title = f"{headline(env.task, best.report, baseline_of(env))}, {quality} above the bound."
        console.print(title, style="bold", soft_wrap=True)
        console.print(f"The bound is of plans with {', '.join(problem)}, by {_method(solution)}.", soft_wrap=True)
        if opinion is not None:
            console.print(_sentence(opinion), soft_wrap=True)
    if faster is not None:
        note(f"Written: {faster}")
        raise typer.Exit(DISPROVEN)


def _method(solution: Solution) -> str:
    """Return how the bound is proven, and by which solver."""
    proof = solution.proof
    if proof is None or proof.solver is None:
        return "weak duality"
    again = ", which finds no faster plan without presolve either" if proof.presolve and proof.checked else ""
    return f"branch and bound of {proof.solver}{again}"


def _sentence(opinion: Opinion) -> str:
    """Return what the second solver says."""
    rounds = f"{opinion.rounds} rounds, " if opinion.rounds > 1 else ""
    nodes = "1 node" if opinion.nodes == 1 else f"{opinion.nodes} nodes"
    than = f"faster by more than {100 * opinion.gap:g} % ({rounds}{nodes}, {opinion.seconds:.1f} s)"
    if opinion.faster_ps is not None:
        return f"{opinion.solver} finds a plan of {duration(opinion.faster_ps * PS)}, {than}."
    finds = "finds no plan" if opinion.answer == "no" else "leaves open whether there is a plan"
    return f"{opinion.solver} {finds} {than}."
