"""Compiled expansion and backup of search trees.

In shapes `B` denotes the batch dimension, `N` the number of nodes, and `A` the number of actions; `tree` is a
`tree.Tree`, which is changed in place. Helpers are inlined: a call would count references to every array of the tree.
"""

from __future__ import annotations

import numpy as np

from agents.muzero.base import MIN_PRIOR, ROOT_INDEX, UNVISITED
from memplace_env.kernel import kernel

ALL_FINITE = -1
"""What the kernels return where they could name a game whose numbers are not finite."""


@kernel(error_model="numpy")
def expand_roots(tree, values, prior_logits, legal):
    """Write what the model says of the roots.

    Args:
        tree: without any node.
        values: float64[B].
        prior_logits: float64[B, A].
        legal: bool[B, A].

    Returns:
        `ALL_FINITE`, or the first game for which a number that matters is not finite.
    """
    for game in range(len(values)):
        if not _write_node(tree, game, ROOT_INDEX, values[game], prior_logits[game], legal[game]):
            return game
    return ALL_FINITE


@kernel(error_model="numpy")
def expand_and_backup(tree, new_node, parents, actions, rewards, values, prior_logits, legal, discount):
    """End one simulation of every game: expand what was selected, and take the return back to the root.

    Trees whose root is terminal stay as they are.

    Args:
        tree: of the games.
        new_node: number of the simulation, from 1, and of the node that it makes.
        parents, actions: int64[B], the nodes that selection ended in, and the actions played there.
        rewards, values: float64[B], what the model says of those actions and of the nodes they lead to.
        prior_logits: float64[B, A], its policy in the new nodes.
        legal: bool[B, A], legal actions there; a node without any is terminal.
        discount: of a step.

    Returns:
        `ALL_FINITE`, or the first game for which a number that matters is not finite.
    """
    for game in range(len(parents)):
        if tree.terminal[game, ROOT_INDEX]:
            continue
        parent, action = parents[game], actions[game]
        node = tree.children_index[game, parent, action]
        if node == UNVISITED:
            node = new_node
            tree.children_index[game, parent, action] = node
            tree.parents[game, node] = parent
            tree.action_from_parent[game, node] = action
            tree.rewards[game, node] = rewards[game]
            finite = _write_node(tree, game, node, values[game], prior_logits[game], legal[game])
            if not (finite and np.isfinite(rewards[game])):
                return game
        _backup(tree, game, node, discount)
    return ALL_FINITE


@kernel(error_model="numpy", inline="always")
def _backup(tree, game, leaf, discount):
    """Count a simulation that ended in `leaf`, and take its return into the Q-values on the way to the root."""
    node, simulation_return = leaf, tree.raw_values[game, leaf]
    min_qvalue, max_qvalue = tree.min_qvalues[game], tree.max_qvalues[game]
    while node != ROOT_INDEX:
        parent, action = tree.parents[game, node], tree.action_from_parent[game, node]
        simulation_return = tree.rewards[game, node] + discount * simulation_return
        tree.children_visits[game, parent, action] += 1
        qvalue = tree.children_qvalues[game, parent, action]
        qvalue += (simulation_return - qvalue) / tree.children_visits[game, parent, action]
        tree.children_qvalues[game, parent, action] = qvalue
        min_qvalue, max_qvalue = min(min_qvalue, qvalue), max(max_qvalue, qvalue)
        node = parent
    tree.min_qvalues[game], tree.max_qvalues[game] = min_qvalue, max_qvalue


@kernel(error_model="numpy", inline="always")
def _write_node(tree, game, node, value, prior_logits, legal):
    """Write the value and policy of a new node; returns whether all numbers that matter are finite."""
    max_logit = -np.inf
    finite = True
    for action in range(len(prior_logits)):
        if legal[action]:
            finite &= np.isfinite(prior_logits[action])
            max_logit = max(max_logit, prior_logits[action])
    if max_logit == -np.inf:
        tree.terminal[game, node] = True
        tree.children_prior_logits[game, node] = -np.inf
        return finite
    total = 0.0
    for action in range(len(prior_logits)):
        weight = np.exp(prior_logits[action] - max_logit) if legal[action] else 0.0
        tree.children_prior_logits[game, node, action] = prior_logits[action] if legal[action] else -np.inf
        tree.children_priors[game, node, action] = weight
        total += weight
    for action in range(len(prior_logits)):
        if legal[action]:
            tree.children_priors[game, node, action] = max(tree.children_priors[game, node, action] / total, MIN_PRIOR)
    tree.raw_values[game, node] = value
    return finite and np.isfinite(value)
