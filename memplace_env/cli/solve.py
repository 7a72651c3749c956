"""`memplace solve`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from memplace_env.cli.console import note, print_json, stdout
from memplace_env.cli.formulations import TRAITS, Formulation, agent_for
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
    from memplace_env.envs.malloc_game import MallocGameEnv
    from memplace_env.envs.one_shot import OneShotEnv
    from memplace_env.plan import MemoryPlan
    from memplace_env.simulator import Report

_DEFAULTS = ", ".join(f"{formulation.value}: {traits.agent}" for formulation, traits in TRAITS.items())
PLAN, PICTURE, TRACE = "plan.json", "plan.png", "trace.json"

NO_PLAN = 1


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
    (native), what still hurts and the files. Exit code 1 if the search ended without a plan.
    """
    flags = ModelFlags.parse(accelerator, batch, dim, dtype, fusion, simulator)
    from memplace_env.cli.output import check_folder, default_folder
    from memplace_env.cli.search import search
    from memplace_env.errors import AgentError

    if budget < 1:
        raise AgentError(f"--budget {budget} leaves nothing to do; pass at least 1.")
    if time_limit is not None and not time_limit > 0:
        raise AgentError(f"--time-limit {time_limit:g} leaves nothing to do; pass more than 0.")
    solver = agent_for(formulation, agent)
    if out is not None:
        check_folder(out)
    model, flags = flags.registered(model, formulation)
    subject = _subject(model, flags, formulation)
    env = subject.env
    folder = out or default_folder(model, env.accelerator.name)
    check_folder(folder)

    baseline_s = subject.baseline_report.latency_s
    solution = search(solver, env, subject.baseline, baseline_s, budget=budget, seed=seed, time_limit=time_limit)
    if solution.plan is None or solution.report is None:
        note(f"{solver.name} found no plan ({solution.outcome}); nothing was written.")
        if json:
            print_json(solution.summary())
        raise typer.Exit(NO_PLAN)
    written = _write(folder, subject, solution.plan, solution.report)
    if json:
        print_json(_summary(subject, solution, solution.plan, solution.report, written))
        return
    _show(subject, solution, solution.plan, solution.report)
    stdout().print("Written: " + ", ".join(path for path in written.values() if path), markup=False, soft_wrap=True)


class _Subject(NamedTuple):
    """An environment, and what a plan for it is measured against."""

    env: OneShotEnv | MallocGameEnv
    baseline: str
    baseline_report: Report


def _subject(model: str, flags: ModelFlags, formulation: Formulation) -> _Subject:
    baseline = TRAITS[formulation].baseline
    if formulation is Formulation.GAME:
        from memplace_env.cli.games import make_game
        from memplace_env.compiler import all_backing

        game = make_game(model, flags)
        plan = all_backing(game.program, game.accelerator)
        return _Subject(game, baseline, game.simulator.run(game.program, game.accelerator, plan))
    import gymnasium as gym

    from memplace_env.envs.one_shot import OneShotEnv

    env = gym.make(TRAITS[formulation].env_id, disable_env_checker=True, **flags.arguments(model)).unwrapped
    assert isinstance(env, OneShotEnv)
    return _Subject(env, baseline, env.problem.native_report)


def _write(folder: Path, subject: _Subject, plan: MemoryPlan, report: Report) -> dict[str, str | None]:
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
    subject: _Subject, solution: Solution, plan: MemoryPlan, report: Report, written: dict[str, str | None]
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
        "hurts": [hurt.to_json() for hurt in hurts(env.program, env.accelerator, plan, report)],
        "files": written,
    }


def _show(subject: _Subject, solution: Solution, plan: MemoryPlan, report: Report) -> None:
    from memplace_env.views.hurts import hurts
    from memplace_env.views.tables import bound_of, hurts_table, result_table
    from memplace_env.views.units import ratio, seconds

    console = stdout()
    program, chip = subject.env.program, subject.env.accelerator
    game = subject.baseline == TRAITS[Formulation.GAME].baseline
    proven = "proven optimal" if game else "proven optimal for one level a tensor"
    known = proven if solution.outcome == "optimal" else "the best it found"
    head = f"{program.name} ({program.dtype}) on {chip.name}: {seconds(report.latency_s)}, "
    head += f"{ratio(solution.speedup)} over {subject.baseline}, {known}"
    spent = (
        f"{solution.agent}, {solution.evaluations} plans evaluated in {solution.seconds:.1f} s, seed {solution.seed}"
    )
    console.print(head, style="bold", markup=False, soft_wrap=True)
    console.print(f"{spent}\n", style="dim", markup=False, soft_wrap=True)
    bound = bound_of(report, None if game else solution.bound_s)
    console.print(result_table(chip, report, subject.baseline_report, bound, subject.baseline), "")
    console.print(hurts_table(hurts(program, chip, plan, report), report), "")
