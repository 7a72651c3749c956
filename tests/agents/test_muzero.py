"""MuZero as an agent for mallocGame: budgets, seeds and resumed runs, planted optima, files."""

from pathlib import Path

import gymnasium as gym
import pytest
import torch

from memplace_agents.built_in_agents import CHECKPOINT, CURVES, POLICY
from memplace_agents.learning import safe_files
from memplace_agents.learning.policy_file import load_policy, save_policy
from memplace_agents.muzero import MuZero, MuZeroConfig
from memplace_agents.muzero.muzero_run import MuZeroRun
from memplace_agents.muzero.networks import MuZeroNetwork
from memplace_agents.rule_agents import GreedyPlayer
from memplace_env._lib.errors import AgentError
from memplace_env.envs.malloc_game import MallocGameEnv
from memplace_env.placement.synthetic import planted
from memplace_env.placement.validation import violations
from tests.agents.muzero import MODELS, crowded, fresh_network, small, weights
from tests.agents.planted import optimum_ps, reach

DERATED = str(Path(__file__).parents[2] / "benchmarks" / "data" / "tpu-v4i-derated.toml")
"""The chip on which a few games were seen to suffice."""


class KilledError(Exception):
    """Ends a run from its callback."""


@pytest.mark.parametrize("model", MODELS)
def test_killed_and_resumed_is_as_if_nothing_had_happened(model, tmp_path):
    def kill(progress):
        if progress.evaluations >= 24:
            raise KilledError

    whole, halves = (MuZero(small(model), out=tmp_path / name, every=2) for name in ("whole", "halves"))
    expected = whole.solve(crowded(), budget=41, seed=3)
    with pytest.raises(KilledError):
        halves.solve(crowded(), budget=41, seed=3, callback=kill)
    assert not (tmp_path / "halves" / POLICY).exists()
    again = MuZero(small(model), out=tmp_path / "halves", resume=True, every=2)
    solution = again.solve(crowded(), budget=41, seed=3)
    assert solution.plan == expected.plan
    assert solution.evaluations == expected.evaluations
    assert [(p.evaluations, p.latency_s) for p in solution.history] == [
        (p.evaluations, p.latency_s) for p in expected.history
    ]
    both = [weights(load_policy(tmp_path / name / POLICY, MuZeroNetwork)) for name in ("whole", "halves")]
    assert torch.equal(*both)
    with pytest.raises(AgentError, match="another run \\(other seed\\)"):
        again.solve(crowded(), budget=41, seed=4)


def test_one_network_for_several_programs(tmp_path):
    """Each program has its solution; a run that goes on is the whole run; one network comes out."""
    envs = [crowded(), crowded(seed=5, ops=11)]
    whole = MuZero(small(), out=tmp_path / "whole").train(envs, budget=21, seed=2)
    assert [solution.evaluations for solution in whole.solutions] == [21, 21]
    for env, solution in zip(envs, whole.solutions, strict=True):
        assert violations(env.task, solution.plan) == []
        assert solution.report.latency_ps <= GreedyPlayer().solve(env).report.latency_ps
    MuZero(small(), out=tmp_path / "halves", every=1).train(envs, budget=10, seed=2)
    halves = MuZero(small(), out=tmp_path / "halves", resume=True).train(envs, budget=21, seed=2)
    assert [solution.evaluations for solution in halves.solutions] == [21, 21]
    assert torch.equal(weights(load_policy(tmp_path / "whole" / POLICY, MuZeroNetwork)), weights(whole.policy))
    with pytest.raises(AgentError, match="other programs"):
        MuZero(small(), out=tmp_path / "halves", resume=True).train(envs[:1], budget=30, seed=2)
    with pytest.raises(AgentError, match="at least one"):
        MuZero(small()).train([])


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(("topology", "ops"), [("chain", 8), ("diamond", 8), ("fan-out", 8)])
def test_planted_optima_are_reached_and_never_beaten(model, topology, ops):
    """Within 2,000 games, where the greedy player does not see the optimum and the game can reach it."""
    program = planted(topology, ops=ops, seed=4, hot=0.8, accelerator=DERATED).program
    env = MallocGameEnv(program, DERATED)
    assert GreedyPlayer().solve(env).report.latency_ps > optimum_ps(env)
    reach(MuZero(small(model, annealing=40)), env, budget=2000, seed=4)


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
            raise KilledError
        step(run)

    with monkeypatch.context() as patch:
        patch.setattr(MuZeroRun, "step", killed)
        with pytest.raises(KilledError):
            train("halves", 50)
    halves = train("halves", 50, resume=True)
    assert halves.solutions[0].evaluations == whole.solutions[0].evaluations
    assert torch.equal(weights(whole.policy), weights(halves.policy))
    assert MuZero(config, policy=whole.policy).solve(crowded(), budget=20).outcome == "feasible"


