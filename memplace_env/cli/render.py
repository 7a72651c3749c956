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
from memplace_env.cli.model_flags import ModelFlags, model_flags
from memplace_env.cli.options import Model
from memplace_env.errors import AgentError, MemPlaceError
from memplace_env.registration import Formulation

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


@model_flags(without=["simulator"])
def render(
    model: Model,
    out: Annotated[Path, typer.Option("--out", help="A .png of the game's end, or a .gif of its course.")],
    plan: Annotated[Path | None, typer.Argument(metavar="[PLAN]", help="The plan.json of a game.")] = None,
    *,
    agent: Annotated[str | None, typer.Option("--agent", help="Let this agent play; see 'memplace agents'.")] = None,
    budget: Annotated[int, typer.Option("--budget", min=1, help="Games that the agent plays at most.")] = 4000,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of all randomness.")] = 0,
    every: Annotated[
        int | None,
        typer.Option("--every", min=1, help="Decisions from frame to frame.", show_default=f"{MOST_FRAMES} frames"),
    ] = None,
    flags: ModelFlags,
) -> None:
    """Draw a game: that of a plan, an agent's, or else a greedy one."""
    if plan is not None and agent is not None:
        raise AgentError("A plan needs no agent; pass PLAN or --agent, not both.")
    if out.suffix.lower() not in (".png", ".gif"):
        raise MemPlaceError(f"--out {out} should end in .png, a picture, or in .gif, an animation.")
    from memplace_env.views.style import require_packages

    require_packages(animation=out.suffix.lower() == ".gif")
    if plan is not None:
        env, actions = _of_plan(model, flags, plan)
    elif agent is not None:
        env, actions = _of_agent(model, flags, agent, budget, seed)
    else:
        env, actions = _greedy(model, flags)
    stdout().print(f"Written: {out} ({_drawn(env.problem, actions, every, out)})", soft_wrap=True)


def _of_plan(model: str, flags: ModelFlags, path: Path) -> tuple[MallocGameEnv, Ints]:
    """The game that ends in a plan, and all its actions."""
    from memplace_env.analysis.game_actions import actions_of
    from memplace_env.cli.environments import make_game
    from memplace_env.cli.saved_plans import blaming
    from memplace_env.plan import MemoryPlan

    plan = MemoryPlan.load(path)
    with blaming(plan, path, model):
        env = make_game(model, flags.with_defaults_of(plan))
    return env, actions_of(env.problem, plan)


def _of_agent(model: str, flags: ModelFlags, name: str, budget: int, seed: int) -> tuple[MallocGameEnv, Ints]:
    """The best game that an agent finds, and all its actions."""
    from memplace_env.analysis.game_actions import actions_of
    from memplace_env.cli.agent_choice import choose_agent
    from memplace_env.cli.environments import make_game
    from memplace_env.cli.search import Limits, search

    agent = choose_agent(Formulation.GAME, name).make()
    env = make_game(*flags.registered(model, Formulation.GAME))
    solution = search(agent, env, Limits(budget, seed))
    if solution.plan is None:
        raise AgentError(f"{agent.name} found no plan ({solution.outcome}), so there is nothing to draw.")
    return env, actions_of(env.problem, solution.plan)


def _greedy(model: str, flags: ModelFlags) -> tuple[MallocGameEnv, Ints]:
    """The greedy game, and all its actions."""
    from memplace_env.analysis.game_actions import greedy_actions
    from memplace_env.cli.environments import make_game

    env = make_game(*flags.registered(model, Formulation.GAME))
    return env, greedy_actions(env.problem)


def _drawn(problem: MallocGameProblem, actions: Ints, every: int | None, path: Path) -> str:
    """Draw into the file; how many frames it has then."""
    from memplace_env.analysis.game_snapshot import snapshot_of
    from memplace_env.views.figures.game import game_map
    from memplace_env.views.style import save_png

    if path.suffix.lower() == ".png":
        save_png(game_map(snapshot_of(problem, _end(problem, actions))), path)
        return "1 frame"
    step = every or -(-problem.num_decisions // MOST_FRAMES)
    return f"{_animate(problem, actions, step, path)} frames"


def _end(problem: MallocGameProblem, actions: Ints) -> Ints:
    """int64[size], the state after all actions."""
    states = problem.new_states(1)
    problem.replay(states, actions[None].copy())
    last: Ints = states[0]
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

    from memplace_env.analysis.game_snapshot import snapshot_of
    from memplace_env.views.figures.game import game_map
    from memplace_env.views.style import to_rgb

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
