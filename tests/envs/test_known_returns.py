"""Best known results of ids, in the unit of their returns."""

import sys
from importlib import import_module

import gymnasium as gym
import pytest

import memplace_env
from memplace_agents import CrossEntropy
from memplace_env import best_known, best_plan, normalised_score
from memplace_env._lib.errors import EnvError
from memplace_env._lib.units import PS
from memplace_env.envs.best_known import known_results
from memplace_env.placement.simulator import evaluate_plan

IDS = (
    *("MemPlace-SqueezeNet-v0", "MemPlaceSteps-SqueezeNet-v0", "MallocGame-NeRF-edge-tpu-v0"),
    *(f"{family}-MobileNetV2-intel-npu-4000-Event-v0" for family in ("MemPlace", "MemPlaceSteps")),
)


def returns_of(env, latency_s):
    """Return the return of an episode that ends with this latency."""
    info = env.reset()[1]
    if env.formulation == "game":
        return env.return_of(latency_s, env.problem, env.scale)
    return info["native_latency_s"] / latency_s


@pytest.mark.parametrize("env_id", IDS)
def test_best_known_returns_are_those_of_the_environment(env_id):
    env, known = gym.make(env_id).unwrapped, best_known(env_id)
    assert known.best_return == pytest.approx(returns_of(env, known.latency_s), rel=1e-9)
    assert known.bound_s <= known.latency_s
    assert known.rule_return <= known.reachable_return <= known.best_return
    assert normalised_score(env_id, known.best_return) == pytest.approx(1)
    assert normalised_score(env_id, 0.0 if env.formulation == "game" else 1.0) == 0
    plan = best_plan(env_id)
    assert known.latency_s <= evaluate_plan(env.task, plan).latency_ps * PS <= 1.001 * known.latency_s


def test_thresholds_lie_between_the_rules_and_what_an_episode_reached():
    for env_id, row in known_results().items():
        known, threshold = best_known(env_id), gym.spec(env_id).reward_threshold
        assert known.proven == (row.best_ps <= 1.0001 * row.bound_ps)
        if row.reachable_ps is None:
            assert threshold == pytest.approx(known.rule_return, rel=1e-8), env_id
        else:
            assert known.rule_return < threshold < known.reachable_return <= known.best_return, env_id
    for family in ("MemPlace", "MemPlaceSteps", "MallocGame"):
        env = gym.make(f"{family}-Tiny-v0")
        optimum = env.reset()[1]["optimal_return"]
        assert 0.999 < env.spec.reward_threshold / optimum <= 1
        assert normalised_score(env.spec.id, [optimum]) == [1.0]
    assert normalised_score("MallocGame-Test-v0", 80) == 0.8


def test_an_episode_passes_the_threshold():
    env = gym.make("MallocGame-NeRF-edge-tpu-v0")
    solution = CrossEntropy().solve(env, budget=3000, seed=0)
    assert returns_of(env.unwrapped, solution.report.latency_s) >= env.spec.reward_threshold


def test_of_other_ids_nothing_is_known():
    with pytest.raises(EnvError, match="Nothing is known of MallocGame-Train-v0"):
        best_known("MallocGame-Train-v0")
    with pytest.raises(EnvError, match="is not an id of this package"):
        normalised_score("CartPole-v1", 1.0)
    for env_id in ("MemPlace-v0", "MallocGame-nope-v0", "MallocGame-Tiny-v0"):
        with pytest.raises(EnvError, match=f"Nothing is known of {env_id}"):
            best_plan(env_id)
    with pytest.raises(EnvError, match=r"; did you mean 'MallocGame-BERT-v0'\?"):
        normalised_score("MallocGame-Bert-v0", 1.0)
    assert best_known("memplace_env:MallocGame-BERT-v0") == best_known("MallocGame-BERT-v0")
    assert memplace_env.BestKnown._fields[0] == "best_return"


def test_without_jax_a_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jax", None)
    monkeypatch.delitem(sys.modules, "memplace_env.envs.jax", raising=False)
    with pytest.raises(ModuleNotFoundError, match=r'not installed; run: pip install "memplace\[jax\]"'):
        import_module("memplace_env.envs.jax")
