"""Search trees of many games at once, as a struct of arrays."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from memplace_agents.muzero.search_types import NO_PARENT, ROOT_INDEX, UNVISITED, Bools, Floats, Ints32, RootOutput
from memplace_agents.muzero.tree_kernels import ALL_FINITE, expand_roots
from memplace_env._lib.errors import AgentError


class Tree(NamedTuple):
    """State of a search, after the tree of mctx.

    `B` denotes the batch dimension, `N` the number of nodes, and `A` the number of actions. Simulation `i` (from 1)
    makes node `i` in every game, so that the model keeps the new states of all games under one number. Where a
    simulation ends in a terminal node nothing new is made, and the node of that number does not exist in that game.

    Attributes:
        children_index: int32[B, N, A], the node that an action leads to, or `UNVISITED`.
        children_visits: int32[B, N, A], simulations that went through an action.
        children_qvalues: float64[B, N, A], their mean return: reward + discount x what followed; 0 without visits.
        children_prior_logits: float64[B, N, A], of the model's policy; -inf for illegal actions.
        children_priors: float64[B, N, A], softmax of the logits, `MIN_PRIOR` at least; 0 for illegal actions.
        raw_values: float64[B, N], the model's value of a node; 0 for terminal nodes.
        rewards: float64[B, N], for the action that led to a node.
        parents: int32[B, N], the node above, or `NO_PARENT`.
        action_from_parent: int32[B, N], the parent's action that led to a node; 0 for the root.
        terminal: bool[B, N], nodes without a legal action.
    """

    children_index: Ints32
    children_visits: Ints32
    children_qvalues: Floats
    children_prior_logits: Floats
    children_priors: Floats
    raw_values: Floats
    rewards: Floats
    parents: Ints32
    action_from_parent: Ints32
    terminal: Bools

    @property
    def num_actions(self) -> int:
        """A, the number of actions."""
        return int(self.children_index.shape[2])

    @property
    def root_values(self) -> Floats:
        """float64[B], mean return of all simulations, the model's value of the root counted as one of them."""
        visits = self.children_visits[:, ROOT_INDEX]
        total = self.raw_values[:, ROOT_INDEX] + (visits * self.children_qvalues[:, ROOT_INDEX]).sum(axis=1)
        return np.asarray(total / (1 + visits.sum(axis=1)))


def instantiate_tree_from_root(root: RootOutput, legal: Bools, num_simulations: int) -> Tree:
    """Return trees of nothing but a root, with room for a node of each simulation: N = num_simulations + 1.

    Args:
        root: the model's output for the roots.
        legal: bool[B, A], legal actions there; a root without any is terminal.
        num_simulations: most simulations of the search.

    Raises:
        AgentError: if a number that matters is not finite.
    """
    batch_size, num_actions = legal.shape
    nodes = (batch_size, num_simulations + 1)
    children = (*nodes, num_actions)
    tree = Tree(
        children_index=np.full(children, UNVISITED, dtype=np.int32),
        children_visits=np.zeros(children, dtype=np.int32),
        children_qvalues=np.zeros(children),
        children_prior_logits=np.zeros(children),
        children_priors=np.zeros(children),
        raw_values=np.zeros(nodes),
        rewards=np.zeros(nodes),
        parents=np.full(nodes, NO_PARENT, dtype=np.int32),
        action_from_parent=np.zeros(nodes, dtype=np.int32),
        terminal=np.zeros(nodes, dtype=np.bool_),
    )
    bad_game = expand_roots(tree, float_array(root.values), float_array(root.prior_logits), bool_array(legal))
    if bad_game != ALL_FINITE:
        raise AgentError(
            f"The model's output for the root of game {bad_game} of the batch is not finite; look for weights that "
            "diverged."
        )
    return tree


def float_array(array: NDArray[Any]) -> Floats:
    """Return the array as contiguous float64, the one type that the kernels are compiled for."""
    return np.ascontiguousarray(array, dtype=np.float64)


def bool_array(array: NDArray[Any]) -> Bools:
    """Return the array as contiguous bool, likewise."""
    return np.ascontiguousarray(array, dtype=np.bool_)
