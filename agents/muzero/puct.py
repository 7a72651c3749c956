"""MuZero's own search: actions by upper confidence bounds, noise at the root, a policy from visits.

Schrittwieser et al., "Mastering Atari, Go, chess and shogi by planning with a learned model", Nature 2020
(arXiv 1911.08265), appendix B, and the pseudocode published with it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from agents.muzero.tree import EPSILON, Floats, Tree
from memplace_env.errors import AgentError
from memplace_env.workload.program import Ints


@dataclass(frozen=True)
class Puct:
    """Settings of the search; the defaults are the paper's.

    Attributes:
        pb_c_init: an action's bound is its q, brought into [0, 1] by the least and greatest q of the tree (0 without
            visits), + prior x sqrt(n) / (1 + its visits) x (pb_c_init + log((1 + n + pb_c_base) / pb_c_base)). The
            visits n of its node include the one that made the node, so that the first choice there is the prior's.
        pb_c_base: see there.
        dirichlet: concentration of the noise at the root; 0.3 is the paper's for chess.
        fraction: share of the noise in the prior of the root; 0 for none.
        temperature: actions are drawn in proportion to visits ** (1 / temperature); 0 takes the most visited one.

    Raises:
        AgentError: if a setting makes no sense.
    """

    pb_c_init: float = 1.25
    pb_c_base: float = 19652.0
    dirichlet: float = 0.3
    fraction: float = 0.25
    temperature: float = 1.0

    def __post_init__(self) -> None:
        for name in ("pb_c_base", "dirichlet"):
            if not 0 < getattr(self, name) < math.inf:
                raise AgentError(f"{name}={getattr(self, name)} makes no sense; pass a finite number above 0.")
        for name in ("pb_c_init", "temperature"):
            if not 0 <= getattr(self, name) < math.inf:
                raise AgentError(f"{name}={getattr(self, name)} makes no sense; pass a finite number from 0 on.")
        if not 0 <= self.fraction <= 1:
            raise AgentError(f"fraction={self.fraction} is no share; pass a number from 0 to 1.")

    def draw(self, rng: np.random.Generator, games: int, options: int) -> Floats:
        """float64[B, A + 1]: gamma variates, which make Dirichlet noise over any legal actions, and a uniform one."""
        gammas = rng.gamma(self.dirichlet, size=(games, options))
        return np.column_stack([np.maximum(gammas, np.finfo(np.float64).tiny), rng.random(games)])

    def begin(self, tree: Tree, noise: Floats, simulations: int) -> PuctSearch:
        """A search of planted trees with noise from `draw`; mixes it into the prior of the roots."""
        prior = tree.prior[:, 0]
        gammas = np.where(tree.logits[:, 0] > -np.inf, noise[:, :-1], 0.0)
        share = gammas / np.maximum(gammas.sum(axis=1, keepdims=True), np.finfo(np.float64).tiny)
        prior[:] = (1 - self.fraction) * prior + self.fraction * share
        explore = [
            (self.pb_c_init + math.log((1 + visits + self.pb_c_base) / self.pb_c_base)) * math.sqrt(visits)
            for visits in range(simulations + 1)
        ]
        return PuctSearch(self, tree, noise[:, -1], np.array(explore))


@dataclass(frozen=True)
class PuctSearch:
    """One search of B games.

    Attributes:
        settings, tree: what it was begun with.
        uniform: float64[B] in [0, 1), from which the actions are drawn.
        explore: float64[n + 1], weight of exploration in a node with so many visits.
    """

    settings: Puct
    tree: Tree
    uniform: Floats
    explore: Floats

    def select(self, simulation: int, parents: Ints, actions: Ints) -> None:
        """Fill with where a simulation ends: nodes int64[B], and actions int64[B] to play there.

        Both are 0 in games whose root is over.
        """
        select(self.tree, self.explore, parents, actions)

    def decide(self) -> tuple[Ints, NDArray[np.float32]]:
        """int64[B], actions drawn by their visits (-1 where the root is over).

        And float32[B, A], the shares of the visits, whatever the temperature.
        """
        visits = self.tree.visits[:, 0].astype(np.float64)
        most, over = visits.max(axis=1), self.tree.over[:, 0]
        if self.settings.temperature == 0:
            chosen = visits.argmax(axis=1)
        else:
            weights = (visits / np.maximum(most, 1)[:, None]) ** (1 / self.settings.temperature)
            bounds = weights.cumsum(axis=1)
            chosen = (bounds <= (self.uniform * bounds[:, -1])[:, None]).sum(axis=1)
        policy = visits / np.maximum(visits.sum(axis=1, keepdims=True), 1)
        return np.where(over, -1, chosen).astype(np.int64), policy.astype(np.float32)


@njit(cache=True, nogil=True, error_model="numpy")
def select(tree, explore, parents, actions):  # type: ignore[no-untyped-def]
    """See `PuctSearch.select`."""
    for game in range(len(parents)):
        parents[game] = actions[game] = 0
        if tree.over[game, 0]:
            continue
        low, width = tree.low[game], max(tree.high[game] - tree.low[game], EPSILON)
        parent, action = 0, _best(tree, game, 0, explore, low, width)
        node = tree.child[game, 0, action]
        while node != 0 and not tree.over[game, node]:
            parent, action = node, _best(tree, game, node, explore, low, width)
            node = tree.child[game, node, action]
        parents[game], actions[game] = parent, action


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _best(tree, game, node, explore, low, width):  # type: ignore[no-untyped-def]
    """The legal action with the greatest bound; ties to the first."""
    options = tree.child.shape[2]
    total = 1
    for action in range(options):
        total += tree.visits[game, node, action]
    best, found = -np.inf, -1
    for action in range(options):
        if tree.logits[game, node, action] == -np.inf:
            continue
        visits = tree.visits[game, node, action]
        bound = tree.prior[game, node, action] * explore[total] / (1 + visits)
        if visits > 0:
            bound += (tree.q[game, node, action] - low) / width
        if bound > best:
            best, found = bound, action
    return found
