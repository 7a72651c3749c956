"""`memplace render`: pictures and animations of games, and pictures of runs."""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer
from numpy.typing import NDArray

from memplace_env._lib.errors import AgentError, MemPlaceError
from memplace_env._lib.units import ceil_div
from memplace_env.cli.console import print_json, stderr, stdout
from memplace_env.cli.model_flags import ModelFlags, make_game, model_flags
from memplace_env.cli.shared_options import BudgetFlag, JsonFlag, PlayerFlag, RequiredFile, SeedFlag
from memplace_env.envs.registration import Formulation

if TYPE_CHECKING:
    from PIL.Image import Image

    from memplace_env.envs.malloc_game import MallocGameEnv, MallocGameProblem
    from memplace_env.program.program import Ints

MOST_FRAMES = 200
"""Frames of an animation unless --every sets them. Our choice."""
RUNS = "event"
"""Name of the simulator whose runs can be drawn; the picture of a game shows costs."""
_FRAME_MS, _LAST_MS = 125, 3000
"""Milliseconds that a frame is shown, and the last one."""
_COLOURS = 128
"""Colours of an animation's palette, of the 256 that a GIF may have."""


@model_flags()
def render(
    model: Annotated[
        list[str],
        typer.Argument(
            metavar="[MODEL] [PLAN]", help="A model as for 'memplace play', the plan.json of a game, or both."
        ),
    ],
    *,
    out: RequiredFile,
    agent: PlayerFlag = None,
    budget: BudgetFlag = 4000,
    seed: SeedFlag = 0,
    every: Annotated[
        int | None,
        typer.Option("--every", min=1, help="Decisions between frames.", show_default=f"{MOST_FRAMES} frames"),
    ] = None,
    flags: ModelFlags,
    json: JsonFlag = False,
) -> None:
    """Draw a game: the game of a plan, an agent's best game, or else the greedy game.

    A file that ends in .png shows the end, in .gif the course of the game.

    With --simulator event it draws the run of that plan, or of a plan of any formulation: how busy the unit, the
    memories' ports and the copy engines are, and some tiles enlarged. --json prints the picture and its number of
    frames.
    """
    has_plan = _has_plan(model)
    if has_plan and agent is not None:
        raise AgentError("A plan needs no agent; pass PLAN or --agent, not both.")
    if out.suffix.lower() not in (".png", ".gif"):
        raise MemPlaceError(f"--out {out} should end in .png, a picture, or in .gif, an animation.")
    _check_simulator(flags.other_simulator, out)
    from memplace_env.report.style import require_packages

    require_packages(animation=out.suffix.lower() == ".gif")
    if flags.simulator == RUNS:
        _draw_run(model, flags, agent, budget, seed, out)
        frames = 1
    else:
        env, actions = _planned(model, flags) if has_plan else _played(model[0], flags, agent, budget, seed)
        frames = _draw(env.problem, actions, every, out)
    if json:
        print_json({"picture": str(out), "frames": frames})
    else:
        stdout().print(f"Written: {out} ({frames} frame{'s' if frames > 1 else ''})", soft_wrap=True)


def _check_simulator(name: str | None, out: Path) -> None:
    from memplace_env.placement.simulator import resolve_simulator

    if name not in (None, RUNS):
        resolve_simulator(name)
        raise MemPlaceError(
            f"--simulator {name} tells no times to draw; pass --simulator {RUNS} to draw a run, none to draw a game."
        )
    if name == RUNS and out.suffix.lower() != ".png":
        raise MemPlaceError(f"--simulator {RUNS} draws a picture, not an animation; end --out {out} in .png.")


def _draw_run(model: list[str], flags: ModelFlags, agent: str | None, budget: int, seed: int, out: Path) -> None:
    """Draw the run of a plan, or of the best or the greedy game."""
    from memplace_env.report.plans.evaluated_plan import EvaluatedPlan
    from memplace_env.report.style import save_png
    from memplace_env.report.timeline.machine_figure import machine_figure
    from memplace_env.report.timeline.timeline import event_spans

    if _has_plan(model):
        from memplace_env.cli.saved_plans import evaluate_saved, load_plan, named_plan

        task, plan = load_plan(*named_plan(model), flags)
        evaluated = evaluate_saved(task, plan)
    else:
        env, actions = _played(model[0], flags, agent, budget, seed)
        task, plan = env.task, env.problem.plan(_end(env.problem, actions))
        evaluated = EvaluatedPlan(plan, env.simulator.run(task.program, task.accelerator, plan))
    spans = event_spans(task, evaluated)
    assert spans is not None
    save_png(machine_figure(task, evaluated, spans), out)


