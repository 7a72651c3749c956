"""MuZero as an agent for mallocGame: budgets, seeds and resumed runs, planted optima, files."""

from dataclasses import replace
from pathlib import Path

import gymnasium as gym
import pytest
import torch

from memplace_agents.built_in_agents import CHECKPOINT, CURVES
from memplace_agents.learning import safe_files
from memplace_agents.muzero import MuZero, MuZeroConfig
from memplace_agents.muzero.muzero_config import CONFIGS
from memplace_agents.muzero.muzero_run import MuZeroRun
from memplace_agents.muzero.networks import MuZeroNetwork
from memplace_agents.rule_agents import GreedyPlayer
from memplace_agents.search.evaluator import GameEvaluator
from memplace_env._lib.errors import AgentError
from memplace_env.envs.malloc_game import MallocGameEnv
from memplace_env.placement.synthetic import planted
from tests.agents.muzero import MODELS, SMALL, crowded, fresh_network, small, weights
from tests.agents.planted import optimum_ps, reach

DERATED = str(Path(__file__).parents[2] / "benchmarks" / "data" / "tpu-v4i-derated.toml")
"""The chip on which a few games were seen to suffice."""


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(("topology", "ops"), [("chain", 8), ("diamond", 8), ("fan-out", 8)])
def test_planted_optima_are_reached_and_never_beaten(model, topology, ops):
    """Within 2,000 games, where the greedy player does not see the optimum and the game can reach it."""
    program = planted(topology, ops=ops, seed=4, hot=0.8, accelerator=DERATED).program
    env = MallocGameEnv(program, DERATED)
    assert GreedyPlayer().solve(env).report.latency_ps > optimum_ps(env)
    reach(MuZero(small(model, sampling=0.5, annealing=0.3)), env, budget=2000, seed=4)


def test_drawn_programs_are_trained_on_and_resumed(tmp_path, monkeypatch):
    """Each program in turn, whose games count; a run that goes on is the whole run."""
    config = small(games=2, decisions=40, batch=80)

    def train(name, budget, **options):
        env = gym.make("MallocGame-Synthetic-v0")
        return MuZero(config, out=tmp_path / name, every=1, **options).train([env], budget=budget, seed=2)

    whole = train("whole", 50)
    assert whole.solutions[0].evaluations >= 50

    def killed(run, step=MuZeroRun.step):
        if run.round == 3:
            raise ZeroDivisionError
        step(run)

    with monkeypatch.context() as patch:
        patch.setattr(MuZeroRun, "step", killed)
        with pytest.raises(ZeroDivisionError):
            train("halves", 50)
    halves = train("halves", 50, resume=True)
    assert halves.solutions[0].evaluations == whole.solutions[0].evaluations
    assert torch.equal(weights(whole.policy), weights(halves.policy))
    assert MuZero(config, policy=whole.policy).solve(crowded(), budget=20).outcome == "feasible"


@pytest.mark.parametrize("name", CONFIGS)
def test_parts_that_are_left_out_are_not_used(name):
    """Rules and first games know no seed; a network learns only if there is one and its tree plays."""
    one = CONFIGS[name]
    config = replace(one, **{k: v for k, v in SMALL.items() if k not in ("sampling", "annealing", "simulations")})
    config = replace(config, first_games=min(one.first_games, 2), sampling=min(one.sampling, 0.02))
    env, agent = crowded(), MuZero(config)
    assert agent.solve(env, budget=8, seed=1).plan == agent.solve(env, budget=8, seed=2).plan
    evaluator = GameEvaluator(env, budget=90)
    run = MuZeroRun(config, [evaluator], None, 0)
    before = weights(run.policy).clone()
    run.begin()
    while not run.done:
        run.step()
    assert evaluator.evaluations == 90
    assert torch.equal(before, weights(run.policy)) == (name == "no-network")


def test_the_first_game_is_searched_and_counts_as_one():
    env = crowded(ops=20)
    searched, rule = (MuZero(small(first_games=count)).solve(env, budget=1) for count in (1, 0))
    assert searched.evaluations == rule.evaluations == 1
    assert searched.report.latency_ps < rule.report.latency_ps


def test_curves_say_what_is_learned(tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    MuZero(small(), out=tmp_path).solve(crowded(), budget=60)
    curves = EventAccumulator(str(tmp_path / CURVES))
    curves.Reload()
    expected = {f"{name}/best/0" for name in ("speedup", "latency", "points")} | {"points/mean/0", "entropy"}
    assert expected | {"loss/policy", "loss/value", "loss/reward"} <= set(curves.Tags()["scalars"])


def test_files_that_hold_no_such_network_are_named(tmp_path):
    safe_files.save(tmp_path / "huge.pt", MuZeroNetwork.KIND, {"options": {"hidden": 10**9}, "weights": {}})
    safe_files.save(tmp_path / "empty.pt", MuZeroNetwork.KIND, {"options": fresh_network().options, "weights": {}})
    for name in ("huge", "empty"):
        with pytest.raises(AgentError, match=name):
            MuZero(policy=tmp_path / f"{name}.pt")


def test_annealing_of_another_length_is_damaged(tmp_path):
    MuZero(small(), out=tmp_path).solve(crowded(), budget=5)
    content = safe_files.load(tmp_path / CHECKPOINT, "muzero-run/2")
    del content["run"]["players"][0]["annealing"]["length"]
    safe_files.save(tmp_path / CHECKPOINT, "muzero-run/2", content)
    with pytest.raises(AgentError, match="damaged"):
        MuZero(small(), out=tmp_path, resume=True).solve(crowded(), budget=9)


@pytest.mark.parametrize("wrong", [3, -1, 0.5, "0"])
def test_a_best_game_that_is_none_is_refused(tmp_path, wrong):
    MuZero(small(), out=tmp_path).solve(crowded(), budget=5)
    path = tmp_path / CHECKPOINT
    content = safe_files.load(path, "muzero-run/2")
    content["run"]["players"][0]["best"][-1] = wrong
    safe_files.save(path, "muzero-run/2", content)
    with pytest.raises(AgentError, match="damaged"):
        MuZero(small(), out=tmp_path, resume=True).solve(crowded(), budget=9)


def test_bad_settings_are_named():
    for name, value in [
        ("model", "perfect"),
        ("games", 0),
        ("annealing", 1.5),
        ("sampling", -0.1),
        ("first_simulations", 0),
        ("learning_rate", float("nan")),
    ]:
        with pytest.raises(AgentError, match=name):
            MuZeroConfig(**{name: value})
    with pytest.raises(AgentError, match="network must be True"):
        MuZeroConfig(model="learned", network=False)
    with pytest.raises(AgentError, match="not an environment of mallocGame"):
        MuZero().solve("MemPlace-AlexNet-v0", budget=1)
