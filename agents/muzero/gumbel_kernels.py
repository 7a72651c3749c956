"""Compiled action selection of Gumbel MuZero; see `gumbel` for the paper.

In shapes `B` denotes the batch dimension and `A` the number of actions; `tree` is a `tree.Tree`, which is only read.
`c_visit`, `c_scale` are those of `gumbel.Gumbel`, and `normalise` is one of the constants below. Helpers are inlined:
a call would count references to every array of the tree.
"""

from __future__ import annotations

import numpy as np

from agents.muzero.base import EPSILON, NO_ACTION, ROOT_INDEX, UNVISITED
from memplace_env.kernel import kernel

NORMALISE_NONE, NORMALISE_BY_NODE, NORMALISE_BY_TREE = 0, 1, 2
"""By which least and greatest value Q-values are brought into [0, 1], see `gumbel.Gumbel.normalise`."""


@kernel(error_model="numpy")
def select(tree, gumbel, considered_visits, c_visit, c_scale, normalise, parents, actions):
    """Descend from every root to an action that has not been tried, or one that ends the game.

    Args:
        tree: of the games.
        gumbel: float64[B, A], the noise of the root's actions.
        considered_visits: int64[B], visits of the actions among which the root chooses now.
        c_visit, c_scale, normalise: see above.
        parents, actions: int64[B], filled with the nodes reached and the actions to play there; both 0 where the root
            is terminal.
    """
    scores = np.empty(tree.children_index.shape[2])
    for game in range(len(parents)):
        parents[game] = actions[game] = 0
        if tree.terminal[game, ROOT_INDEX]:
            continue
        _improved_logits(tree, game, ROOT_INDEX, c_visit, c_scale, normalise, scores)
        parent, action = ROOT_INDEX, _root_action(tree, game, gumbel[game], considered_visits[game], scores)
        node = tree.children_index[game, parent, action]
        while node != UNVISITED and not tree.terminal[game, node]:
            _improved_logits(tree, game, node, c_visit, c_scale, normalise, scores)
            parent, action = node, _interior_action(tree, game, node, scores)
            node = tree.children_index[game, node, action]
        parents[game], actions[game] = parent, action


@kernel(error_model="numpy")
def recommend(tree, gumbel, c_visit, c_scale, normalise, actions, action_weights):
    """What to play at the roots once all simulations are done.

    Args:
        tree, gumbel, c_visit, c_scale, normalise: as for `select`.
        actions: int64[B], filled with the best of the most visited actions; `NO_ACTION` where the root is terminal.
        action_weights: float64[B, A], filled with the improved policy, all 0 where the root is terminal.
    """
    scores = np.empty(tree.children_index.shape[2])
    for game in range(len(actions)):
        actions[game], action_weights[game] = NO_ACTION, 0.0
        if tree.terminal[game, ROOT_INDEX]:
            continue
        _improved_logits(tree, game, ROOT_INDEX, c_visit, c_scale, normalise, scores)
        max_visits = tree.children_visits[game, ROOT_INDEX].max()
        actions[game] = _root_action(tree, game, gumbel[game], max_visits, scores)
        total = _softmax(scores)
        for action in range(len(scores)):
            action_weights[game, action] = scores[action] / total


@kernel(error_model="numpy", inline="always")
def _improved_logits(tree, game, node, c_visit, c_scale, normalise, scores):
    """Fill `scores` float64[A] with logits + sigma(completed Q) of a node; -inf for illegal actions.

    Actions without visits get the value v_mix of the paper's appendix D.
    """
    total_visits = max_visits = 0
    visited_prior = weighted_qvalues = 0.0
    low, high = np.inf, -np.inf
    for action in range(len(scores)):
        visits = tree.children_visits[game, node, action]
        if visits > 0:
            qvalue = tree.children_qvalues[game, node, action]
            total_visits, max_visits = total_visits + visits, max(max_visits, visits)
            visited_prior += tree.children_priors[game, node, action]
            weighted_qvalues += tree.children_priors[game, node, action] * qvalue
            low, high = min(low, qvalue), max(high, qvalue)
    mixed_value = tree.raw_values[game, node]
    if total_visits > 0:
        mixed_value = (mixed_value + total_visits * (weighted_qvalues / visited_prior)) / (total_visits + 1)
    if normalise == NORMALISE_NONE:
        low, high = 0.0, 1.0
    elif normalise == NORMALISE_BY_NODE:
        for action in range(len(scores)):
            visits = tree.children_visits[game, node, action]
            if visits == 0 and tree.children_prior_logits[game, node, action] > -np.inf:
                low, high = min(low, mixed_value), max(high, mixed_value)
    else:
        low, high = min(tree.min_qvalues[game], mixed_value), max(tree.max_qvalues[game], mixed_value)
    scale = (c_visit + max_visits) * c_scale / max(high - low, EPSILON)
    for action in range(len(scores)):
        visits = tree.children_visits[game, node, action]
        completed_qvalue = tree.children_qvalues[game, node, action] if visits > 0 else mixed_value
        scores[action] = tree.children_prior_logits[game, node, action] + scale * (completed_qvalue - low)


@kernel(error_model="numpy", inline="always")
def _root_action(tree, game, gumbel, considered_visits, scores):
    """The legal action with so many visits and the greatest noise + improved logit; ties to the first."""
    best_score, best_action = -np.inf, NO_ACTION
    for action in range(len(scores)):
        score = gumbel[action] + scores[action]
        if tree.children_visits[game, ROOT_INDEX, action] == considered_visits and score > best_score:
            best_score, best_action = score, action
    return best_action


@kernel(error_model="numpy", inline="always")
def _interior_action(tree, game, node, scores):
    """The legal action whose share of the visits falls shortest of the improved policy; ties to the first.

    The greatest pi'(a) - N(a) / (1 + sum of N) in the paper, times both denominators.
    """
    total, total_visits = _softmax(scores), 1
    for action in range(len(scores)):
        total_visits += tree.children_visits[game, node, action]
    best_score, best_action = -np.inf, NO_ACTION
    for action in range(len(scores)):
        score = scores[action] * total_visits - tree.children_visits[game, node, action] * total
        if tree.children_prior_logits[game, node, action] > -np.inf and score > best_score:
            best_score, best_action = score, action
    return best_action


@kernel(error_model="numpy", inline="always")
def _softmax(scores):
    """Replace scores by weights in proportion to their softmax; returns the sum of the weights."""
    max_score = scores[0]
    for action in range(1, len(scores)):
        max_score = max(max_score, scores[action])
    total = 0.0
    for action in range(len(scores)):
        scores[action] = np.exp(scores[action] - max_score)
        total += scores[action]
    return total
