"""Games played by the search, many at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from agents.muzero.config import MuZeroConfig
from agents.muzero.free_game import FreeGame, Seen
from agents.muzero.gumbel import Gumbel
from agents.muzero.models import LearnedModel, SimulatorModel
from agents.muzero.networks import MuZeroNetwork
from agents.muzero.search import search
from agents.muzero.tree import Floats
from memplace_env.envs.malloc_game.state import USE
from memplace_env.workload.program import Ints


class Episode(NamedTuple):
    """The n decisions with a choice of one game.

    Attributes:
        profile, flat: what was seen before each, see `Seen`.
        action: int8[n].
        reward: float32[n], points.
        policy: float32[n, 3], target for the policy.
        value: float32[n], the search's value, in points.
        known: float32[n], a return from there on that is known to be possible; -inf where none is.
    """

    profile: NDArray[np.uint8]
    flat: NDArray[np.float16]
    action: NDArray[np.int8]
    reward: NDArray[np.float32]
    policy: NDArray[np.float32]
    value: NDArray[np.float32]
    known: NDArray[np.float32]

    def after(self, first: Episode, decisions: int) -> Episode:
        """This game, but with so many decisions of another before it."""
        own: list[NDArray[Any]] = list(self)
        others: list[NDArray[Any]] = list(first)
        return Episode(*(np.concatenate([other[:decisions], mine]) for other, mine in zip(others, own, strict=True)))

    @property
    def demonstration(self) -> Episode:
        """The same game with the actions played as policy and the return as value."""
        to_go = np.cumsum(self.reward[::-1], dtype=np.float64)[::-1].astype(np.float32)
        return self._replace(policy=np.eye(3, dtype=np.float32)[self.action], value=to_go, known=to_go)


class Played(NamedTuple):
    """Finished games.

    Attributes:
        rows: int64[B, size].
        episodes: what was searched of each game; nothing if they had no choices or were stopped.
        followed: int64[B], with how many decisions of the best game so far each game began.
    """

    rows: Ints
    episodes: list[Episode]
    followed: Ints


@dataclass(frozen=True)
class SpreadGumbel(Gumbel):
    """The search with more noise in some games than in others: `scales` float64[B] on top of `noise_scale`."""

    scales: Floats = field(default_factory=lambda: np.ones(1))

    def draw(self, rng: np.random.Generator, games: int, options: int) -> Floats:
        """float64[B, A]."""
        return np.asarray(self.scales[:, None] * super().draw(rng, games, options))


def play_games(
    game: FreeGame,
    network: MuZeroNetwork,
    config: MuZeroConfig,
    rng: np.random.Generator,
    count: int,
    best: Episode | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> Played:
    """Play games with a search before each decision.

    Args:
        game, network, config: what to play, and how.
        rng: of all randomness.
        count: games.
        best: the best game so far, from which `config.deviations` of the games deviate once.
        stop: asked before each decision; once it says so, the games are finished greedily.
    """
    scales = np.linspace(0, config.noise, count) if count > 1 else np.zeros(1)
    rows, left, known = game.new_rows(count), np.full(count, -1), np.full(count, -np.inf)
    if best is not None:
        deviants = slice(1, 1 + round(config.deviations * (count - 1)))
        left[deviants] = rng.integers(len(best.action), size=len(left[deviants]))
        known[deviants] = _follow(game, rows, best, left)[deviants]
        scales[1:] = rng.permutation(scales[1:])
    moves: list[_Moves] = []
    while True:
        going = np.flatnonzero(~game.problem.done(rows))
        if len(going) == 0:
            return Played(rows, _episodes(moves, count), np.maximum(left, 0))
        if stop():
            game.problem.finish_greedily(rows)
            return Played(rows, [], left)
        own = rows[going]
        seen, legal = game.observe(own), game.problem.legal(own)
        method = SpreadGumbel(c_visit=config.c_visit, c_scale=config.c_scale, normalise="none", scales=scales[going])
        model = (
            LearnedModel(network, seen, config.simulations)
            if config.model == "learned"
            else SimulatorModel(network, game, own, config.simulations)
        )
        found = search(model, model.root, legal, simulations=config.simulations, rng=rng, method=method)
        action = found.action
        if not moves and best is not None:
            action = np.where(left >= 0, _others(rng, legal, best.action[left]), action)
        reward = game.play(own, action)
        rows[going] = own
        moves.append(_Moves(going, seen, action, reward, found.policy, found.value, known[going]))
        known[:] = -np.inf


def _follow(game: FreeGame, rows: Ints, best: Episode, steps: Ints) -> Floats:
    """Play the best game's first `steps` int64[B] decisions; returns what it earns after them, float64[B]."""
    for step in range(steps.max(initial=0)):
        going = np.flatnonzero(steps > step)
        own = rows[going]
        game.play(own, np.full(len(going), best.action[step]))
        rows[going] = own
    to_go = np.append(np.cumsum(best.reward[::-1], dtype=np.float64)[::-1], 0.0)
    return np.asarray(to_go[steps])


def _others(rng: np.random.Generator, legal: NDArray[np.bool_], taken: NDArray[np.int8]) -> Ints:
    """int64[B], legal actions drawn at random, others than those taken."""
    chance = np.where(legal, rng.random(legal.shape), -1.0)
    chance[np.arange(len(legal)), taken] = -0.5
    return np.asarray(chance.argmax(axis=1))


def play_policy(game: FreeGame, network: MuZeroNetwork) -> Ints:
    """int64[1, size], a game that follows the policy's most likely legal action, without search."""
    rows = game.new_rows(1)
    while not game.problem.done(rows)[0]:
        with torch.inference_mode():
            logits = network.predict(network.look(game.observe(rows))).policy.numpy()
        game.play(rows, np.where(game.problem.legal(rows), logits, -np.inf).argmax(axis=1))
    return rows


def demonstrate(game: FreeGame) -> Played:
    """The greedy player's game."""
    rows, moves = game.new_rows(1), []
    while not game.problem.done(rows)[0]:
        action = game.greedy[rows[:, USE]].astype(np.int64)
        seen = game.observe(rows)
        reward = game.play(rows, action)
        nothing = np.zeros((1, 3), dtype=np.float32)
        moves.append(_Moves(np.zeros(1, dtype=np.int64), seen, action, reward, nothing, reward, np.full(1, -np.inf)))
    return Played(rows, _episodes(moves, 1), np.zeros(1, dtype=np.int64))


class _Moves(NamedTuple):
    """One decision in each of some games: which games, and the columns of `Episode`."""

    games: Ints
    seen: Seen
    action: Ints
    reward: Floats
    policy: NDArray[np.float32]
    value: NDArray[np.floating]
    known: Floats


def _episodes(moves: list[_Moves], count: int) -> list[Episode]:
    """The games one by one; nothing if there was no choice at all."""
    if not moves:
        return []
    games = np.concatenate([move.games for move in moves])
    columns: list[list[NDArray[Any]]] = [[*move.seen, *move[2:]] for move in moves]
    types = (np.uint8, np.float16, np.int8, *[np.float32] * 4)
    arrays = [np.concatenate(parts).astype(kind) for parts, kind in zip(zip(*columns, strict=True), types, strict=True)]
    owns = [np.flatnonzero(games == number) for number in range(count)]
    return [Episode(*(array[own] for array in arrays)) for own in owns]
