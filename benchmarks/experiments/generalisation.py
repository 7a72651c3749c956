"""A protocol for generalisation: train on Train, choose on Validation, report on Test.

Budget, seeds and aggregate are fixed: five seeds; 6,000 games of `MallocGame-Train-v0` each; after every 1,000 the
policy plays each setting of Validation once, by its likeliest legal actions. The policy with the highest score there
plays each setting of Test once. A score is the mean return over a split's distribution, in percent of what the best
cheap plan of each setting gains over everything in the backing memory. A chosen policy has seen no program of Test. A
return has no lower bound, so that few settings may decide a mean: the median over settings stands beside it.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from functools import cache
from textwrap import fill
from typing import Any, Final, NamedTuple

import gymnasium as gym
import numpy as np
import torch

from benchmarks.harness import Experiment, Records, data
from benchmarks.ledger import Record
from memplace_agents import PPO
from memplace_env.envs.splits import Split
from memplace_leaderboard.scores import Floats

SEEDS: Final = 5
GAMES, EVERY = 6_000, 1_000
TRAIN: Final = "MallocGame-Train-v0"
LEARNER, GREEDY, RANDOM = "PPO, zero-shot", "greedy player", "random legal play"


class SplitGames(NamedTuple):
    """The settings of a split as games, their units and their probabilities float64[n]."""

    env: Any
    problems: list[Any]
    scale: Floats
    weights: Floats


@cache
def games_of(split: Split) -> SplitGames:
    """Return the games of a split, loaded once."""
    env: Any = gym.make(f"MallocGame-{split.title()}-v0", observation="flat").unwrapped
    drawn = [env.drawn(setting) for setting in env.programs.settings]
    scale = np.array([env.scale_of(one) for one in drawn])
    return SplitGames(env, [one.problem for one in drawn], scale, env.programs.weights)


def settings(records: Records = ()) -> list[Record]:
    """Return the settings of all runs."""
    learned = [{"player": LEARNER, "seed": seed, "games": GAMES} for seed in range(SEEDS)]
    return [{"player": GREEDY, "seed": 0}, *({"player": RANDOM, "seed": seed} for seed in range(SEEDS)), *learned]


def measure(run: Record) -> Record:
    """Return a run's setting with its returns on Test, and the scores on Validation that chose its policy."""
    began, found = time.process_time(), dict[str, Any]()
    if run["player"] == LEARNER:
        policy, found["validation"] = trained(run["seed"])
        reached = play(Split.TEST, policy)
    else:
        reached = finish(Split.TEST, run["player"], run["seed"])
    return {**run, **found, "returns": reached.round(4).tolist(), "took_s": time.process_time() - began}


def trained(seed: int) -> tuple[Any, list[float]]:
    """Return the policy with the highest score on Validation, and the scores of all that were asked."""
    scores, best, env = list[float](), None, gym.make(TRAIN)
    env.reset(seed=seed)
    with tempfile.TemporaryDirectory() as folder:
        for games in range(EVERY, GAMES + 1, EVERY):
            policy = PPO(out=folder, resume=games > EVERY).train([env], budget=games, seed=seed).policy
            scores.append(float(games_of(Split.VALIDATION).weights @ play(Split.VALIDATION, policy)))
            best = policy if scores[-1] == max(scores) else best
    return best, scores


def play(split: Split, policy: Any) -> Floats:
    """Return float64[n], the return of one game of each setting, by a policy's likeliest legal actions."""
    env, problems, scale, _ = games_of(split)
    batch = env.new_batch(problems, [env.start_of(problem) for problem in problems])
    seen, total = batch.observe(), np.zeros(len(problems))
    while not batch.done().all():
        with torch.no_grad():
            logits = policy(torch.from_numpy(seen)).numpy()
        total += env.play(batch, np.where(batch.legal(), logits, -np.inf).argmax(axis=1), scale, seen)[0]
    return total


def finish(split: Split, player: str, seed: int) -> Floats:
    """Return float64[n], the return of one game of each setting, by the greedy player or by random legal actions."""
    env, problems, scale, _ = games_of(split)
    total = np.zeros(len(problems))
    for index, problem in enumerate(problems):
        states = problem.new_states(1)
        problem.finish_greedily(states) if player == GREEDY else problem.finish_randomly(states, seed)
        total[index] = env.return_of(problem.latency_s(states)[0], problem, scale[index])
    return total


class Row(NamedTuple):
    """A player with its returns float64[seeds, n]."""

    player: str
    returns: Floats


def rows(records: Records) -> Iterator[Row]:
    """Yield the players."""
    for player in (RANDOM, GREEDY, LEARNER):
        found = [record["returns"] for record in records if record["player"] == player]
        if found:
            yield Row(player, np.array(found))


def score(row: Row) -> str:
    """Return a cell: the score, mean of the seeds, and the least and the highest of them."""
    scores = row.returns @ games_of(Split.TEST).weights
    return f"{scores.mean():.1f}" + (f" [{scores.min():.1f}, {scores.max():.1f}]" if len(scores) > 1 else "")


def median(row: Row) -> str:
    """Return a cell: the median over the settings, of means over seeds."""
    return f"{np.median(row.returns.mean(axis=0)):.1f}"


def scores(records: Records) -> str:
    """Return the scores of all players."""
    said = (
        f"{row.player} {score(row)}, median {median(row)} ({len(row.returns)} seed{'s' * (len(row.returns) > 1)})"
        for row in rows(records)
    )
    return fill(f"Scores on Test with the least and the highest seed, and medians: {'; '.join(said)}.", 120)


EXPERIMENTS = [
    Experiment(
        "generalisation",
        __doc__,
        {
            "docs/how-it-is-solved.md#generalisation": scores,
            "docs/data/generalisation.csv": data(
                {
                    "player": lambda row: row.player,
                    "seeds": lambda row: len(row.returns),
                    "score": score,
                    "median of settings": median,
                    "settings below 0": lambda row: f"{100 * (row.returns < 0).mean():.1f} %",
                    "settings where it reaches the best rule": lambda row: f"{100 * (row.returns >= 100).mean():.0f} %",
                    "lowest quarter of settings": lambda row: f"{np.quantile(row.returns.mean(axis=0), 0.25):.1f}",
                },
                rows,
            ),
        },
        settings,
        measure,
        key=("player", "seed"),
    )
]
