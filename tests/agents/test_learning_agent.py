"""The base of all learners: runs that die and resume, several programs, checkpoints and policies."""

import os
import signal
import subprocess
import sys
import time
from copy import deepcopy
from dataclasses import replace

import pytest
import torch

from memplace_agents import EGRL, MuZero
from memplace_agents.built_in_agents import CHECKPOINT, CHECKPOINT_BYTES, CURVES, POLICY
from memplace_agents.learning import safe_files
from memplace_agents.learning.policy_file import load_policy
from memplace_env._lib.errors import AgentError
from memplace_env.envs.one_shot import OneShotEnv
from memplace_env.envs.wrappers import MeasurementNoise
from tests.agents import egrl, muzero, plan_gradient
from tests.agents.planted import planted_env

SMALL = {
    **{f"egrl, {name}": lambda name=name, **options: EGRL(egrl.small(name), **options)
       for name in ("default", "paper", "imitating", "ea", "refine-only")},
    **{f"muzero, {name}": lambda name=name, **options: MuZero(muzero.small(name), **options) for name in muzero.MODELS},
    "muzero, sampled": lambda **options: MuZero(muzero.small(sampling=0.5, annealing=0.3), **options),
    "plan-gradient, one-shot": plan_gradient.small,
    "plan-gradient, game": plan_gradient.small,
    **{f"ppo, {name}": plan_gradient.small_ppo for name in ("one-shot", "steps", "game")},
}  # fmt: skip
"""Makers of quick learners, with options of the base."""
ONE_OF_EACH = ["egrl, default", "muzero, rules", "plan-gradient, one-shot", "plan-gradient, game", "ppo, game"]


def env_of(name, seed=3):
    if name.startswith("egrl"):
        return planted_env(ops=10, seed=seed)
    return muzero.crowded(seed) if name.startswith("muzero") else plan_gradient.env_of(name, seed)


class DeathError(Exception):
    """Ends a run in the middle."""


def dies_at(evaluations):
    def look(progress):
        if progress.evaluations >= evaluations:
            raise DeathError

    return look


def outcome(solution):
    """Return all of a solution but the seconds."""
    history = [(progress.evaluations, progress.latency_s) for progress in solution.history]
    return solution.plan, solution.report.latency_ps, history, solution.evaluations


def plain(state):
    """Return a state without seconds, in a form that == compares bit for bit."""
    if isinstance(state, torch.Tensor):
        return str(state.dtype), tuple(state.shape), state.numpy().tobytes()
    if isinstance(state, dict):
        values = {key: plain(value) for key, value in state.items() if key != "seconds"}
        return values | {"history": [entry[::2] for entry in state["history"]]} if "history" in values else values
    return [plain(value) for value in state] if isinstance(state, list | tuple) else state


def content_of(name, folder):
    return safe_files.load(folder / CHECKPOINT, kind_of(name), CHECKPOINT_BYTES)


def kind_of(name):
    return f"{name.split(',')[0]}-run/2"


@pytest.mark.parametrize("noise", [0.0, 0.05])
@pytest.mark.parametrize("name", SMALL)
def test_a_run_that_dies_and_resumes_is_the_unbroken_run(name, noise, tmp_path):
    """On two programs if it may; plans, histories, the whole state and the policy are the same bit for bit."""
    envs, states = (
        [env_of(name, seed) for seed in ((4,) if name in ("ppo, one-shot", "muzero, sampled") else (3, 4))],
        [],
    )
    if noise:
        envs = [MeasurementNoise(env, noise) for env in envs]
    for folder, deaths in (("whole", []), ("broken", [1, 30, 34, 50])):
        for index, evaluations in enumerate(deaths):
            with pytest.raises(DeathError):
                SMALL[name](out=tmp_path / folder, resume=True, every=1 + index % 2).train(
                    envs, budget=80, seed=5, callback=[None, dies_at(evaluations)][-len(envs) :]
                )
        trained = SMALL[name](out=tmp_path / folder, resume=True).train(envs, budget=80, seed=5)
        files = plain(content_of(name, tmp_path / folder)), (tmp_path / folder / POLICY).read_bytes()
        states.append(([outcome(solution) for solution in trained.solutions], files))
    assert states[0] == states[1]


@pytest.mark.parametrize("name", ONE_OF_EACH)
def test_a_finished_run_resumes_to_its_end_and_beyond(name, tmp_path):
    """A run may be asked for less, and begins anew where it does not resume."""
    env, calls = env_of(name), []
    first = SMALL[name](out=tmp_path).solve(env, budget=60)
    again = SMALL[name](out=tmp_path, resume=True).solve(env, budget=60, callback=calls.append)
    assert outcome(again) == outcome(first)
    assert calls == []
    assert outcome(SMALL[name](out=tmp_path, resume=True).solve(env, budget=20)) == outcome(first)
    assert outcome(SMALL[name](out=tmp_path).solve(env, budget=60)) == outcome(first)
    more = SMALL[name](out=tmp_path, resume=True).solve(env, budget=90)
    assert more.evaluations == 90
    assert more.report.latency_ps <= first.report.latency_ps
    assert outcome(more)[2][: len(first.history)] == outcome(first)[2]


