"""Gumbel MuZero: planning with few simulations that still improves the policy.

Danihelka, Guez, Schrittwieser and Silver, "Policy improvement by planning with Gumbel", ICLR 2022. At the root,
Gumbel noise samples actions without replacement, and sequential halving spends the simulations on them; elsewhere
actions follow the improved policy: softmax(logits + sigma(completed Q)), where actions without visits get the value
v_mix of the paper's appendix D.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from numba import njit
from numpy.typing import NDArray

from agents.muzero.tree import EPSILON, Floats, Tree
from memplace_env.errors import AgentError
from memplace_env.workload.program import Ints

# Helpers are inlined: a call would count references to every array of the tree.

NORMALISATIONS = ("none", "node", "tree")
"""Ways to bring Q into [0, 1]; their places are known to the kernel."""


@dataclass(frozen=True)
class Gumbel:
    """Settings of the search; the defaults are the paper's and its authors' library's.

    Attributes:
        considered: actions sampled at the root at most.
        c_visit: sigma(q) = (c_visit + most visits of an action) x c_scale x normalised q.
        c_scale: see there; the paper has 1 for board games and 0.1 for Atari.
        normalise: by which least and greatest value q becomes normalised q in [0, 1]: those of the completed Q of
            the node, those of all Q in the tree and the node's v_mix, or 0 and 1.
        noise_scale: factor on the Gumbel noise; 0 makes the search deterministic.

    Raises:
        AgentError: if a setting makes no sense.
    """

    considered: int = 16
    c_visit: float = 50.0
    c_scale: float = 0.1
    normalise: Literal["none", "node", "tree"] = "node"
    noise_scale: float = 1.0

    def __post_init__(self) -> None:
        if self.considered < 1:
            raise AgentError(f"considered={self.considered} leaves no action to search; pass at least 1.")
        for name in ("c_visit", "c_scale", "noise_scale"):
            if not 0 <= getattr(self, name) < math.inf:
                raise AgentError(f"{name}={getattr(self, name)} makes no sense; pass a finite number from 0 on.")
        if self.normalise not in NORMALISATIONS:
            raise AgentError(f"normalise={self.normalise!r} is unknown; pass one of {', '.join(NORMALISATIONS)}.")

    def draw(self, rng: np.random.Generator, games: int, options: int) -> Floats:
        """float64[B, A], the Gumbel noise of so many games."""
        return self.noise_scale * rng.gumbel(size=(games, options))

    def begin(self, tree: Tree, noise: Floats, simulations: int) -> GumbelSearch:
        """A search of planted trees with noise from `draw`."""
        options = tree.child.shape[2]
        legal = (tree.logits[:, 0] > -np.inf).sum(axis=1)
        rows = np.minimum(legal, self.considered)
        table = np.array([schedule(considered, simulations) for considered in range(options + 1)])
        return GumbelSearch(self, tree, noise, np.ascontiguousarray(table[rows].T))


@dataclass(frozen=True)
class GumbelSearch:
    """One search of B games.

    Attributes:
        settings, tree: what it was begun with.
        noise: float64[B, A].
        wanted: int64[n, B], visits that the root's action of each simulation has before it.
    """

    settings: Gumbel
    tree: Tree
    noise: Floats
    wanted: Ints

    def select(self, simulation: int, parents: Ints, actions: Ints) -> None:
        """Fill with where simulation 0..n-1 ends: nodes int64[B], and actions int64[B] to play there.

        Both are 0 in games whose root is over.
        """
        select(self.tree, self.noise, self.wanted[simulation], *self._constants, parents, actions)

    def decide(self) -> tuple[Ints, NDArray[np.float32]]:
        """int64[B], the best of the most visited actions (-1 where the root is over).

        And float32[B, A], the improved policy, which is 0 for illegal actions.
        """
        count, _, options = self.tree.child.shape
        chosen, policy = np.empty(count, dtype=np.int64), np.empty((count, options))
        decide(self.tree, self.noise, *self._constants, chosen, policy)
        return chosen, policy.astype(np.float32)

    @property
    def _constants(self) -> tuple[float, float, int]:
        settings = self.settings
        return settings.c_visit, settings.c_scale, NORMALISATIONS.index(settings.normalise)


@lru_cache
def schedule(considered: int, simulations: int) -> tuple[int, ...]:
    """Sequential halving among so many actions: visits of the root's action before each simulation.

    In each phase the actions left get equally many visits, about simulations / log2(considered) together; then the
    better half goes on, but never fewer than two, until the simulations are spent (Karnin, Koren and Somekh, ICML
    2013; rounded as in the library of the paper's authors).
    """
    if considered <= 1:
        return tuple(range(simulations))
    phases = math.ceil(math.log2(considered))
    wanted: list[int] = []
    left, visits = considered, 0
    while len(wanted) < simulations:
        rounds = max(simulations // (phases * left), 1)
        wanted += [visits + number for number in range(rounds) for _ in range(left)]
        left, visits = max(left // 2, 2), visits + rounds
    return tuple(wanted[:simulations])


@njit(cache=True, nogil=True, error_model="numpy")
def select(tree, noise, wanted, c_visit, c_scale, normalise, parents, actions):  # type: ignore[no-untyped-def]
    """See `GumbelSearch.select`."""
    scores = np.empty(tree.child.shape[2])
    for game in range(len(parents)):
        parents[game] = actions[game] = 0
        if tree.over[game, 0]:
            continue
        _improve(tree, game, 0, c_visit, c_scale, normalise, scores)
        parent, action = 0, _best(tree, game, noise[game], wanted[game], scores)
        node = tree.child[game, 0, action]
        while node != 0 and not tree.over[game, node]:
            _improve(tree, game, node, c_visit, c_scale, normalise, scores)
            parent, action = node, _most_wanting(tree, game, node, scores)
            node = tree.child[game, node, action]
        parents[game], actions[game] = parent, action


@njit(cache=True, nogil=True, error_model="numpy")
def decide(tree, noise, c_visit, c_scale, normalise, chosen, policy):  # type: ignore[no-untyped-def]
    """See `GumbelSearch.decide`; fills `chosen` int64[B] and `policy` float64[B, A]."""
    scores = np.empty(tree.child.shape[2])
    for game in range(len(chosen)):
        chosen[game], policy[game] = -1, 0.0
        if tree.over[game, 0]:
            continue
        _improve(tree, game, 0, c_visit, c_scale, normalise, scores)
        chosen[game] = _best(tree, game, noise[game], tree.visits[game, 0].max(), scores)
        total = _softmax(scores)
        for action in range(len(scores)):
            policy[game, action] = scores[action] / total


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _improve(tree, game, node, c_visit, c_scale, normalise, scores):  # type: ignore[no-untyped-def]
    """Fill `scores` float64[A] with logits + sigma(completed Q) of a node; -inf for illegal actions."""
    total = most = 0
    prior = weighted = 0.0
    low, high = np.inf, -np.inf
    for action in range(len(scores)):
        visits = tree.visits[game, node, action]
        if visits > 0:
            q = tree.q[game, node, action]
            total, most = total + visits, max(most, visits)
            prior += tree.prior[game, node, action]
            weighted += tree.prior[game, node, action] * q
            low, high = min(low, q), max(high, q)
    mixed = tree.value[game, node]
    if total > 0:
        mixed = (mixed + total * (weighted / prior)) / (total + 1)
    if normalise == 0:
        low, high = 0.0, 1.0
    elif normalise == 1:
        for action in range(len(scores)):
            if tree.visits[game, node, action] == 0 and tree.logits[game, node, action] > -np.inf:
                low, high = min(low, mixed), max(high, mixed)
    else:
        low, high = min(tree.low[game], mixed), max(tree.high[game], mixed)
    scale = (c_visit + most) * c_scale / max(high - low, EPSILON)
    for action in range(len(scores)):
        q = tree.q[game, node, action] if tree.visits[game, node, action] > 0 else mixed
        scores[action] = tree.logits[game, node, action] + scale * (q - low)


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _best(tree, game, noise, wanted, scores):  # type: ignore[no-untyped-def]
    """The legal action of the root with so many visits and the greatest noise + score; ties to the first."""
    best, found = -np.inf, -1
    for action in range(len(scores)):
        score = noise[action] + scores[action]
        if tree.visits[game, 0, action] == wanted and score > best:
            best, found = score, action
    return found


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _most_wanting(tree, game, node, scores):  # type: ignore[no-untyped-def]
    """The legal action whose share of the visits falls shortest of the improved policy; ties to the first.

    The paper's pi'(a) - N(a) / (1 + sum of N), times both denominators.
    """
    total, visits = _softmax(scores), 1
    for action in range(len(scores)):
        visits += tree.visits[game, node, action]
    best, found = -np.inf, -1
    for action in range(len(scores)):
        lack = scores[action] * visits - tree.visits[game, node, action] * total
        if tree.logits[game, node, action] > -np.inf and lack > best:
            best, found = lack, action
    return found


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _softmax(scores):  # type: ignore[no-untyped-def]
    """Replace scores by weights in proportion to the softmax; returns their sum."""
    top = scores[0]
    for action in range(1, len(scores)):
        top = max(top, scores[action])
    total = 0.0
    for action in range(len(scores)):
        scores[action] = np.exp(scores[action] - top)
        total += scores[action]
    return total
