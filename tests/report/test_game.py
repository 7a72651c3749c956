"""Moments of games in numbers, and the actions that lead to a plan."""

from __future__ import annotations

import re
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memplace_env._lib.errors import PlanError
from memplace_env.envs.malloc_game import MallocGameProblem
from memplace_env.envs.malloc_game.plan_actions import actions_of, greedy_actions
from memplace_env.envs.malloc_game.state import ESTIMATE, USE
from memplace_env.envs.malloc_game.viewer.game_snapshot import snapshot_of, why_illegal
from memplace_env.envs.malloc_game.viewer.game_text import decision_text
from memplace_env.placement.resolve_task import resolve_task
from memplace_env.placement.simulator import evaluate_plan
from memplace_env.placement.task import Task
from tests.envs.both_sides import ACTIONS, TASTES, pick
from tests.references.reference_game import Game
from tests.strategies import game_tasks
from tests.subjects import layers_of_rows, play_randomly, small_game


@pytest.mark.parametrize(("shape", "seed"), [("diamond", 1), ("fan-out", 2), ("random", 3), ("random", 4)])
def test_snapshot_agrees_with_simulator_and_plan(shape: str, seed: int) -> None:
    problem = small_game(shape, 16, seed)
    state = play_randomly(problem, problem.num_decisions, seed)
    moment, plan = snapshot_of(problem, state), problem.plan(state)
    report = evaluate_plan(problem.task, plan)
    np.testing.assert_array_equal(moment.op_ps, report.op_time_ps)
    np.testing.assert_array_equal(moment.busy_ps, report.port_ps[:, 1])
    assert (moment.copies_ps >= 0).all()
    assert (moment.free_ps >= 0).all()
    assert moment.estimates_ps[0] == problem.all_backing_ps
    assert moment.estimates_ps[-1] + moment.tail_ps == moment.estimate_ps == report.latency_ps
    assert moment.decision is None
    placed = sorted(zip(*(part.tolist() for part in moment.blocks[:3]), moment.blocks.end.tolist(), strict=True))
    assert placed == sorted((k, offset, start, end + 1) for k, _, offset, start, end in plan.allocations.tolist())
    assert moment.peak_bytes == report.peak_bytes[0]
    assert moment.copies == ((plan.transfers[:, 1] == 1).sum(), (plan.transfers[:, 1] == 0).sum())


def test_decisions_say_what_actions_do() -> None:
    """Every gain is what playing brings; every illegal action has a reason."""
    problem = small_game("diamond", 9, 5)
    reasons = set()
    for seed in range(4):
        for decisions in range(problem.num_decisions):
            state = play_randomly(problem, decisions, seed)
            moment = snapshot_of(problem, state)
            assert moment.decision is not None
            for action, gain in enumerate(moment.decision.gains):
                if gain is None:
                    reasons.add(why_illegal(moment, action))
                else:
                    after = state[None].copy()
                    problem.play(after, np.array([action]))
                    assert state[ESTIMATE] - after[0, ESTIMATE] == gain
    assert {"it is not in CMEM", "HBM does not hold it", "no room in CMEM"} <= reasons


REASONS = {
    r"the write-back of tensor \d+ begins with op \d+": "its way back begins with this op",
    r"tensor \d+ is not in the backing memory at op \d+": "backing does not hold it",
    r"tensor \d+ has no block that still holds its data": "it is not in fast",
    r"graph output \d+ would never reach the backing memory: this is its last use": "a graph output must reach backing",
    r"graph output \d+ would never reach the backing memory: it has no later use": "a graph output must reach backing",
    r"tensor \d+ is in fast memory and in the backing memory already": "backing holds it already",
    r"tensor \d+ is being written back already": "it is on its way back",
    r"no use of tensor \d+ follows": "nothing needs it later",
    r"a copy of tensor \d+ takes no time, which is no copy": "a copy would take no time",
    r"op (\d+) is too early to have tensor \d+ copied in": r"too late to copy it before op \1",
    r"no gap of \d+ bytes is free during op \d+ and op (\d+)": r"no room in fast before op \1",
    r"no gap of \d+ bytes is free at op \d+, whatever it waits for": "no room in fast",
    r"it may take to the end to send tensor \d+ back, and a later op reserves bytes where it lies": (
        "a later op reserves that part of fast"
    ),
}
"""Phrases of the reference for illegal actions, and those shown to players."""


def test_players_are_told_the_rule_that_forbids() -> None:
    """Every illegal action gets the same reason as the reference says, in fewer words; every rule occurs."""
    met = set()

    @settings(max_examples=200)
    @given(game_tasks(), st.integers(0, 2**32), TASTES)
    def play(task: Task, seed: int, taste: list[int]) -> None:
        rng, problem, game = Random(seed), MallocGameProblem(task), Game.begin(task)
        states = problem.new_states(1)
        while not game.over:
            moment = snapshot_of(problem, states[0])
            verdicts = [game.legal(action) for action in ACTIONS]
            for action, (legal, reason) in enumerate(verdicts):
                if not legal:
                    rule = next(rule for rule in REASONS if re.fullmatch(rule, reason))
                    assert why_illegal(moment, action) == re.sub(rule, REASONS[rule], reason)
                    met.add(rule)
            action = pick(rng, [action for action in ACTIONS if verdicts[action][0]], taste)
            game.play(action)
            problem.play(states, np.array([action]))

    play()
    assert met == REASONS.keys()


@pytest.mark.parametrize("seed", range(6))
def test_actions_of_a_plan(seed: int) -> None:
    """Replaying them ends in the plan they came from."""
    problem = small_game("random", 14, seed)
    plan = problem.plan(play_randomly(problem, problem.num_decisions, seed))
    states = problem.new_states(1)
    problem.replay(states, actions_of(problem, plan)[None])
    assert problem.plan(states[0]) == plan


def test_greedy_actions() -> None:
    problem = small_game("random", 14)
    greedy, states = problem.new_states(1), problem.new_states(1)
    problem.finish_greedily(greedy)
    problem.replay(states, greedy_actions(problem)[None])
    assert states[0, ESTIMATE] == greedy[0, ESTIMATE]
    assert states[0, USE] == problem.num_decisions


def test_plans_of_no_game() -> None:
    problem = small_game()
    states = problem.new_states(1)
    problem.finish_greedily(states)
    plan = problem.plan(states[0])
    moved = plan.allocations.copy()
    moved[:, 2] += 64
    other = problem.task.make_plan(plan.use_level, moved, plan.transfers)
    with pytest.raises(PlanError, match="not the end of any game"):
        actions_of(problem, other)
    with pytest.raises(PlanError, match="another program"):
        actions_of(small_game(seed=2), plan)


def test_decisions_about_a_slice_name_its_tensor() -> None:
    problem = MallocGameProblem(resolve_task(layers_of_rows(), "edge-tpu", slices=0.02))
    texts = [decision_text(snapshot_of(problem, play_randomly(problem, done, 0))) for done in range(10)]
    count = int((problem.program.whole_tensor == 1).sum())
    share = 100 / count
    assert texts[0] == "Op 0, Gemm, reads the input x (3 MiB)."
    assert texts[1].startswith(f"Op 0, Gemm, reads the weight layer.0.weight, slice 1 of {count}, {share:.0f} % (")
    assert not any("[" in text for text in texts)
