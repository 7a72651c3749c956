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
    from memplace_env.analysis.game_snapshot import snapshot_of

    moment = snapshot_of(problem, state)
    if mode == "ansi":
        from memplace_env.views.text.game import game_text

        return game_text(moment)
    from memplace_env.views.figures.game import game_map
    from memplace_env.views.style import to_rgb

    return to_rgb(game_map(moment))
