"""Compiled action selection of MuZero's own search; see `puct` for the paper.

`tree` is a `tree.Tree`, which is only read. Helpers are inlined: a call would count references to its every array.
"""

from __future__ import annotations

import numpy as np

from agents.muzero.base import EPSILON, NO_ACTION, ROOT_INDEX, UNVISITED
from memplace_env.kernel import kernel


@kernel(error_model="numpy")
def select(tree, exploration, parents, actions):
    """Descend from every root to an action that has not been tried, or one that ends the game.

    Args:
        tree: of `B` games.
        exploration: float64[N], weight of exploration in a node of so many visits.
        parents, actions: int64[B], filled with the nodes reached and the actions to play there; both 0 where the root
            is terminal.
    """
    for game in range(len(parents)):
        parents[game] = actions[game] = 0
        if tree.terminal[game, ROOT_INDEX]:
            continue
        low, width = tree.min_qvalues[game], max(tree.max_qvalues[game] - tree.min_qvalues[game], EPSILON)
        parent, action = ROOT_INDEX, _best_action(tree, game, ROOT_INDEX, exploration, low, width)
        node = tree.children_index[game, parent, action]
        while node != UNVISITED and not tree.terminal[game, node]:
            parent, action = node, _best_action(tree, game, node, exploration, low, width)
            node = tree.children_index[game, node, action]
        parents[game], actions[game] = parent, action


@kernel(error_model="numpy", inline="always")
def _best_action(tree, game, node, exploration, low, width):
    """The legal action with the greatest upper confidence bound; ties to the first."""
    num_actions = tree.children_index.shape[2]
    node_visits = 1
    for action in range(num_actions):
        node_visits += tree.children_visits[game, node, action]
    best_score, best_action = -np.inf, NO_ACTION
    for action in range(num_actions):
        if tree.children_prior_logits[game, node, action] == -np.inf:
            continue
        visits = tree.children_visits[game, node, action]
        score = tree.children_priors[game, node, action] * exploration[node_visits] / (1 + visits)
        if visits > 0:
            score += (tree.children_qvalues[game, node, action] - low) / width
        if score > best_score:
            best_score, best_action = score, action
    return best_action
