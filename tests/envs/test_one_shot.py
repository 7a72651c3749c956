"""The one-shot environment beyond the checkers: rewards, masks, errors, own simulators."""

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import memplace_env
from memplace_env._lib.errors import ActionError, MemPlaceError, WorkloadError
from memplace_env.envs.one_shot import OneShotEnv, OneShotProblem
from memplace_env.envs.one_shot.observation import FEATURES, node_features
from memplace_env.envs.one_shot.reward import REWARDS, Scores
from memplace_env.placement.compiler import native_plan, resident
from memplace_env.placement.simulator import BuiltinSimulator, evaluate_plan
from memplace_env.placement.synthetic import planted
from memplace_env.placement.validation import violations
from tests.agents.tiny_tasks import SEEDS, tasks_with_roles
from tests.strategies import tasks
from tests.thorough import examples

WORKLOAD = "synthetic:chain?ops=8&seed=4"


def assignments(problem):
    """Any map, as a list."""
    return st.lists(
        st.integers(0, problem.task.backing), min_size=problem.num_decisions, max_size=problem.num_decisions
    )


@pytest.fixture
def env():
    return OneShotEnv(WORKLOAD)


@examples(100)
@given(tasks(), st.data())
def test_what_the_environment_says_is_what_the_simulator_says(task, data):
    env, strict = OneShotEnv(task), OneShotEnv(task, reward="egrl")
    action = np.array(data.draw(assignments(env.problem)))
    _, reward, terminated, truncated, info = env.step(action)
    report, base = evaluate_plan(task, env.plan()), evaluate_plan(task, native_plan(task))
    assert (terminated, truncated) == (True, False)
    assert info["latency_s"] == report.latency_s
    assert info["energy_j"] == pytest.approx(report.energy_j, rel=1e-12)
    assert info["speedup"] == base.latency_s / report.latency_s
    assert info["fits"] == (info["reassigned"] == 0)
    assert reward == info["speedup"]
    assert strict.step(action)[1] == (info["speedup"] if info["fits"] else -info["reassigned"])
    assert 0 <= info["reassigned"] <= 1
    assert violations(task, env.plan()) == []


@examples(100)
@given(tasks() | tasks_with_roles(ops=6))
def test_mask_and_ignored_entries(task):
    """Levels that the mask forbids are always reassigned; ignored decisions change nothing."""
    problem = OneShotProblem(task)
    base = np.full(problem.num_decisions, task.backing)
    for decision in range(problem.num_decisions):
        for level in range(task.backing):
            trial = base.copy()
            trial[decision] = level
            scores = problem.evaluate(trial[None])
            if not problem.decides[decision]:
                assert all(map(np.array_equal, scores, problem.evaluate(base[None])))
                assert not problem.mask[decision, level]
            elif not problem.mask[decision, level]:
                assert scores.reassigned[0] > 0


@examples(200)
@given(tasks_with_roles(ops=6), SEEDS)
def test_plans_are_natives_where_a_map_leaves_no_room_for_what_must_have_it(task, seed):
    problem, rng = OneShotProblem(task), np.random.default_rng(seed)
    assignment = rng.integers(0, task.accelerator.num_levels, problem.num_decisions)
    plan, moved = problem.compile(assignment)
    scores = problem.evaluate(assignment[None])
    homeless = (task.must_leave & (scores.level[0] == task.backing)).any()
    assert violations(task, plan) == []
    assert moved == round(scores.reassigned[0] * task.program.tensor_bytes[task.program.is_placeable].sum())
    assert (plan is problem.native_plan) == homeless
    assert scores.latency_s[0] >= 1000 if homeless else scores.latency_s[0] == evaluate_plan(task, plan).latency_s


@examples(100)
@given(tasks(), st.data())
def test_asking_for_what_one_got_is_granted(task, data):
    """Repair keeps the cost: with one tensor a decision, the repaired assignment is valid and costs the same."""
    problem = OneShotProblem(task)
    first = problem.evaluate(np.array([data.draw(assignments(problem))]))
    again = problem.evaluate(problem.assignments_of(first.level))
    decided = problem.decision_of[problem.decision_of >= 0]
    if len(np.unique(decided)) == len(decided):
        assert again.reassigned[0] == 0
        assert again.latency_s == first.latency_s
        assert np.array_equal(again.level, first.level)


def test_planted_map_earns_the_planted_speedup(env):
    program, levels = planted("chain", ops=8, seed=4)
    action = np.full(env.problem.num_decisions, env.accelerator.backing)
    decided = env.problem.decision_of >= 0
    action[env.problem.decision_of[decided]] = levels[decided]
    _, reward, *_, info = env.step(action)
    assert info["fits"]
    assert reward == info["speedup"] > 1
    assert info["latency_s"] == env.report().traffic_bound_s or info["latency_s"] > env.report().traffic_bound_s
    assert env.program.sha256 == program.sha256


