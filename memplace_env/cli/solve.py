"""`memplace solve`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memplace_env.cli.console import note, print_json, stdout
from memplace_env.cli.formulations import TRAITS, Formulation, agent_for, agent_name
from memplace_env.cli.learners import ConfigFlag, PolicyFlag, SetFlag, learner_flags
from memplace_env.cli.options import (
    AcceleratorFlag,
    BatchFlag,
    DimFlag,
    DtypeFlag,
    FormulationFlag,
    FusionFlag,
    JsonFlag,
    Model,
    ModelFlags,
    SimulatorFlag,
)

if TYPE_CHECKING:
    from agents import Solution
    from memplace_env.cli.subject import Subject
    from memplace_env.plan import MemoryPlan
    from memplace_env.simulator import Report

_DEFAULTS = ", ".join(f"{formulation.value}: {traits.agent}" for formulation, traits in TRAITS.items())
PLAN, PICTURE, TRACE = "plan.json", "plan.png", "trace.json"

NO_PLAN = 1
_BOUND_BUDGET = 1000
"""Plans that the exact agent may try; where it proves the optimum it needs a handful, else the time ends it first."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog="Example: memplace solve BERT --agent greedy-dp --budget 4000 --out out/bert")(solve)


def solve(
    model: Model,
    accelerator: AcceleratorFlag = None,
    formulation: FormulationFlag = Formulation.ONE_SHOT,
    agent: Annotated[
        str | None, typer.Option("--agent", help="Who searches; see 'memplace agents'.", show_default=_DEFAULTS)
    ] = None,
    budget: Annotated[int, typer.Option("--budget", help="Plans to evaluate at most.")] = 4000,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of all randomness.")] = 0,
    time_limit: Annotated[float | None, typer.Option("--time-limit", help="Seconds to search at most.")] = None,
    policy: PolicyFlag = None,
    config: ConfigFlag = None,
    settings: SetFlag = None,
    bound: Annotated[
        float, typer.Option("--bound", min=0, help="Seconds to prove a bound after a one-shot search; 0: none.")
    ] = 10,
    batch: BatchFlag = None,
    dim: DimFlag = None,
    dtype: DtypeFlag = None,
    fusion: FusionFlag = None,
    simulator: SimulatorFlag = None,
    out: Annotated[Path | None, typer.Option("--out", help="Folder; default out/MODEL-ACCELERATOR.")] = None,
    json: JsonFlag = False,
) -> None:
    """Search for a fast plan and write plan.json, plan.png and trace.json.

    A zoo model that has an environment of its own runs with that environment's settings, unless a flag about the
    model is passed. --json prints the agent's summary (speedup, gap, bound_s, report, ...) with the baseline's report
    (native), what the exact agent found while it proved the bound (exact), speed-ups of solvers that take no time
    (rivals), what still hurts and the files. Exit code 1 if the search ended without a plan.
    """
    flags = ModelFlags.parse(accelerator, batch, dim, dtype, fusion, simulator)
    from memplace_env.cli.output import check_folder, default_folder
    from memplace_env.cli.search import search
    from memplace_env.cli.subject import subject_of
    from memplace_env.errors import AgentError

    if budget < 1:
        raise AgentError(f"--budget {budget} leaves nothing to do; pass at least 1.")
    if time_limit is not None and not time_limit > 0:
        raise AgentError(f"--time-limit {time_limit:g} leaves nothing to do; pass more than 0.")
    name = agent_name(formulation, agent, learner_flags(config, settings or (), policy))
    if out is not None:
        check_folder(out)
    model, flags = flags.registered(model, formulation)
    subject = subject_of(model, flags, formulation)
    env = subject.env
    folder = out or default_folder(model, env.accelerator.name)
    check_folder(folder)
    solver = agent_for(formulation, name, config=config, settings=settings or (), policy=policy)

    baseline_s, rivals = subject.baseline_report.latency_s, subject.rivals()
    shown = rivals | {"bound": subject.bound} if rivals else {}
    limits: dict[str, Any] = {"budget": budget, "seed": seed, "time_limit": time_limit}
    solution = search(solver, env, subject.baseline, baseline_s, **limits, rivals=shown)
    plan, report = solution.plan, solution.report
    if plan is None or report is None:
        note(f"{solver.name} found no plan ({solution.outcome}); nothing was written.")
        if json:
            print_json(solution.summary())
        raise typer.Exit(NO_PLAN)
    written = _write(folder, subject, plan, report)
    exact = None
    if formulation is Formulation.ONE_SHOT and solution.bound_s is None and bound:
        exact = _exact(subject, bound, seed, folder)
        solution = _judged(solution, exact)
    if json:
        print_json(_summary(subject, solution, exact, plan, report, written) | {"rivals": rivals})
        return
    _show(subject, solution, exact, plan, report, rivals)
    stdout().print("Written: " + ", ".join(path for path in written.values() if path), markup=False, soft_wrap=True)


