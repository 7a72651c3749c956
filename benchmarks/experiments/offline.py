"""Offline learning from three grades of data: behaviour cloning and a conservative Q-learning reference.

Games and data are those of `memplace offline-suite`: the six games of quick-v2 whose ids have the lowest SHA-256, 40
episodes of each grade. Each learner makes 1,000 updates from 128 decisions and then plays the game once by its best
legal action. Both have one hidden layer of 128 and Adam at 1e-3. These settings
were tried once, with seed 0 on the seventh game, and left as they were.
Behaviour cloning is cross-entropy over the legal actions. The other is discrete CQL: temporal differences with a double
maximum over the legal actions, discount 1, a target network that follows by 0.02 each update, and the conservative term
with weight 1; rewards are such that the best known plan returns 100. A score is a return where 0 is everything in the
backing memory, and 1 the best known plan.
"""

from __future__ import annotations

import copy
import time
from functools import cache
from itertools import product
from typing import Any, Final, NamedTuple

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss

from benchmarks.harness import Experiment, Records, Rows, as_rows, data, heads
from benchmarks.ledger import Record
from memplace_agents import make_agent
from memplace_env.envs.datasets.grades import GRADES, OFFLINE, graded_episodes
from memplace_env.envs.known_returns import best_known
from memplace_env.envs.malloc_game import MallocGameEnv

SEEDS: Final = 5
UPDATES, BATCH, HIDDEN, RATE = 1_000, 128, 128, 1e-3
FOLLOW, CONSERVATIVE = 0.02, 1.0
CLONING, CQL = "BC", "CQL"


class Data(NamedTuple):
    """A game and the n decisions of one of its grades: observations before and after, actions, rewards, the last ones.

    Rewards are such that the best known plan returns 100; `score` is the mean of the episodes.
    """

    env: Any
    seen: Tensor
    after: Tensor
    actions: Tensor
    rewards: Tensor
    last: Tensor
    score: float


@cache
def data_of(env_id: str, grade: str) -> Data:
    """Return the data of a grade."""
    env: Any = gym.make(env_id, observation="flat", skip_forced=True).unwrapped
    agents, epsilon = GRADES[grade]
    plans: list[Any] = [make_agent(agent).solve(env, budget=4000, seed=0).plan for agent in agents]
    episodes = list(graded_episodes(env, plans, epsilon))
    seen = [torch.from_numpy(np.stack([*episode.observations])) for episode in episodes]
    rewards = np.concatenate([episode.rewards for episode in episodes]) / best_known(env.spec.id).best_return
    last = [step == len(episode.rewards) - 1 for episode in episodes for step in range(len(episode.rewards))]
    actions = torch.tensor([action for episode in episodes for action in episode.actions])
    before, after = torch.cat([one[:-1] for one in seen]), torch.cat([one[1:] for one in seen])
    score, scaled = float(rewards.sum()) / len(episodes), torch.from_numpy(100 * rewards).float()
    return Data(env, before, after, actions, scaled, torch.tensor(last), score)


def settings(records: Records = ()) -> list[Record]:
    """Return the settings of all runs, seed by seed."""
    runs = product(range(SEEDS), OFFLINE, GRADES, (CLONING, CQL))
    return [{"id": env_id, "grade": grade, "learner": learner, "seed": seed} for seed, env_id, grade, learner in runs]


def measure(run: Record) -> Record:
    """Return a run's setting with its score, the mean score of the data, and its processor time."""
    torch.set_num_threads(1)
    data, began = data_of(run["id"], run["grade"]), time.process_time()
    score = play(data.env, trained(data, run["learner"], run["seed"]))
    return {**run, "data": data.score, "score": score, "took_s": time.process_time() - began}


def trained(data: Data, learner: str, seed: int) -> nn.Module:
    """Return a network of logits, or of values, of the actions."""
    torch.manual_seed(seed)
    network = nn.Sequential(nn.Linear(data.seen.shape[1], HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 3))
    target, optimizer = copy.deepcopy(network), torch.optim.Adam(network.parameters(), RATE)
    for _ in range(UPDATES):
        rows = torch.randint(len(data.actions), (BATCH,))
        seen, actions = data.seen[rows], data.actions[rows, None]
        values = network(seen)
        loss = -masked(values, seen).log_softmax(1).gather(1, actions).mean()
        if learner == CQL:
            with torch.no_grad():
                best = masked(network(data.after[rows]), data.after[rows]).argmax(1, keepdim=True)
                ahead = target(data.after[rows]).gather(1, best)[:, 0]
                goal = data.rewards[rows] + ~data.last[rows] * ahead
            loss = mse_loss(values.gather(1, actions)[:, 0], goal) + CONSERVATIVE * loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for slow, fast in zip(target.parameters(), network.parameters(), strict=True):
                slow.lerp_(fast, FOLLOW)
    return network


def masked(values: Tensor, seen: Tensor) -> Tensor:
    """Return the values, those of illegal actions next to minus infinity; after the end there are only such."""
    return values.masked_fill(seen[:, MallocGameEnv.mask_slice] == 0, -1e9)


def play(env: Any, network: nn.Module) -> float:
    """Return the score of a game by the best legal actions."""
    (seen, _), earned, over = env.reset(), 0.0, False
    while not over:
        row = torch.from_numpy(seen)[None]
        seen, reward, over, _, _ = env.step(int(masked(network(row), row).argmax()))
        earned += reward
    return earned / best_known(env.spec.id).best_return


def rows(records: Records) -> Rows:
    """Return a row for each game, the mean of the seeds, and one for the mean of the games, with lowest and highest."""
    titles, cells = ["game"], [[*OFFLINE, "mean [lowest, highest seed]"]]
    for grade, learner in product(GRADES, ("", CLONING, CQL)):
        chosen = [run for run in records if run["grade"] == grade and run["learner"] == (learner or CLONING)]
        games = [[run["score" if learner else "data"] for run in chosen if run["id"] == env_id] for env_id in OFFLINE]
        scores, each = np.array(games), np.mean(games, axis=0)
        spread = f" [{each.min():.2f}, {each.max():.2f}]" if learner else ""
        titles.append(f"{grade} {learner}".strip())
        cells.append([*(f"{score:.2f}" for score in scores.mean(axis=1)), f"{each.mean():.2f}{spread}"])
    return as_rows(titles, zip(*cells, strict=True))


EXPERIMENTS = [
    Experiment(
        "offline",
        __doc__,
        {"docs/data/offline.csv": data(heads, rows)},
        settings,
        measure,
        key=("id", "grade", "learner", "seed"),
    )
]
