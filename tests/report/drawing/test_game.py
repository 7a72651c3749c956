"""Views of a game: words and pictures."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

import memplace_env  # noqa: F401
from memplace_env.envs.malloc_game import MallocGameEnv
from memplace_env.envs.malloc_game.state import COPY, NO_COPY
from memplace_env.envs.malloc_game.viewer.game_figure import WINDOW, game_map
from memplace_env.envs.malloc_game.viewer.game_snapshot import snapshot_of
from memplace_env.envs.malloc_game.viewer.game_text import board_text
from memplace_env.envs.malloc_game.viewer.viewer import render
from tests.subjects import play_randomly, small_game


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_picture(share: float) -> None:
    problem = small_game()
    state = play_randomly(problem, int(share * problem.num_decisions))
    before = state.copy()
    image = render(problem, state, "rgb_array")
    assert isinstance(image, np.ndarray)
    assert image.shape == (800, 1200, 3)
    assert image.dtype == np.uint8
    np.testing.assert_array_equal(image, render(problem, state, "rgb_array"))
    np.testing.assert_array_equal(state, before)


def test_long_programs_pass_by() -> None:
    """A window while the game goes on, with the current op in it; everything at the end."""
    problem = small_game("random", 150)
    for decisions in (0, problem.num_decisions // 2, problem.num_decisions - 1):
        moment = snapshot_of(problem, play_randomly(problem, decisions, favoured=NO_COPY))
        (left, right) = game_map(moment).axes[-1].get_xlim()
        assert right - left == WINDOW
        assert left <= moment.op < right
    end = game_map(snapshot_of(problem, play_randomly(problem, problem.num_decisions, favoured=COPY)))
    assert end.axes[-1].get_xlim()[0] == 0
    assert end.axes[-1].get_xlim()[1] >= 150


def test_words() -> None:
    problem = small_game()
    text = render(problem, play_randomly(problem, 5), "ansi")
    assert isinstance(text, str)
    for part in ("decision 6 of", "0 Copy", "1 NoCopy", "2 Drop", "estimated latency", "CMEM"):
        assert part in text
    assert "the game is over" in str(render(problem, play_randomly(problem, problem.num_decisions), "ansi"))


def test_letters() -> None:
    problem = small_game()
    begun, placed, full = (
        board_text(snapshot_of(problem, play_randomly(problem, decisions, favoured=favoured))).plain
        for decisions, favoured in ((0, None), (2, None), (12, NO_COPY))
    )
    assert "◆" in placed
    assert "█" not in begun.rsplit("op", 1)[0]
    assert "█" in full.rsplit("op", 1)[0]


def test_environment_renders() -> None:
    env = gym.make("MallocGame-v0", workload="synthetic:diamond?ops=9&seed=1", render_mode="ansi").unwrapped
    assert isinstance(env, MallocGameEnv)
    env.reset()
    assert "decision 1 of" in env.render()