def test_another_run_is_not_resumed_and_the_difference_is_named(tmp_path):
    env = planted_env()
    EGRL(egrl.small(), out=tmp_path).solve(env, budget=20, seed=1)
    slow = OneShotEnv(env.program, replace(env.accelerator, op_overhead_ps=1000))
    others = [
        ("config", egrl.small(tournament=2), env, 1),
        ("programs", egrl.small(), planted_env(seed=5), 1),
        ("accelerators", egrl.small(), slow, 1),
        ("noise", egrl.small(), MeasurementNoise(env, 0.05), 1),
        ("seed", egrl.small(), env, 2),
        ("config, seed", egrl.small(tournament=2), env, 2),
    ]
    before = (tmp_path / CHECKPOINT).read_bytes()
    for what, config, other, seed in others:
        with pytest.raises(AgentError, match=rf"{CHECKPOINT} is of another run \(other {what}\)") as caught:
            EGRL(config, out=tmp_path, resume=True).solve(other, budget=30, seed=seed)
        assert "\n" not in str(caught.value)
    assert (tmp_path / CHECKPOINT).read_bytes() == before
    for wrong, sentence in (({"resume": True}, "pass out"), ({"every": 0}, "every")):
        with pytest.raises(AgentError, match=sentence):
            EGRL(egrl.small(), **wrong)
    with pytest.raises(AgentError, match="at least one environment"):
        EGRL(egrl.small()).train([])


@pytest.mark.parametrize("name", ONE_OF_EACH)
def test_damaged_checkpoints_are_refused(name, tmp_path):
    env, path, kind = env_of(name), tmp_path / CHECKPOINT, kind_of(name)
    SMALL[name](out=tmp_path).solve(env, budget=30)
    whole, content = path.read_bytes(), content_of(name, tmp_path)

    def refused(match="damaged"):
        with pytest.raises(AgentError, match=match):
            SMALL[name](out=tmp_path, resume=True).solve(env, budget=40)

    for raw in (b"", whole[:-200], whole[: len(whole) // 2], b"no checkpoint"):
        path.write_bytes(raw)
        refused()
    safe_files.save(path, "graph-policy/3", {})
    refused("is needed")
    safe_files.save(path, kind, {"identity": content["identity"]})
    refused()
    for part in content["run"]:
        for broken in (None, "text", []):
            safe_files.save(path, kind, content | {"run": deepcopy(content["run"]) | {part: broken}})
            refused()


@pytest.mark.parametrize("name", ONE_OF_EACH)
def test_policies_are_saved_and_started_from(name, tmp_path):
    """A policy whose weights overflow is refused."""
    pytest.importorskip("tensorboard")
    SMALL[name](out=tmp_path).solve(env_of(name), budget=64)
    assert sorted(file.name for file in tmp_path.iterdir()) == sorted([CHECKPOINT, POLICY, CURVES])
    assert list((tmp_path / CURVES).rglob("events*"))
    policy = load_policy(tmp_path / POLICY, SMALL[name]().network)
    started = SMALL[name](policy=tmp_path / POLICY).train([env_of(name, 5)], budget=1).policy.state_dict()
    assert all(torch.equal(weight, started[part]) for part, weight in policy.state_dict().items())
    with torch.no_grad():
        for weight in policy.parameters():
            weight.fill_(3e38)
    with pytest.raises(AgentError, match="computes no numbers"):
        SMALL[name](policy=policy).solve(env_of(name), budget=5)


SCRIPT = """
import sys
from memplace_agents.egrl import EGRL
from tests.agents.planted import planted_env
from tests.agents.egrl import small
EGRL(small(), out=sys.argv[1], resume=True, every=1).solve(planted_env(ops=10), budget=4000, seed=3)
print("finished")
"""


@pytest.mark.thorough
def test_a_killed_process_resumes_as_if_it_had_lived(tmp_path):
    """SIGKILL some checkpoints after each start, three times."""
    path, killed, before = tmp_path / "broken" / CHECKPOINT, 0, 0
    for checkpoints in (2, 12, 5):
        process = subprocess.Popen([sys.executable, "-c", SCRIPT, str(path.parent)], stdout=subprocess.PIPE)
        deadline = time.monotonic() + 120
        while checkpoints and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.002)
            if path.exists() and path.stat().st_mtime_ns != before:
                before = path.stat().st_mtime_ns
                checkpoints -= 1
        os.kill(process.pid, signal.SIGKILL)
        killed += b"finished" not in process.communicate()[0]
        before = path.stat().st_mtime_ns
    assert killed > 0
    assert [file.name for file in path.parent.glob("*.pt")] == [CHECKPOINT]
    runs = [
        EGRL(egrl.small(), out=folder, resume=True).solve(planted_env(ops=10), budget=4000, seed=3)
        for folder in (path.parent, tmp_path / "whole")
    ]
    assert outcome(runs[0]) == outcome(runs[1])
    assert plain(content_of("egrl", path.parent)) == plain(content_of("egrl", tmp_path / "whole"))
