"""`memplace render`: pictures and animations of games."""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer
from numpy.typing import NDArray

from memplace_env.cli.console import stderr, stdout
from memplace_env.cli.formulations import TRAITS, Formulation, agent_for
from memplace_env.cli.options import (
    AcceleratorFlag,
    BatchFlag,
    DimFlag,
    DtypeFlag,
    FusionFlag,
    Model,
    ModelFlags,
)
from memplace_env.errors import AgentError, MemPlaceError

if TYPE_CHECKING:
    from PIL.Image import Image

    from memplace_env.envs.malloc_game import MallocGameEnv, MallocGameProblem
    from memplace_env.workload.program import Ints

MOST_FRAMES = 200
_FRAME_MS, _LAST_MS = 125, 3000
_COLOURS = 128


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog="Example: memplace render ResNet50 --out game.gif --every 4")(render)


def render(
    model: Model,
    out: Annotated[Path, typer.Option("--out", help="A .png of the game's end, or a .gif of its course.")],
    plan: Annotated[Path | None, typer.Argument(metavar="[PLAN]", help="The plan.json of a game.")] = None,
    agent: Annotated[str | None, typer.Option("--agent", help="Let this agent play; see 'memplace agents'.")] = None,
    budget: Annotated[int, typer.Option("--budget", min=1, help="Games that the agent plays at most.")] = 4000,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of all randomness.")] = 0,
    every: Annotated[
        int | None,
        typer.Option("--every", min=1, help="Decisions from frame to frame.", show_default=f"{MOST_FRAMES} frames"),
    ] = None,
    accelerator: AcceleratorFlag = None,
    batch: BatchFlag = None,
    dim: DimFlag = None,
    dtype: DtypeFlag = None,
    fusion: FusionFlag = None,
) -> None:
    """Draw a game: that of a plan, an agent's, or else a greedy one."""
    from memplace_env.views.figure import save_png
    from memplace_env.views.game_map import game_map
    from memplace_env.views.game_snapshot import snapshot

    if plan is not None and agent is not None:
        raise AgentError("A plan needs no agent; pass PLAN or --agent, not both.")
    if out.suffix.lower() not in (".png", ".gif"):
        raise MemPlaceError(f"--out {out} should end in .png, a picture, or in .gif, an animation.")
    flags = ModelFlags.parse(accelerator, batch, dim, dtype, fusion)
    env, actions = _game(model, flags, plan, agent, budget, seed)
    problem = env.problem
    if out.suffix.lower() == ".png":
        save_png(game_map(snapshot(problem, _end(problem, actions))), out)
        drawn = "1 frame"
    else:
        step = every or -(-problem.num_decisions // MOST_FRAMES)
        drawn = f"{_animate(problem, actions, step, out)} frames"
    stdout().print(f"Written: {out} ({drawn})", markup=False, soft_wrap=True)


def _game(
    model: str, flags: ModelFlags, path: Path | None, agent: str | None, budget: int, seed: int
) -> tuple[MallocGameEnv, Ints]:
    """The game and all its actions."""
    from memplace_env.cli.games import actions_of, greedy_actions, make_game
    from memplace_env.plan import MemoryPlan

    if path is not None:
        plan = MemoryPlan.load(path)
        env = make_game(model, flags.with_defaults_of(plan))
        return env, actions_of(env.problem, plan)
    solver = None if agent is None else agent_for(Formulation.GAME, agent)
    env = make_game(*flags.registered(model, Formulation.GAME))
    if solver is None:
        return env, greedy_actions(env.problem)
    from memplace_env.cli.search import search

    baseline, baseline_s = TRAITS[Formulation.GAME].baseline, env.problem.all_backing_ps * 1e-12
    solution = search(solver, env, baseline, baseline_s, budget=budget, seed=seed, time_limit=None)
    if solution.plan is None:
        raise AgentError(f"{solver.name} found no plan ({solution.outcome}), so there is nothing to draw.")
    return env, actions_of(env.problem, solution.plan)


def _end(problem: MallocGameProblem, actions: Ints) -> Ints:
    rows = problem.new_rows(1)
    problem.replay(rows, actions[None].copy())
    last: Ints = rows[0]
    return last


def _animate(problem: MallocGameProblem, actions: Ints, every: int, path: Path) -> int:
    """Write the GIF, whole or not at all; returns how many frames it has."""
    from rich.progress import track

    from memplace_env.files import write_atomically

    count = -(-problem.num_decisions // every) + 1
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
    """A picture before every so many decisions and one of the end, all with the same colours."""
    from PIL import Image

    from memplace_env.views.figure import to_rgb
    from memplace_env.views.game_map import game_map
    from memplace_env.views.game_snapshot import snapshot

    def drawn(row: Ints) -> NDArray[np.uint8]:
        return to_rgb(game_map(snapshot(problem, row)))

    rows = problem.new_rows(2)
    for action in actions[: len(actions) // 2]:
        problem.play(rows[:1], action[None])
    last = drawn(_end(problem, actions))
    # The colours of the end alone would lack those of a decision.
    palette = Image.fromarray(np.concatenate([last, drawn(rows[0])])).quantize(_COLOURS, dither=Image.Dither.NONE)
    for use, action in enumerate(actions):
        if use % every == 0:
            yield Image.fromarray(drawn(rows[1])).quantize(palette=palette, dither=Image.Dither.NONE)
        problem.play(rows[1:], action[None])
    yield Image.fromarray(last).quantize(palette=palette, dither=Image.Dither.NONE)