def _exact(subject: Subject, seconds: float, seed: int, folder: Path) -> Solution | None:
    """What the exact agent finds and proves in that time; None where it cannot."""
    from agents import Exact
    from memplace_env.cli.search import search
    from memplace_env.errors import AgentError

    kept, baseline_s = f"the plan is in {folder}", subject.baseline_report.latency_s
    task = subject.env, subject.baseline, baseline_s
    try:
        return search(Exact(), *task, budget=_BOUND_BUDGET, seed=seed, time_limit=seconds, kept=kept)
    except AgentError as error:
        note(f"No bound is proven: {error}")
        return None


def _judged(solution: Solution, exact: Solution | None) -> Solution:
    """The solution with a proven bound, and optimal if it is as good as the exact agent calls optimal."""
    if exact is None or exact.bound_s is None or solution.report is None:
        return solution
    from agents import Exact

    optimal = solution.report.latency_s <= exact.bound_s * (1 + Exact().mip_gap)
    return replace(solution, bound_s=exact.bound_s, outcome="optimal" if optimal else solution.outcome)


def _better(solution: Solution, exact: Solution | None) -> str | None:
    """A sentence if the exact agent's own plan is the faster one."""
    if exact is None or exact.report is None or solution.report is None:
        return None
    if exact.report.latency_ps >= solution.report.latency_ps:
        return None
    from memplace_env.views.units import ratio

    known = "proven optimal" if exact.outcome == "optimal" else "not proven optimal"
    return (
        f"The exact agent found a faster plan while it proved the bound: {ratio(exact.speedup)} over native, {known}; "
        "--agent exact writes it."
    )


def _write(folder: Path, subject: Subject, plan: MemoryPlan, report: Report) -> dict[str, str | None]:
    """Write the results; where each of them is, None for a picture that cannot be drawn."""
    from memplace_env.cli.output import write_folder
    from memplace_env.views.figure import VisualizationError, to_png
    from memplace_env.views.memory_map import memory_map
    from memplace_env.views.trace import trace_json

    drawn = (subject.env.program, subject.env.accelerator, plan, report)
    try:
        picture: bytes | None = to_png(memory_map(*drawn, subject.baseline_report, subject.baseline))
    except VisualizationError as error:
        note(f"No picture: {error}")
        picture = None
    write_folder(folder, {PLAN: plan.to_json().encode(), PICTURE: picture, TRACE: trace_json(*drawn).encode()})
    return {
        "plan": str(folder / PLAN),
        "picture": str(folder / PICTURE) if picture else None,
        "trace": str(folder / TRACE),
    }


def _summary(
    subject: Subject,
    solution: Solution,
    exact: Solution | None,
    plan: MemoryPlan,
    report: Report,
    written: dict[str, str | None],
) -> dict[str, Any]:
    from memplace_env.views.hurts import hurts

    env = subject.env
    return {
        "workload": env.program.name,
        "program_sha256": env.program.sha256,
        "accelerator": env.accelerator.name,
        "settings": dict(plan.settings),
        **solution.summary(),
        "baseline": subject.baseline,
        "native": subject.baseline_report.summary(),
        "exact": exact.summary() if exact else None,
        "hurts": [hurt.to_json() for hurt in hurts(env.program, env.accelerator, plan, report)],
        "files": written,
    }


def _show(
    subject: Subject,
    solution: Solution,
    exact: Solution | None,
    plan: MemoryPlan,
    report: Report,
    rivals: Mapping[str, float],
) -> None:
    from memplace_env.cli.search import rivals_line
    from memplace_env.views.hurts import hurts
    from memplace_env.views.tables import bound_of, hurts_table, result_table
    from memplace_env.views.units import ratio, seconds

    console = stdout()
    program, chip = subject.env.program, subject.env.accelerator
    game = subject.formulation is Formulation.GAME
    proven = "proven optimal" if game else "proven optimal for one level a tensor"
    known = proven if solution.outcome == "optimal" else "the best it found"
    head = f"{program.name} ({program.dtype}) on {chip.name}: {seconds(report.latency_s)}, "
    head += f"{ratio(solution.speedup)} over {subject.baseline}, {known}"
    spent = (
        f"{solution.agent}, {solution.evaluations} plans evaluated in {solution.seconds:.1f} s, seed {solution.seed}"
    )
    console.print(head, style="bold", markup=False, soft_wrap=True)
    console.print(spent, style="dim", markup=False, soft_wrap=True)
    if rivals:
        console.print(f"Others at once: {rivals_line(rivals)}", style="dim", markup=False, soft_wrap=True)
    better = _better(solution, exact)
    if better:
        console.print(better, markup=False, soft_wrap=True)
    console.print()
    bound = bound_of(report, None if game else solution.bound_s)
    console.print(result_table(chip, report, subject.baseline_report, bound, subject.baseline), "")
    console.print(hurts_table(hurts(program, chip, plan, report), report), "")
