"""Pictures of a game."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from memplace_env.envs.malloc_game.problem import MallocGameProblem
from memplace_env.workload.program import Ints


def render(problem: MallocGameProblem, state: Ints, mode: str) -> NDArray[np.uint8] | str:
    """`rgb_array`: the game so far as uint8[800, 1200, 3]; `ansi`: the current decision in a few lines.

    Raises:
        VisualizationError: for `rgb_array` without matplotlib.
    """
    from memplace_env.views.game_snapshot import snapshot

    moment = snapshot(problem, state)
    if mode == "ansi":
        from memplace_env.views.game_text import game_text

        return game_text(moment)
    from memplace_env.views.figure import to_rgb
    from memplace_env.views.game_map import game_map

    return to_rgb(game_map(moment))
