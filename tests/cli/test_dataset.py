"""`memplace dataset`: what Minari reads back, what imitation makes of it, and what is refused."""

import builtins
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from memplace_agents import Exact, RandomSearch
from memplace_env._lib.errors import EnvError
from memplace_env.envs.datasets import PlanFollower, minari_folder
from memplace_env.envs.malloc_game import MallocGameEnv, nearest_actions
from memplace_env.envs.one_shot import OneShotEnv
from tests.cli.conftest import Run

GAME, ONE_SHOT, STEPS = "MallocGame-Tiny-v0", "MemPlace-Tiny-v0", "MemPlaceSteps-Tiny-v0"


@pytest.fixture
def read() -> Callable[[str], Any]:
    """Opens a dataset with Minari."""
    minari = pytest.importorskip("minari", reason="minari is not installed")
    pytest.importorskip("h5py", reason="h5py is not installed")
    return lambda folder: minari.MinariDataset(Path(folder) / "data")


def test_episodes_can_be_played_again(parsed: Callable[..., Any], read: Callable[[str], Any]) -> None:
    """Everything that was written is what the environment of the file's own spec gives for the written actions."""
    result = parsed("dataset", GAME, "--agent", "exact", "--episodes", 12, "--epsilon", 0.3, "--out", "d")
    data = read("d")
    assert (data.id, len(data), data.total_steps) == (result["dataset_id"], 12, result["steps"])
    env = data.recover_environment()
    assert env.spec.id == GAME
    returns = []
    for episode in data:
        observation, info = env.reset()
        observations, infos, rewards = [observation], [info], []
        for action in episode.actions:
            observation, reward, over, _, info = env.step(action)
            assert not info["illegal"]
            observations.append(observation)
            infos.append(info)
            rewards.append(reward)
        assert over
        assert episode.terminations.tolist() == [False] * (len(rewards) - 1) + [True]
        assert not episode.truncations.any()
        np.testing.assert_array_equal(episode.observations, observations)
        np.testing.assert_array_equal(episode.rewards, rewards)
        for key in ("latency_s", "optimal_return", "played", "illegal"):
            np.testing.assert_array_equal(episode.infos[key], [info[key] for info in infos])
        returns.append(sum(rewards))
    assert returns[0] == pytest.approx(info["optimal_return"]) == result["plans"][0]["return"]
    assert len(set(returns)) > 3, "the others are other games"
    assert result["returns"]["lowest"] == min(returns)
    assert result["returns"]["highest"] == max(returns)


def test_episodes_of_one_step(parsed: Callable[..., Any], read: Callable[[str], Any]) -> None:
    arguments = ("--agent", "random", "--budget", 50, "--searches", 3, "--episodes", 9)
    result = parsed("dataset", ONE_SHOT, *arguments, "--epsilon", 0.2, "--out", "d")
    assert len({plan["return"] for plan in result["plans"]}) > 1, "each search has its own seed"
    data = read("d")
    env = data.recover_environment()
    assert data.total_steps == len(data) == 9
    for number, episode in enumerate(data):
        observation, _ = env.reset()
        (action,), (reward,) = episode.actions, episode.rewards
        assert env.step(action)[1] == reward
        for row in (0, 1):
            assert (episode.observations[row] == observation).all()
        if number < 3:
            assert reward == pytest.approx(result["plans"][number]["return"])


def test_steps_follow_plans_of_one_shot_agents(parsed: Callable[..., Any], read: Callable[[str], Any]) -> None:
    result = parsed("dataset", STEPS, "--agent", "exact", "--episodes", 5, "--epsilon", 0.3, "--out", "d")
    data = read("d")
    env = data.recover_environment()
    for episode in data:
        _, info = env.reset()
        rewards = [env.step(action)[1] for action in episode.actions]
        assert rewards == episode.rewards.tolist()
    assert result["plans"][0]["return"] == pytest.approx(info["optimal_return"])
    assert result["returns"]["lowest"] < info["optimal_return"]


def test_the_same_seed_writes_the_same(run: Run, read: Callable[[str], Any]) -> None:
    common = ("dataset", GAME, "--agent", "greedy-player", "--episodes", 6, "--epsilon", 0.5)
    for folder, seed in (("a", 1), ("b", 1), ("c", 2)):
        assert run(*common, "--seed", seed, "--out", folder).exit_code == 0
    actions = {folder: np.concatenate([episode.actions for episode in read(folder)]).tolist() for folder in "abc"}
    assert actions["a"] == actions["b"] != actions["c"]


def test_imitation_learns_the_optimum(run: Run, read: Callable[[str], Any]) -> None:
    assert run("dataset", GAME, "--agent", "exact", "--episodes", 20, "--out", "d").exit_code == 0
    data = read("d")
    torch.manual_seed(0)
    observations = torch.as_tensor(np.concatenate([episode.observations[:-1] for episode in data]))
    actions = torch.as_tensor(np.concatenate([episode.actions for episode in data]))
    network = torch.nn.Sequential(torch.nn.Linear(546, 64), torch.nn.Tanh(), torch.nn.Linear(64, 3))
    optimizer = torch.optim.Adam(network.parameters(), 3e-3)
    for _ in range(200):
        loss = torch.nn.functional.cross_entropy(network(observations), actions)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    env = data.recover_environment()
    (observation, info), earned, over = env.reset(), 0.0, False
    while not over:
        action = network(torch.as_tensor(observation)).argmax().item()
        observation, reward, over, _, _ = env.step(action)
        earned += reward
    assert earned == pytest.approx(info["optimal_return"])