def test_curves_and_policies_are_kept_and_of_use(tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    MuZero(small(), out=tmp_path).solve(crowded(), budget=60)
    curves = EventAccumulator(str(tmp_path / CURVES))
    curves.Reload()
    tags = set(curves.Tags()["scalars"])
    assert {
        "speedup/best/0",
        "latency/best/0",
        "points/best/0",
        "points/mean/0",
        "loss/policy",
        "loss/value",
        "loss/reward",
        "entropy",
    } <= tags
    network = load_policy(tmp_path / POLICY, MuZeroNetwork)
    save_policy(tmp_path / "copy.pt", network)
    assert torch.equal(weights(load_policy(tmp_path / "copy.pt", MuZeroNetwork)), weights(network))
    solution = MuZero(small(hidden=9), policy=tmp_path / POLICY).solve(crowded(seed=5), budget=9)
    assert solution.outcome == "feasible"


def test_files_that_are_something_else_are_named(tmp_path):
    class Boom:
        def __reduce__(self):
            return (open, (str(tmp_path / "executed"), "w"))

    torch.save({"format": "memplace", "kind": MuZeroNetwork.KIND, "content": Boom()}, tmp_path / "evil.pt")
    (tmp_path / "torn.pt").write_bytes(b"PK")
    safe_files.save(tmp_path / "other.pt", "graph-policy/1", {})
    safe_files.save(tmp_path / "huge.pt", MuZeroNetwork.KIND, {"options": {"hidden": 10**9}, "weights": {}})
    safe_files.save(tmp_path / "empty.pt", MuZeroNetwork.KIND, {"options": fresh_network().options, "weights": {}})
    for name in ("evil", "torn", "other", "huge", "empty", "missing"):
        with pytest.raises(AgentError, match=name):
            MuZero(policy=tmp_path / f"{name}.pt")
    assert not (tmp_path / "executed").exists()
    MuZero(small(), out=tmp_path).solve(crowded(), budget=5)
    content = safe_files.load(tmp_path / CHECKPOINT, "muzero-run/2")
    del content["run"]["players"][0]["annealing"]["length"]
    safe_files.save(tmp_path / CHECKPOINT, "muzero-run/2", content)
    with pytest.raises(AgentError, match="damaged"):
        MuZero(small(), out=tmp_path, resume=True).solve(crowded(), budget=9)


def test_a_policy_that_overflows_is_refused():
    network = fresh_network()
    with torch.no_grad():
        for weight in network.parameters():
            weight.fill_(3e38)
    with pytest.raises(AgentError, match="computes no numbers"):
        MuZero(small(), policy=network).solve(crowded(), budget=5)


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
        ("annealing", -1),
        ("learning_rate", float("nan")),
    ]:
        with pytest.raises(AgentError, match=name):
            MuZeroConfig(**{name: value})
    with pytest.raises(AgentError, match="pass out"):
        MuZero(resume=True)
    with pytest.raises(AgentError, match="every"):
        MuZero(every=0)
    with pytest.raises(AgentError, match="not an environment of mallocGame"):
        MuZero().solve("MemPlace-AlexNet-v0", budget=1)
