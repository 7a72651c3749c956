"""Zero-shot policies: features against plain loops, rewards that add up, exact answers, training that resumes."""

from dataclasses import replace

import numpy as np
import pytest

import memplace_env
from memplace_agents.cheap_plans import cheap_plans
from memplace_agents.learning import safe_files
from memplace_agents.policy import PolicyRun, PolicySettings, ProgramEpisodes
from memplace_agents.policy.entry_context import ROUNDS, messages, op_features
from memplace_agents.policy.policy_run import group_advantages, played_ps
from memplace_env.envs.steps import StepsProblem
from memplace_env.envs.steps.step_kernels import HEAD
from memplace_env.placement.resolve_task import resolve_task

QUICK = replace(PolicySettings(), imitation_rounds=2, reward_rounds=2, shown=1, played=2, steps=2, minibatch=64)


@pytest.fixture(scope="module")
def problems():
    return [StepsProblem(resolve_task(name, chip)) for name, chip in (("AlexNet", "nnp-i"), ("ResNet18", "edge-tpu"))]


@pytest.mark.parametrize("index", [0, 1])
def test_messages_are_means_over_ops_and_their_entries(problems, index):
    problem = problems[index]
    tables, rng = problem.tables, np.random.default_rng(0)
    own, ops = rng.normal(size=(problem.num_decisions, 3)), rng.normal(size=(len(tables.compute_ps), 2))
    entries_of = {op: [] for op in range(len(ops))}
    ops_of = [tables.entry_op[a:b].tolist() for a, b in zip(tables.op_ptr[:-1], tables.op_ptr[1:], strict=True)]
    for entry, its in enumerate(ops_of):
        for op in its:
            entries_of[op].append(entry)
    expected, message = [], own
    for _ in range(ROUNDS):
        gathered = {op: np.mean([message[entry][:3] for entry in its], axis=0) for op, its in entries_of.items() if its}
        message = np.array([np.mean([[*gathered[op], *ops[op]] for op in its], axis=0) for its in ops_of])
        expected.append(message)
    np.testing.assert_allclose(messages(tables, own, ops), np.concatenate(expected, axis=1))


def test_ops_in_the_backing_memory_take_their_whole_time(problems):
    for problem in problems:
        shown = op_features(problem, np.full(problem.task.program.num_tensors, problem.task.backing))
        assert ((shown >= 0) & (shown <= 1)).all()
        assert (shown[:, 2] == 1).all()


@pytest.mark.parametrize(("rules", "graph"), [(True, True), (True, False), (False, True), (False, False)])
def test_rewards_add_up_to_what_plans_save(problems, rules, graph):
    for problem in problems:
        episodes, rng = ProgramEpisodes(problem, rules, graph), np.random.default_rng(0)
        episodes.begin(3)
        total = np.zeros(3)
        for decision in range(episodes.length):
            turn = episodes.turn()
            assert turn.observation.shape == (3, episodes.inputs)
            assert (abs(turn.observation) <= 1).all()
            action = np.where(turn.legal, rng.random(turn.legal.shape), -1).argmax(axis=1)
            if decision == episodes.length - 1:
                last = action
                break
            rewards, ended = episodes.step(action)
            total += rewards
            assert not ended.any()
        again = ProgramEpisodes(problem, rules, graph)
        again._states, again._rows = episodes._states.copy(), episodes._rows
        again.decide(last)
        rewards, ended = episodes.step(last)
        assert ended.all()
        np.testing.assert_allclose(total + rewards, 100 * (1 - again.latency_ps() / episodes.base_ps))


def test_decisions_as_the_best_rule_give_its_levels(problems):
    for problem in problems:
        episodes = ProgramEpisodes(problem)
        plans = cheap_plans(problem.one_shot).values()
        latencies = [memplace_env.simulate(problem.task.program, problem.task.accelerator, plan) for plan in plans]
        assert episodes.rule_ps == min(report.latency_ps for report in latencies)
        episodes.begin(1)
        for action in episodes.base:
            episodes.decide(np.array([action]))
        if (episodes._states[0, HEAD : HEAD + episodes.length] == episodes.base).all():
            assert (episodes.levels() == episodes._levels).all()
            assert episodes.latency_ps()[0] == episodes.base_ps


def test_advantages_are_later_rewards_less_the_groups_mean():
    rewards = np.array([[1.0, 3.0], [2.0, 0.0]])
    assert group_advantages(rewards).tolist() == [[0.0, 0.0], [1.0, -1.0]]


def made_run(problems, seed=0, settings=QUICK):
    programs = [ProgramEpisodes(problem) for problem in problems]
    return PolicyRun(settings, programs, [episodes.base for episodes in programs], seed)


def test_a_resumed_run_ends_in_the_same_bits(problems, tmp_path):
    undisturbed = made_run(problems)
    while not undisturbed.done:
        undisturbed.step()
    for stop in (1, 3):
        killed = made_run(problems)
        for _ in range(stop):
            killed.step()
        safe_files.save(tmp_path / "run", "test/1", killed.state_dict())
        resumed = made_run(problems, seed=1)
        resumed.load_state_dict(safe_files.load(tmp_path / "run", "test/1"))
        while not resumed.done:
            resumed.step()
        assert safe_files.encoded("test/1", resumed.state_dict()) == safe_files.encoded(
            "test/1", undisturbed.state_dict()
        )


def test_imitation_learns_the_answers(problems):
    settings = replace(QUICK, imitation_rounds=30, reward_rounds=0, shown=2, steps=8, rate=3e-3)
    run = made_run(problems, settings=settings)
    while not run.done:
        run.step()
    for episodes in run._programs:
        first = played_ps(run.policy, episodes, 1, None)
        assert (episodes._states[0, HEAD : HEAD + episodes.length] == episodes.base).mean() >= 0.9
        assert (played_ps(run.policy, episodes, 1, None) == first).all()
