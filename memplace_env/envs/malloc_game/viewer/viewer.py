"""Rendering of a game."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from memplace_env.envs.malloc_game.problem import MallocGameProblem
from memplace_env.program.program import Ints


def render(problem: MallocGameProblem, state: Ints, mode: str) -> NDArray[np.uint8] | str:
    """Return the game so far as uint8[800, 1200, 3] (`rgb_array`), or the current decision as text (`ansi`).

    Raises:
        VisualizationError: for `rgb_array` without matplotlib.
    """
    from memplace_env.envs.malloc_game.viewer.game_snapshot import snapshot_of

    snapshot = snapshot_of(problem, state)
    if mode == "ansi":
        from memplace_env.envs.malloc_game.viewer.game_text import game_text

        return game_text(snapshot)
    from memplace_env.envs.malloc_game.viewer.game_figure import game_map
    from memplace_env.report.style import to_rgb

    return to_rgb(game_map(snapshot))