@pytest.mark.parametrize(
    ("action", "sentence"),
    [
        (np.zeros(15, dtype=int), r"shape \(16,\)"),
        (np.zeros((1, 16), dtype=int), r"shape \(16,\)"),
        (np.zeros(16), "dtype float64"),
        (np.full(16, 3), "0 = SRAM, 1 = LLC, 2 = DRAM"),
        (np.full(16, -1), "levels"),
        ("all", "shape"),
        (None, "shape"),
    ],
)
def test_bad_actions_are_refused(env, action, sentence):
    env.reset()
    with pytest.raises(ActionError, match=sentence):
        env.step(action)
    assert env.get_state() is None


@pytest.mark.parametrize("name", sorted(REWARDS))
def test_rewards_by_name(name):
    env = OneShotEnv(WORKLOAD, reward=name)
    env.reset()
    native_like = np.full(16, env.accelerator.backing)
    _, reward, *_, info = env.step(native_like)
    base = env.problem.native_report
    saving = base.energy_j / info["energy_j"]
    expected = {"energy": saving, "edp": saving * info["speedup"]}.get(name, info["speedup"])
    assert reward == pytest.approx(expected)


def test_own_reward_and_own_simulator():
    class Doubled(BuiltinSimulator):
        def run(self, program, accelerator, plan):
            from dataclasses import replace

            report = super().run(program, accelerator, plan)
            return replace(report, latency_ps=2 * report.latency_ps)

    class Foreign:
        def run(self, program, accelerator, plan):
            return Doubled().run(program, accelerator, plan)

    def latency_in_ms(scores: Scores):
        return -1e3 * scores.latency_s

    action = np.random.default_rng(0).integers(0, 3, 16)
    plain = OneShotEnv(WORKLOAD).step(action)[4]
    env = OneShotEnv(WORKLOAD, simulator=Foreign(), reward=latency_in_ms)
    _, reward, *_, info = env.step(action)
    assert info["latency_s"] == 2 * plain["latency_s"]
    assert info["speedup"] == pytest.approx(plain["speedup"])
    assert reward == -1e3 * info["latency_s"]
    vector = gym.make_vec("MemPlace-v0", num_envs=3, workload=WORKLOAD, simulator=Foreign())
    assert (vector.step(np.repeat(action[None], 3, axis=0))[4]["latency_s"] == info["latency_s"]).all()


def test_settings_are_refused_in_one_sentence():
    with pytest.raises(WorkloadError, match="BERT"):
        OneShotEnv("BERTT")
    with pytest.raises(MemPlaceError, match="speedup, egrl, energy, edp"):
        OneShotEnv(WORKLOAD, reward="speed")
    with pytest.raises(MemPlaceError):
        OneShotEnv(WORKLOAD, accelerator="nnp-j")
    with pytest.raises(ValueError, match="ansi"):
        OneShotEnv(WORKLOAD, render_mode="human")


def test_features_are_the_papers_nineteen(env):
    features = node_features(env.program)
    assert features.shape == (8, 19) == (8, len(FEATURES))
    assert features.dtype == np.float32
    assert 0 <= features.min() <= features.max() <= 1
    assert features[-1, FEATURES.index("n_ops_left")] == 0
    assert features[-1, FEATURES.index("n_w_left")] == pytest.approx(0)


def test_saved_plan_names_its_settings(env, tmp_path):
    env.reset()
    plan = memplace_env.MemoryPlan.load(env.plan().save(tmp_path / "plan.json"))
    assert plan == env.plan()
    assert plan.settings["workload"] == WORKLOAD
    assert plan.settings["accelerator"] == "nnp-i"


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.uint16, np.int32, np.uint64])
def test_integers_of_any_kind_compile_no_kernel_again(env, dtype):
    env.step(env.action_space.sample())
    before = len(resident.place_all.signatures)
    action = np.zeros(env.action_space.shape, dtype)
    action.flags.writeable = False
    env.step(action)
    env.score(np.zeros((3, len(action)), dtype)[:, ::1])
    assert len(resident.place_all.signatures) == before


def test_vector_env_refuses_bad_batches():
    env = gym.make_vec("MemPlace-v0", num_envs=3, workload=WORKLOAD)
    env.reset(seed=0)
    for bad in (np.zeros((2, 16), dtype=int), np.zeros((3, 16)), np.full((3, 16), 7)):
        with pytest.raises(ActionError):
            env.step(bad)