def test_a_dataset_is_replaced_only_by_force(run: Run, read: Callable[[str], Any]) -> None:
    common = ("dataset", GAME, "--agent", "greedy-player", "--out", "d")
    assert run(*common, "--episodes", 2).exit_code == 0
    Path("d", "notes.txt").write_text("mine")
    refused = run(*common, "--episodes", 3)
    assert refused.exit_code == 2
    assert "--force" in refused.stderr
    assert len(read("d")) == 2
    assert run(*common, "--episodes", 3, "--force").exit_code == 0
    assert len(read("d")) == 3
    assert sorted(path.name for path in Path("d").iterdir()) == ["data", "notes.txt"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError(28, "No space left on device")])
def test_nothing_is_half_written(
    run: Run, read: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch, error: type[BaseException] | BaseException
) -> None:
    common = ("dataset", GAME, "--agent", "greedy-player", "--episodes", 5)
    assert run(*common, "--out", "old").exit_code == 0
    played = PlanFollower.episode

    def broken(self: PlanFollower, seed: int, epsilon: float = 0.0) -> Any:
        if seed == 3:
            raise error
        return played(self, seed, epsilon)

    monkeypatch.setattr(PlanFollower, "episode", broken)
    for folder in ("new", "old"):
        result = run(*common, "--out", folder, "--force")
        assert result.exit_code == (130 if error is KeyboardInterrupt else 2), result.output
        assert len(result.stderr.strip().splitlines()) == 1
    assert not Path("new").exists()
    assert [path.name for path in Path("old").iterdir()] == ["data"]
    assert len(read("old")) == 5


REFUSED = {
    "unknown id": ((GAME.lower(),), "There is no environment"),
    "model": (("BERT",), "There is no environment"),
    "generic id": (("MallocGame-v0",), "has no program of its own"),
    "id of many programs": (("MallocGame-Train-v0",), "draws another program in each episode"),
    "agent of another formulation": ((GAME, "--agent", "egrl"), "plays --formulation one-shot"),
    "no time": ((GAME, "--time-limit", "0"), "--time-limit must be more than 0"),
    "no episodes": ((GAME, "--episodes", "0"), "--episodes"),
    "too random": ((GAME, "--epsilon", "1.5"), "--epsilon"),
    "something else": ((GAME, "--out", "taken"), "holds no dataset"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(run: Run, monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    monkeypatch.setattr(minari_folder, "check_minari", lambda: None)
    Path("taken", "data").mkdir(parents=True)
    arguments, sentence = REFUSED[case]
    result = run("dataset", *arguments)
    assert result.exit_code == 2
    assert sentence in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def test_without_minari_one_sentence_helps(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "minari"]:
        monkeypatch.delitem(sys.modules, name)
    real = builtins.__import__

    def lacking(name: str, *more: Any, **kwargs: Any) -> Any:
        if name.partition(".")[0] in ("minari", "h5py"):
            raise ImportError(name)
        return real(name, *more, **kwargs)

    monkeypatch.setattr(builtins, "__import__", lacking)
    result = run("dataset", GAME)
    assert result.exit_code == 2
    assert 'pip install "memplace[minari]"' in result.stderr


@given(st.integers(0, 2**32), st.sampled_from([0.0, 0.3, 1.0]))
def test_followed_plans(seed: int, epsilon: float) -> None:
    """Without random decisions an episode is the plan; with them every action that is kept is legal."""
    game, one_shot = MallocGameEnv("synthetic:diamond?ops=6&accelerator=tpu-v4i"), OneShotEnv("synthetic:chain?ops=5")
    plan = Exact().solve(game).plan
    assert plan is not None
    episode = PlanFollower(game, plan).episode(seed, epsilon)
    assert len(episode.observations) == len(episode.infos) == len(episode.actions) + 1 == game.problem.num_decisions + 1
    game.reset()
    assert [game.step(action)[4]["illegal"] for action in episode.actions] == [False] * len(episode.actions)
    if epsilon == 0:
        assert episode.actions == nearest_actions(game.problem, plan).tolist()
    found = RandomSearch().solve(one_shot, budget=8, seed=0).plan
    assert found is not None
    (action,) = PlanFollower(one_shot, found).episode(seed, epsilon).actions
    assert one_shot.problem.mask[np.arange(len(action)), action].all()


def test_a_plan_is_not_followed_where_programs_are_drawn() -> None:
    env = MallocGameEnv(programs="train")
    with pytest.raises(EnvError, match="its program alone"):
        PlanFollower(env, env.plan())
