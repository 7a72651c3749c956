"""`memplace solve`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memplace_env.cli.console import note, print_json, stdout
from memplace_env.cli.options import (
    AcceleratorFlag,
    BatchFlag,
    DimFlag,
    DtypeFlag,
    FusionFlag,
    JsonFlag,
    Model,
    ModelFlags,
    SimulatorFlag,
)

if TYPE_CHECKING:
    from agents import Solution
    from memplace_env.envs.one_shot import OneShotEnv
    from memplace_env.plan import MemoryPlan
    from memplace_env.simulator import Report

DEFAULT_AGENT = "exact"
PLAN, PICTURE, TRACE = "plan.json", "plan.png", "trace.json"

NO_PLAN = 1


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog="Example: memplace solve BERT --agent greedy-dp --budget 4000 --out out/bert")(solve)


def solve(
    model: Model,
    accelerator: AcceleratorFlag = None,
    agent: Annotated[str, typer.Option("--agent", help="Who searches; see 'memplace agents'.")] = DEFAULT_AGENT,
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
    model is passed. --json prints the agent's summary (speedup, gap, bound_s, report, ...) with the native report,
    what still hurts and the files. Exit code 1 if the search ended without a plan.
    """
    flags = ModelFlags.parse(accelerator, batch, dim, dtype, fusion, simulator)
    from agents import make_agent
    from memplace_env.cli.output import check_folder, default_folder
    from memplace_env.cli.search import search
    from memplace_env.errors import AgentError

    if budget < 1:
        raise AgentError(f"--budget {budget} leaves nothing to do; pass at least 1.")
    if time_limit is not None and not time_limit > 0:
        raise AgentError(f"--time-limit {time_limit:g} leaves nothing to do; pass more than 0.")
    solver = make_agent(agent)
    if out is not None:
        check_folder(out)
    model, flags = flags.registered(model)
    env = _make(model, flags)
    folder = out or default_folder(model, env.accelerator.name)
    check_folder(folder)

    native = env.problem.native_report
    solution = search(solver, env, native.latency_s, budget=budget, seed=seed, time_limit=time_limit)
    if solution.plan is None or solution.report is None:
        note(f"{solver.name} found no plan ({solution.outcome}); nothing was written.")
        if json:
            print_json(solution.summary())
        raise typer.Exit(NO_PLAN)
    written = _write(folder, env, solution.plan, solution.report)
    if json:
        print_json(_summary(env, solution, solution.plan, solution.report, written))
        return
    _show(env, solution, solution.plan, solution.report)
    stdout().print("Written: " + ", ".join(path for path in written.values() if path), markup=False, soft_wrap=True)


def _make(model: str, flags: ModelFlags) -> OneShotEnv:
    import gymnasium as gym

    from memplace_env.envs.one_shot import OneShotEnv

    env = gym.make("MemPlace-v0", disable_env_checker=True, **flags.arguments(model)).unwrapped
    assert isinstance(env, OneShotEnv)
    return env


def _write(folder: Path, env: OneShotEnv, plan: MemoryPlan, report: Report) -> dict[str, str | None]:
    """Write the results; where each of them is, None for a picture that cannot be drawn."""
    from memplace_env.cli.output import write_folder
    from memplace_env.views.figure import VisualizationError, to_png
    from memplace_env.views.memory_map import memory_map
    from memplace_env.views.trace import trace_json

    subject = (env.program, env.accelerator, plan, report)
    try:
        picture: bytes | None = to_png(memory_map(*subject, env.problem.native_report))
    except VisualizationError as error:
        note(f"No picture: {error}")
        picture = None
    write_folder(folder, {PLAN: plan.to_json().encode(), PICTURE: picture, TRACE: trace_json(*subject).encode()})
    return {
        "plan": str(folder / PLAN),
        "picture": str(folder / PICTURE) if picture else None,
        "trace": str(folder / TRACE),
    }


def _summary(
    env: OneShotEnv, solution: Solution, plan: MemoryPlan, report: Report, written: dict[str, str | None]
) -> dict[str, Any]:
    from memplace_env.views.hurts import hurts

    return {
        "workload": env.program.name,
        "program_sha256": env.program.sha256,
        "accelerator": env.accelerator.name,
        "settings": dict(plan.settings),
        **solution.summary(),
        "native": env.problem.native_report.summary(),
        "hurts": [hurt.to_json() for hurt in hurts(env.program, env.accelerator, plan, report)],
        "files": written,
    }


def _show(env: OneShotEnv, solution: Solution, plan: MemoryPlan, report: Report) -> None:
    from memplace_env.views.hurts import hurts
    from memplace_env.views.tables import bound_of, hurts_table, result_table
    from memplace_env.views.units import ratio, seconds

    console = stdout()
    program, chip = env.program, env.accelerator
    known = {"optimal": "proven optimal for one level a tensor"}.get(solution.outcome, "the best it found")
    head = f"{program.name} ({program.dtype}) on {chip.name}: {seconds(report.latency_s)}, "
    head += f"{ratio(solution.speedup)} over native, {known}"
    spent = (
        f"{solution.agent}, {solution.evaluations} plans evaluated in {solution.seconds:.1f} s, seed {solution.seed}"
    )
    console.print(head, style="bold", markup=False, soft_wrap=True)
    console.print(f"{spent}\n", style="dim", markup=False, soft_wrap=True)
    bound = bound_of(report, solution.bound_s)
    console.print(result_table(chip, report, env.problem.native_report, bound), "")
    console.print(hurts_table(hurts(program, chip, plan, report), report), "")
