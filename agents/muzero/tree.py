"""Search trees of many games at once: plain arrays, and the kernel that grows them.

Simulation i (from 1) makes node i in every game, so that one number names the slot in which the model keeps the new
states of all games; node 0 is the root. Where a simulation ends in a node in which the game is over, nothing new
comes of it, and the slot stays unused in that game.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from memplace_env.errors import AgentError

Floats = NDArray[np.float64]
Ints32 = NDArray[np.int32]

SMALLEST_PRIOR = 1e-30
"""Prior of a legal action at least, so that shares among visited actions are never 0 / 0; our choice."""

EPSILON = 1e-8
"""Q values that lie closer together than this count as equal where they are normalised; our choice."""


class Tree(NamedTuple):
    """B trees of up to N nodes with A actions each.

    Attributes:
        child: int32[B, N, A], the node that an action leads to; 0 (nobody's child is the root) if not made yet.
        visits: int32[B, N, A], simulations that went through an action.
        q: float64[B, N, A], their mean return: reward + discount x what followed; 0 without visits.
        logits: float64[B, N, A], of the model's policy; -inf for illegal actions.
        prior: float64[B, N, A], softmax of the logits; at the root perhaps with noise.
        value: float64[B, N], the model's value of a node; 0 where the game is over.
        reward: float64[B, N], for the action that led to a node.
        parent: int32[B, N].
        action: int32[B, N], which of the parent's actions led to a node.
        over: bool[B, N], nodes without a legal action.
        low: float64[B], least q of any visited action so far; +inf before the first.
        high: float64[B], greatest; -inf before the first.
    """

    child: Ints32
    visits: Ints32
    q: Floats
    logits: Floats
    prior: Floats
    value: Floats
    reward: Floats
    parent: Ints32
    action: Ints32
    over: NDArray[np.bool_]
    low: Floats
    high: Floats

    @property
    def root_value(self) -> Floats:
        """float64[B], mean return of all simulations, the model's value of the root counted as one of them."""
        visits = self.visits[:, 0]
        total = self.value[:, 0] + (visits * self.q[:, 0]).sum(axis=1)
        return np.asarray(total / (1 + visits.sum(axis=1)))


def plant(value: NDArray[Any], logits: NDArray[Any], legal: NDArray[np.bool_], nodes: int) -> Tree:
    """Trees of nothing but a root, with room for so many nodes.

    Args:
        value: float[B], the model's values of the roots.
        logits: float[B, A], of its policy there; those of illegal actions do not matter.
        legal: bool[B, A]; without a legal action the game is over.
        nodes: N.

    Raises:
        AgentError: if a number that matters is not finite.
    """
    count, options = logits.shape
    edges, places = (count, nodes, options), (count, nodes)
    tree = Tree(
        child=np.zeros(edges, dtype=np.int32),
        visits=np.zeros(edges, dtype=np.int32),
        q=np.zeros(edges),
        logits=np.zeros(edges),
        prior=np.zeros(edges),
        value=np.zeros(places),
        reward=np.zeros(places),
        parent=np.zeros(places, dtype=np.int32),
        action=np.zeros(places, dtype=np.int32),
        over=np.zeros(places, dtype=np.bool_),
        low=np.full(count, np.inf),
        high=np.full(count, -np.inf),
    )
    bad = settle(tree, float_array(value), float_array(logits), bool_array(legal))
    if bad >= 0:
        raise AgentError(
            f"The model's answer on the root of game {bad} of the batch is not finite; look for weights that diverged."
        )
    return tree


def float_array(values: NDArray[Any]) -> Floats:
    """As contiguous float64, the one type that the kernels are compiled for."""
    return np.ascontiguousarray(values, dtype=np.float64)


def bool_array(values: NDArray[Any]) -> NDArray[np.bool_]:
    """As contiguous bool, likewise."""
    return np.ascontiguousarray(values, dtype=np.bool_)


@njit(cache=True, nogil=True, error_model="numpy")
def settle(tree, value, logits, legal):  # type: ignore[no-untyped-def]
    """Write what the model says of the roots: value float64[B], logits float64[B, A], legal bool[B, A].

    Returns:
        -1, or the first game for which a number that matters is not finite.
    """
    for game in range(len(value)):
        if not _open(tree, game, 0, value[game], logits[game], legal[game]):
            return game
    return -1


@njit(cache=True, nogil=True, error_model="numpy")
def grow(tree, node, parents, actions, reward, value, logits, legal, discount):  # type: ignore[no-untyped-def]
    """End one simulation of every game: add what it reached as a node, and take the returns back to the root.

    Trees whose root is over stay as they are.

    Args:
        tree: see `Tree`; changed in place.
        node: number of the simulation, from 1.
        parents, actions: int64[B], the actions that the simulation ended with, and the nodes they were played in.
        reward, value: float64[B], what the model says of those actions and of the nodes they lead to.
        logits: float64[B, A], its policy in the new nodes.
        legal: bool[B, A], legal actions there; without one the game is over.
        discount: of a step.

    Returns:
        -1, or the first game for which the model gave a number that matters and is not finite.
    """
    for game in range(len(parents)):
        if tree.over[game, 0]:
            continue
        parent, action = parents[game], actions[game]
        reached = tree.child[game, parent, action]
        if reached == 0:
            reached = node
            tree.child[game, parent, action] = node
            tree.parent[game, node] = parent
            tree.action[game, node] = action
            tree.reward[game, node] = reward[game]
            finite = _open(tree, game, node, value[game], logits[game], legal[game])
            if not (finite and np.isfinite(reward[game])):
                return game
        low, high = tree.low[game], tree.high[game]
        gain = tree.value[game, reached]
        while reached != 0:
            parent, action = tree.parent[game, reached], tree.action[game, reached]
            gain = tree.reward[game, reached] + discount * gain
            tree.visits[game, parent, action] += 1
            q = tree.q[game, parent, action]
            q += (gain - q) / tree.visits[game, parent, action]
            tree.q[game, parent, action] = q
            low, high = min(low, q), max(high, q)
            reached = parent
        tree.low[game], tree.high[game] = low, high
    return -1


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _open(tree, game, node, value, logits, legal):  # type: ignore[no-untyped-def]
    """Write a new node; returns whether all that matters of it is finite."""
    top = -np.inf
    finite = True
    for action in range(len(logits)):
        if legal[action]:
            finite &= np.isfinite(logits[action])
            top = max(top, logits[action])
    if top == -np.inf:
        tree.over[game, node] = True
        tree.logits[game, node] = -np.inf
        return finite
    total = 0.0
    for action in range(len(logits)):
        weight = np.exp(logits[action] - top) if legal[action] else 0.0
        tree.logits[game, node, action] = logits[action] if legal[action] else -np.inf
        tree.prior[game, node, action] = weight
        total += weight
    for action in range(len(logits)):
        if legal[action]:
            tree.prior[game, node, action] = max(tree.prior[game, node, action] / total, SMALLEST_PRIOR)
    tree.value[game, node] = value
    return finite and np.isfinite(value)
