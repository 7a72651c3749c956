"""Compiled expansion and backup of search trees.

In shapes `B` denotes the batch dimension, `N` the number of nodes, and `A` the number of actions; `tree` is a
`tree.Tree`, which is changed in place. Helpers are inlined: a call would count references to every array of the tree.
"""

from __future__ import annotations

import numpy as np

from memplace_agents.muzero.search_types import MIN_PRIOR, ROOT_INDEX, UNVISITED
from memplace_env._lib.kernel import kernel

ALL_FINITE = -1
"""Return value of the kernels if no game has a number that is not finite."""


@kernel(error_model="numpy")
def expand_roots(tree, values, prior_logits, legal):
    """Write the model's output for the roots into the trees.

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
    """End one simulation of every game: expand the selected action, and take the return back to the root.

    Trees whose root is terminal stay as they are.

    Args:
        tree: trees of the games.
        new_node: number of the simulation, from 1, and of the node that it makes.
        parents, actions: int64[B], the nodes that selection ended in, and the actions played there.
        rewards, values: float64[B], the model's rewards of those actions and values of the nodes they lead to.
        prior_logits: float64[B, A], its policy in the new nodes.
        legal: bool[B, A], legal actions there; a node without any is terminal.
        discount: discount of a step.

    Returns:
        `ALL_FINITE`, or the first game for which a number that matters is not finite.
    """
    # Games are independent: each pass touches the tree of one game only.
    for game in range(len(parents)):
        if tree.terminal[game, ROOT_INDEX]:
            continue
        parent, action = parents[game], actions[game]
        node = tree.children_index[game, parent, action]
        # Selection ends at an untried action, whose child is made here, or at one whose child is terminal. The
        # terminal child has been written before, so its reward is in the tree and the model's output is not needed.
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
    # Before each pass `simulation_return` is the return from `node` on; each pass goes one edge up. Every node but the
    # root has a parent with a smaller number, so the walk ends.
    while node != ROOT_INDEX:
        parent, action = tree.parents[game, node], tree.action_from_parent[game, node]
        simulation_return = tree.rewards[game, node] + discount * simulation_return
        # Running mean: Q += (return - Q) / visits, with this simulation counted.
        tree.children_visits[game, parent, action] += 1
        qvalue = tree.children_qvalues[game, parent, action]
        qvalue += (simulation_return - qvalue) / tree.children_visits[game, parent, action]
        tree.children_qvalues[game, parent, action] = qvalue
        node = parent


@kernel(error_model="numpy", inline="always")
def _write_node(tree, game, node, value, prior_logits, legal):
    """Write the value and policy of a new node; return whether all numbers that matter are finite."""
    # First pass: the greatest legal logit, which is subtracted below so that no exponential overflows.
    max_logit = -np.inf
    finite = True
    for action in range(len(prior_logits)):
        if legal[action]:
            finite &= np.isfinite(prior_logits[action])
            max_logit = max(max_logit, prior_logits[action])
    # No legal action: the game has ended here. Value and priors stay 0, the logits mark all actions as illegal.
    if max_logit == -np.inf:
        tree.terminal[game, node] = True
        tree.children_prior_logits[game, node] = -np.inf
        return finite
    # Second pass: weights of the softmax, 0 for illegal actions. The greatest legal one is 1, so the total is not 0.
    total = 0.0
    for action in range(len(prior_logits)):
        weight = np.exp(prior_logits[action] - max_logit) if legal[action] else 0.0
        tree.children_prior_logits[game, node, action] = prior_logits[action] if legal[action] else -np.inf
        tree.children_priors[game, node, action] = weight
        total += weight
    # Third pass: shares of the total, of which no legal one is 0: see `MIN_PRIOR`.
    for action in range(len(prior_logits)):
        if legal[action]:
            tree.children_priors[game, node, action] = max(tree.children_priors[game, node, action] / total, MIN_PRIOR)
    tree.raw_values[game, node] = value
    return finite and np.isfinite(value)
