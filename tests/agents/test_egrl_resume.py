"""EGRL's runs go on after any interruption as if there had been none."""

import os
import signal
import subprocess
import sys
import time
from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
import torch

from memplace_agents.built_in_agents import CHECKPOINT
from memplace_agents.egrl import EGRL
from memplace_agents.learning import safe_files
from memplace_agents.learning.graph_policy import GraphPolicy
from memplace_env._lib.errors import AgentError
from memplace_env.envs.one_shot import OneShotEnv
from tests.agents.egrl import KIND, outcome, remembered, small
from tests.agents.planted import planted_env


class DeathError(Exception):
    """Ends a run in the middle."""


def dies_at(evaluations):
    def look(progress):
        if progress.evaluations >= evaluations:
            raise DeathError

    return look


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory):
    """Return uninterrupted runs by name: their outcome and their files."""
    runs = {}

    def get(name):
        if name not in runs:
            folder = tmp_path_factory.mktemp(name)
            solution = EGRL(small(name), out=folder).solve(planted_env(ops=10), budget=70, seed=3)
            runs[name] = outcome(solution), remembered(folder)
        return runs[name]

    return get


@pytest.mark.parametrize("deaths", [[1], [6, 30], [33, 34, 55], [69]])
@pytest.mark.parametrize("name", ["default", "paper", "ea", "refine-only"])
def test_a_run_that_dies_and_resumes_is_the_unbroken_run(name, deaths, unbroken, tmp_path):
    env = planted_env(ops=10)
    rng = np.random.default_rng(len(deaths))
    for evaluations in deaths:
        agent = EGRL(small(name), out=tmp_path, resume=True, every=int(rng.integers(1, 4)))
        with pytest.raises(DeathError):
            agent.solve(env, budget=70, seed=3, callback=dies_at(evaluations))
    solution = EGRL(small(name), out=tmp_path, resume=True).solve(env, budget=70, seed=3)
    expected, state = unbroken(name)
    assert outcome(solution) == expected
    assert remembered(tmp_path) == state


def test_several_workloads_resume_too(tmp_path):
    envs, states = [planted_env(ops=6), planted_env("diamond", ops=9)], []
    for folder, deaths in (("whole", []), ("broken", [30, 55])):
        for evaluations in deaths:
            with pytest.raises(DeathError):
                EGRL(small(), out=tmp_path / folder, resume=True, every=1).train(
                    envs, budget=80, callback=[None, dies_at(evaluations)]
                )
        trained = EGRL(small(), out=tmp_path / folder, resume=True).train(envs, budget=80)
        states.append(([outcome(solution) for solution in trained.solutions], remembered(tmp_path / folder)))
    assert states[0] == states[1]


def test_a_finished_run_resumes_to_its_end_and_beyond(tmp_path):
    env, calls = planted_env(), []
    first = EGRL(small(), out=tmp_path).solve(env, budget=60)
    again = EGRL(small(), out=tmp_path, resume=True).solve(env, budget=60, callback=calls.append)
    assert outcome(again) == outcome(first)
    assert calls == []
    more = EGRL(small(), out=tmp_path, resume=True).solve(env, budget=90)
    assert more.evaluations == 90
    assert more.report.latency_ps <= first.report.latency_ps
    assert outcome(more)[2][: len(first.history)] == outcome(first)[2]


def test_a_finished_run_may_be_asked_for_less(tmp_path):
    env = planted_env()
    first = EGRL(small(), out=tmp_path).solve(env, budget=60)
    assert outcome(EGRL(small(), out=tmp_path, resume=True).solve(env, budget=20)) == outcome(first)


def test_without_resume_a_run_starts_anew(tmp_path):
    runs = [EGRL(small(), out=tmp_path).solve(planted_env(), budget=40) for _ in range(2)]
    assert outcome(runs[0]) == outcome(runs[1])


def test_another_run_is_not_resumed_and_the_difference_is_named(tmp_path):
    env = planted_env()
    EGRL(small(), out=tmp_path).solve(env, budget=20, seed=1)
    slow = OneShotEnv(env.program, replace(env.accelerator, op_overhead_ps=1000))
    others = [
        ("config", small(tournament=2), env, 1),
        ("programs", small(), planted_env(seed=5), 1),
        ("accelerators", small(), slow, 1),
        ("seed", small(), env, 2),
        ("config, seed", small(tournament=2), env, 2),
    ]
    before = (tmp_path / CHECKPOINT).read_bytes()
    for what, config, other, seed in others:
        with pytest.raises(AgentError, match=rf"{CHECKPOINT} is of another run \(other {what}\)") as caught:
            EGRL(config, out=tmp_path, resume=True).solve(other, budget=30, seed=seed)
        assert "\n" not in str(caught.value)
    with pytest.raises(AgentError, match="other programs, accelerators"):
        EGRL(small(), out=tmp_path, resume=True).train([env, slow], budget=30, seed=1)
    assert (tmp_path / CHECKPOINT).read_bytes() == before
    with pytest.raises(AgentError, match="pass out"):
        EGRL(small(), resume=True)


def test_damaged_checkpoints_are_refused(tmp_path):
    env, path = planted_env(), tmp_path / CHECKPOINT
    EGRL(small(), out=tmp_path).solve(env, budget=30)
    whole = path.read_bytes()

    def resume():
        return EGRL(small(), out=tmp_path, resume=True).solve(env, budget=40)

    for raw in (b"", whole[:-200], whole[: len(whole) // 2], b"no checkpoint"):
        path.write_bytes(raw)
        with pytest.raises(AgentError, match="damaged"):
            resume()
    safe_files.save(path, GraphPolicy.KIND, {})
    with pytest.raises(AgentError, match="is needed"):
        resume()
    path.write_bytes(whole)
    content = safe_files.load(path, KIND)
    safe_files.save(path, KIND, {"identity": content["identity"]})
    with pytest.raises(AgentError, match="damaged"):
        resume()
    for part in content["run"]:
        for broken in (None, "text", []):
            run = deepcopy(content["run"]) | {part: broken}
            safe_files.save(path, KIND, content | {"run": run})
            with pytest.raises(AgentError, match="damaged"):
                resume()


def test_a_policy_that_overflows_is_refused():
    policy = GraphPolicy(planted_env().accelerator.num_levels, hidden=8, depth=2)
    with torch.no_grad():
        for weight in policy.parameters():
            weight.fill_(3e38)
    with pytest.raises(AgentError, match="computes no numbers"):
        EGRL(small(), policy=policy).solve(planted_env(), budget=5)


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
    path, killed = tmp_path / "broken" / CHECKPOINT, 0
    before = 0
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
    done = safe_files.load(path, KIND)["run"]["workloads"][0]["evaluator"]["evaluations"]
    assert 0 < done < 4000
    runs = [
        EGRL(small(), out=folder, resume=True).solve(planted_env(ops=10), budget=4000, seed=3)
        for folder in (path.parent, tmp_path / "whole")
    ]
    assert outcome(runs[0]) == outcome(runs[1])
    assert remembered(path.parent) == remembered(tmp_path / "whole")