def _has_plan(arguments: list[str]) -> bool:
    return len(arguments) > 1 or arguments[0].lower().endswith(".json")


def _planned(arguments: list[str], flags: ModelFlags) -> tuple[MallocGameEnv, Ints]:
    """Return the game that ends in a plan, and its actions."""
    from memplace_env.cli.saved_plans import named_plan, naming_mismatch, read_saved
    from memplace_env.envs.malloc_game.plan_actions import actions_of

    name, path = named_plan(arguments)
    plan, model, flags = read_saved(name, path, flags)
    with naming_mismatch(plan, path, model):
        env = make_game(model, flags)
    return env, actions_of(env.problem, plan)


def _played(model: str, flags: ModelFlags, agent: str | None, budget: int, seed: int) -> tuple[MallocGameEnv, Ints]:
    """Return the best game that an agent finds, or the greedy game if there is none, and its actions."""
    from memplace_env.cli.agent_choice import choose_agent
    from memplace_env.cli.agent_run import Limits, search
    from memplace_env.envs.malloc_game.plan_actions import actions_of, greedy_actions

    player = None if agent is None else choose_agent(Formulation.GAME, agent).make()
    env = make_game(*flags.registered(model, Formulation.GAME))
    if player is None:
        return env, greedy_actions(env.problem)
    solution = search(player, env, Limits(budget, seed))
    if solution.plan is None:
        raise AgentError(f"{player.name} found no plan ({solution.outcome}), so there is nothing to draw.")
    return env, actions_of(env.problem, solution.plan)


def _draw(problem: MallocGameProblem, actions: Ints, every: int | None, path: Path) -> int:
    """Draw into the file and return its number of frames."""
    from memplace_env.envs.malloc_game.viewer.game_figure import game_map
    from memplace_env.envs.malloc_game.viewer.game_snapshot import snapshot_of
    from memplace_env.report.style import save_png

    if path.suffix.lower() == ".png":
        save_png(game_map(snapshot_of(problem, _end(problem, actions))), path)
        return 1
    return _animate(problem, actions, every or ceil_div(problem.num_decisions, MOST_FRAMES), path)


def _end(problem: MallocGameProblem, actions: Ints) -> Ints:
    """Return int64[size], the state after all actions."""
    states = problem.new_states(1)
    problem.replay(states, actions[None].copy())
    last: Ints = states[0]
    return last


def _animate(problem: MallocGameProblem, actions: Ints, every: int, path: Path) -> int:
    """Write the GIF, whole or not at all, and return its number of frames."""
    from rich.progress import track

    from memplace_env._lib.files import write_atomically

    count = ceil_div(problem.num_decisions, every) + 1
    console = stderr()
    shown = track(
        _frames(problem, actions, every), "drawing", count, console=console, transient=True,
        disable=not console.is_terminal,
    )  # fmt: skip
    first, *others = shown
    buffer = BytesIO()
    durations = [_FRAME_MS] * (count - 1) + [_LAST_MS]
    first.save(buffer, "GIF", save_all=True, append_images=others, duration=durations, loop=0, optimize=False)
    write_atomically(path, buffer.getvalue())
    return count


def _frames(problem: MallocGameProblem, actions: Ints, every: int) -> Iterator[Image]:
    """Yield a picture before every `every`-th decision and one of the end, all with the same palette."""
    from PIL import Image

    from memplace_env.envs.malloc_game.viewer.game_figure import game_map
    from memplace_env.envs.malloc_game.viewer.game_snapshot import snapshot_of
    from memplace_env.report.style import to_rgb

    def drawn(state: Ints) -> NDArray[np.uint8]:
        return to_rgb(game_map(snapshot_of(problem, state)))

    states = problem.new_states(2)
    for action in actions[: len(actions) // 2]:
        problem.play(states[:1], action[None])
    last = drawn(_end(problem, actions))
    # The colours of the end alone would lack those of a decision.
    palette = Image.fromarray(np.concatenate([last, drawn(states[0])])).quantize(_COLOURS, dither=Image.Dither.NONE)
    for use, action in enumerate(actions):
        if use % every == 0:
            yield Image.fromarray(drawn(states[1])).quantize(palette=palette, dither=Image.Dither.NONE)
        problem.play(states[1:], action[None])
    yield Image.fromarray(last).quantize(palette=palette, dither=Image.Dither.NONE)
