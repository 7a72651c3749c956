"""What is shown of a game: numbers, words and pictures."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

import memplace_env  # noqa: F401
from memplace_env.accelerator import load_accelerator
from memplace_env.cli.games import actions_of, greedy_actions
from memplace_env.envs.malloc_game import MallocGameEnv, MallocGameProblem
from memplace_env.envs.malloc_game.state import COPY, ESTIMATE, NO_COPY, USE
from memplace_env.envs.malloc_game.viewer import render
from memplace_env.errors import PlanError
from memplace_env.plan import MemoryPlan
from memplace_env.simulator import simulate
from memplace_env.views.game_map import WINDOW, game_map
from memplace_env.views.game_snapshot import snapshot, why_illegal
from memplace_env.views.game_text import profile_text
from memplace_env.workload.program import Ints
from memplace_env.workload.resolve import resolve_workload

CHIP = load_accelerator("tpu-v4i")


def game(shape: str = "diamond", ops: int = 9, seed: int = 1) -> MallocGameProblem:
    chip = "" if shape == "random" else "&accelerator=tpu-v4i"
    return MallocGameProblem(resolve_workload(f"synthetic:{shape}?ops={ops}&seed={seed}{chip}"), CHIP)


def play(problem: MallocGameProblem, decisions: int, seed: int = 0, favoured: int | None = None) -> Ints:
    """A row after so many random decisions."""
    rng, rows = np.random.default_rng(seed), problem.new_rows(1)
    for _ in range(decisions):
        legal = np.flatnonzero(problem.legal(rows)[0])
        wanted = favoured if favoured in legal else int(rng.choice(legal))
        problem.play(rows, np.array([wanted]))
    last: Ints = rows[0]
    return last


@pytest.mark.parametrize(("shape", "seed"), [("diamond", 1), ("fan-out", 2), ("random", 3), ("random", 4)])
def test_snapshot_agrees_with_simulator_and_plan(shape: str, seed: int) -> None:
    problem = game(shape, 16, seed)
    row = play(problem, problem.num_decisions, seed)
    moment, plan = snapshot(problem, row), problem.plan(row)
    report = simulate(problem.program, CHIP, plan)
    np.testing.assert_array_equal(moment.op_ps, report.op_time_ps)
    np.testing.assert_array_equal(moment.busy_ps, report.port_ps[:, 1])
    assert (moment.copies_ps >= 0).all()
    assert (moment.free_ps >= 0).all()
    assert moment.estimates_ps[0] == problem.all_backing_ps
    assert moment.estimates_ps[-1] + moment.tail_ps == moment.estimate_ps == report.latency_ps
    assert moment.decision is None
    placed = sorted(zip(*(part.tolist() for part in moment.blocks[:3]), moment.blocks.end.tolist(), strict=True))
    assert placed == sorted((k, offset, start, end + 1) for k, _, offset, start, end in plan.allocations.tolist())


def test_decisions_say_what_actions_do() -> None:
    """Every gain is what playing brings; every illegal action has a reason."""
    problem = game("diamond", 9, 5)
    kinds = set()
    for seed in range(4):
        for decisions in range(problem.num_decisions):
            row = play(problem, decisions, seed)
            decision = snapshot(problem, row).decision
            assert decision is not None
            for action, gain in enumerate(decision.gains):
                if gain is None:
                    kinds.add(why_illegal(snapshot(problem, row), action))
                else:
                    rows = row[None].copy()
                    problem.play(rows, np.array([action]))
                    assert row[ESTIMATE] - rows[0, ESTIMATE] == gain
    assert {"it is not in CMEM", "HBM does not hold it", "no room in CMEM"} <= kinds


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_picture(share: float) -> None:
    problem = game()
    row = play(problem, int(share * problem.num_decisions))
    before = row.copy()
    image = render(problem, row, "rgb_array")
    assert isinstance(image, np.ndarray)
    assert image.shape == (800, 1200, 3)
    assert image.dtype == np.uint8
    np.testing.assert_array_equal(image, render(problem, row, "rgb_array"))
    np.testing.assert_array_equal(row, before)


def test_long_programs_pass_by() -> None:
    """A window while the game goes on, with the current op in it; everything at the end."""
    problem = game("chain", 150)
    for decisions in (0, problem.num_decisions // 2, problem.num_decisions - 1):
        row = play(problem, decisions, favoured=NO_COPY)
        moment = snapshot(problem, row)
        (left, right) = game_map(moment).axes[-1].get_xlim()
        assert right - left == WINDOW
        assert left <= moment.op < right
    end = game_map(snapshot(problem, play(problem, problem.num_decisions, favoured=COPY)))
    assert end.axes[-1].get_xlim()[0] == 0
    assert end.axes[-1].get_xlim()[1] >= 150


def test_words() -> None:
    problem = game()
    text = render(problem, play(problem, 5), "ansi")
    assert isinstance(text, str)
    for part in ("decision 6 of", "0 Copy", "1 NoCopy", "2 Drop", "estimated latency", "CMEM"):
        assert part in text
    assert "the game is over" in str(render(problem, play(problem, problem.num_decisions), "ansi"))


def test_letters() -> None:
    problem = game()
    row = problem.new_rows(1)[0]
    assert "◆" in profile_text(snapshot(problem, play(problem, 2))).plain
    assert "█" not in profile_text(snapshot(problem, row)).plain.rsplit("op", 1)[0]
    assert "█" in profile_text(snapshot(problem, play(problem, 12, favoured=NO_COPY))).plain.rsplit("op", 1)[0]


def test_environment_renders() -> None:
    env = gym.make("MallocGame-v0", workload="synthetic:diamond?ops=9&seed=1", render_mode="ansi").unwrapped
    assert isinstance(env, MallocGameEnv)
    env.reset()
    assert "decision 1 of" in env.render()


@pytest.mark.parametrize("seed", range(6))
def test_actions_of_a_plan(seed: int) -> None:
    """Replaying them ends in the plan they came from."""
    problem = game("random", 14, seed)
    row = play(problem, problem.num_decisions, seed)
    plan = problem.plan(row)
    rows = problem.new_rows(1)
    problem.replay(rows, actions_of(problem, plan)[None])
    assert problem.plan(rows[0]) == plan


def test_greedy_actions() -> None:
    problem = game("random", 14)
    greedy, rows = problem.new_rows(1), problem.new_rows(1)
    problem.finish_greedily(greedy)
    problem.replay(rows, greedy_actions(problem)[None])
    assert rows[0, ESTIMATE] == greedy[0, ESTIMATE]
    assert rows[0, USE] == problem.num_decisions


def test_plans_of_no_game() -> None:
    problem = game()
    rows = problem.new_rows(1)
    problem.finish_greedily(rows)
    plan = problem.plan(rows[0])
    moved = plan.allocations.copy()
    moved[:, 2] += 64
    other = MemoryPlan.of(problem.program, CHIP, plan.use_level, moved, plan.transfers)
    with pytest.raises(PlanError, match="not the end of any game"):
        actions_of(problem, other)
    with pytest.raises(PlanError, match="another program"):
        actions_of(game(seed=2), plan)
