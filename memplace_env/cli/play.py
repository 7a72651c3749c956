"""`memplace play`: play a game in the terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memplace_env.cli.console import print_json, stderr, stdout
from memplace_env.cli.model_flags import ModelFlags, baseline_of, make_game, model_flags
from memplace_env.cli.shared_options import FileFlag, JsonFlag, Model
from memplace_env.envs.registration import Formulation

if TYPE_CHECKING:
    from rich.console import Console

    from memplace_env.envs.malloc_game import MallocGameEnv
    from memplace_env.envs.malloc_game.viewer.game_snapshot import GameSnapshot
    from memplace_env.program.program import Ints

KEYS = "c Copy, n NoCopy, d Drop, g greedy to the end, u undo, q quit"
_ACTIONS = "cnd"
_FRAME = 14
"""Columns that the picture needs beside its ops."""


@model_flags()
def play(
    model: Model,
    *,
    flags: ModelFlags,
    skip_forced: Annotated[
        bool, typer.Option("--skip-forced", help="Play decisions with one legal action without asking.")
    ] = False,
    out: FileFlag = None,
    json: JsonFlag = False,
) -> None:
    """Play a game: decide use by use what lives in fast memory; --out keeps the plan.

    Keys: c Copy, n NoCopy, d Drop, g greedy to the end, u undo, q quit. A line may hold several. When you quit,
    undecided tensors stay out of fast memory where that is legal. With --simulator the board estimates by the costs,
    and the latency at the end is the simulator's. --json shows the board on stderr. It prints latency_s, speedup over
    all in backing memory, the numbers of decisions made and left out, and the plan's file.
    """
    model, flags = flags.registered(model, Formulation.GAME)
    if out is not None and out.is_dir():
        raise typer.BadParameter(f"--out {out} is a folder; pass the name of a file, such as plan.json.")
    game = _Game(make_game(model, flags), skip_forced, stderr if json else stdout)
    game.show()
    for key in _keys(game):
        if key == "q":
            break
        game.press(key)
    result = game.end(out)
    if json:
        print_json(result)


def _keys(game: _Game) -> Iterator[str]:
    """Yield letters from stdin; show the board again after each line."""
    while True:
        if sys.stdin.isatty():
            game.console().print("> ", style="bold", end="")
        line = sys.stdin.readline()
        if not line:
            return
        yield from "".join(line.split()).lower()
        game.show()


class _Game:
    """A game, its earlier states, and the console that shows it."""

    def __init__(self, env: MallocGameEnv, skip_forced: bool, console: Callable[[], Console]) -> None:
        self._env = env
        self.console = console
        self._skip_forced = skip_forced
        self._before: list[Ints] = []
        env.reset()
        self._skip()

    def press(self, key: str) -> None:
        """Carry out the command of a key, or print why that is impossible."""
        legal = self._env.legal_actions()
        if key == "u":
            if self._before:
                self._env.set_state(self._before.pop())
            else:
                self._print("There is nothing to undo.")
        elif key not in _ACTIONS + "g":
            self._print(f"There is no key {key!r}; there are {KEYS}.")
        elif not legal:
            self._print("The game is over; u takes a decision back, q quits.")
        elif key == "g":
            state = self._env.get_state()
            self._before.append(state)
            finished = state[None].copy()
            self._env.problem.finish_greedily(finished)
            self._env.set_state(finished[0])
        else:
            self._act(_ACTIONS.index(key), legal)

    def show(self) -> None:
        """Print the board and the decision."""
        from memplace_env.envs.malloc_game.viewer.game_text import board_text, game_text

        console, moment = self.console(), self._moment()
        console.print(board_text(moment, max(20, min(100, console.width - _FRAME))), soft_wrap=True)
        self._print("\n" + game_text(moment) + (f"  {KEYS}" if moment.decision else "  u undo, q quit"))

    def end(self, out: Path | None) -> dict[str, Any]:
        """Print the result, write the plan, and return both as plain JSON values."""
        from memplace_env.report.quantities import ratio, seconds

        problem, decision, report = self._env.problem, self._moment().decision, self._env.report()
        speedup = baseline_of(self._env).report.latency_ps / report.latency_ps
        rest = problem.num_decisions - decision.use if decision else 0
        left = f", the last {rest} decisions left out of fast memory" if rest else ""
        self._print(f"Latency {seconds(report.latency_s)}, {ratio(speedup)} over all in backing memory{left}.")
        if out is not None:
            self._print(f"Written: {self._env.plan().save(out)}")
        return {
            "latency_s": report.latency_s,
            "speedup": speedup,
            "decisions": problem.num_decisions,
            "left_out": rest,
            "plan": None if out is None else str(out),
        }

    def _act(self, action: int, legal: list[int]) -> None:
        from memplace_env.envs.malloc_game.state import ACTIONS
        from memplace_env.envs.malloc_game.viewer.game_snapshot import why_illegal

        if action not in legal:
            legal_names = ", ".join(ACTIONS[other] for other in legal)
            self._print(f"{ACTIONS[action]} is illegal: {why_illegal(self._moment(), action)}. Legal: {legal_names}.")
            return
        self._before.append(self._env.get_state())
        self._env.step(action)
        self._skip()

    def _skip(self) -> None:
        while self._skip_forced and len(legal := self._env.legal_actions()) == 1:
            self._env.step(legal[0])

    def _moment(self) -> GameSnapshot:
        from memplace_env.envs.malloc_game.viewer.game_snapshot import snapshot_of

        return snapshot_of(self._env.problem, self._env.get_state())

    def _print(self, text: str) -> None:
        console = self.console()
        for line in text.split("\n"):
            console.print(line, soft_wrap=True)
