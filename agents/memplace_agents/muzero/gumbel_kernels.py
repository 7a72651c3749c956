"""Compiled action selection of Gumbel MuZero; see `gumbel` for the paper.

In shapes `B` denotes the batch dimension and `A` the number of actions; `tree` is a `tree.Tree`, which is only read.
`c_visit`, `c_scale` and `normalise` are those of `gumbel.Gumbel`. Helpers are inlined: a call would count references to
every array of the tree.
"""

from __future__ import annotations

import numpy as np

from memplace_agents.muzero.search_types import EPSILON, NO_ACTION, ROOT_INDEX, UNVISITED
from memplace_env._lib.kernel import kernel


@kernel(error_model="numpy")
def select(tree, gumbel, considered_visits, c_visit, c_scale, normalise, parents, actions):
    """Descend from every root to an action that has not been tried, or one that ends the game.

    Args:
        tree: trees of the games.
        gumbel: float64[B, A], the noise of the root's actions.
        considered_visits: int64[B], visits of the actions among which the root chooses now.
        c_visit, c_scale, normalise: see above.
        parents, actions: int64[B], filled with the nodes reached and the actions to play there; both 0 where the root
            is terminal.
    """
    scores = np.empty(tree.children_index.shape[2])  # [A], of the current node
    for game in range(len(parents)):
        parents[game] = actions[game] = 0
        if tree.terminal[game, ROOT_INDEX]:
            continue
        # At the root only actions with the considered number of visits compete: sequential halving.
        _improved_logits(tree, game, ROOT_INDEX, c_visit, c_scale, normalise, scores)
        parent, action = ROOT_INDEX, _root_action(tree, game, gumbel[game], considered_visits[game], scores)
        node = tree.children_index[game, parent, action]
        # `node` is the child that `action` leads to from `parent`. Each pass goes one edge down a finite tree; there
        # is no noise below the root.
        while node != UNVISITED and not tree.terminal[game, node]:
            _improved_logits(tree, game, node, c_visit, c_scale, normalise, scores)
            parent, action = node, _interior_action(tree, game, node, scores)
            node = tree.children_index[game, node, action]
        parents[game], actions[game] = parent, action


@kernel(error_model="numpy")
def recommend(tree, gumbel, c_visit, c_scale, normalise, actions, action_weights):
    """Fill in the actions to play at the roots and the improved policies, once all simulations are done.

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
        # The best of the most visited actions is played, by the same scores with noise as before.
        max_visits = tree.children_visits[game, ROOT_INDEX].max()
        actions[game] = _root_action(tree, game, gumbel[game], max_visits, scores)
        total = _softmax(scores)
        # `scores` holds the weights of the softmax now; an illegal action has exp(-inf) = 0.
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
    # Over the visited actions: sums for v_mix, and the range of the Q-values. Only legal actions are ever visited.
    for action in range(len(scores)):
        visits = tree.children_visits[game, node, action]
        if visits > 0:
            qvalue = tree.children_qvalues[game, node, action]
            total_visits, max_visits = total_visits + visits, max(max_visits, visits)
            visited_prior += tree.children_priors[game, node, action]
            weighted_qvalues += tree.children_priors[game, node, action] * qvalue
            low, high = min(low, qvalue), max(high, qvalue)
    # v_mix = (v + sum N x (sum prior x Q / sum prior)) / (1 + sum N), the inner sums over visited actions. Priors of
    # legal actions are at least MIN_PRIOR, so the divisor is not 0.
    mixed_value = tree.raw_values[game, node]
    if total_visits > 0:
        mixed_value = (mixed_value + total_visits * (weighted_qvalues / visited_prior)) / (total_visits + 1)
    # The range that becomes [0, 1]. v_mix belongs to the completed Q-values only where a legal action has no visits;
    # without any visit `low` and `high` are infinite, and v_mix sets both.
    if normalise:
        for action in range(len(scores)):
            visits = tree.children_visits[game, node, action]
            if visits == 0 and tree.children_prior_logits[game, node, action] > -np.inf:
                low, high = min(low, mixed_value), max(high, mixed_value)
    else:
        low, high = 0.0, 1.0
    # sigma(q) = (c_visit + max N) x c_scale x (q - low) / (high - low).
    scale = (c_visit + max_visits) * c_scale / max(high - low, EPSILON)
    for action in range(len(scores)):
        visits = tree.children_visits[game, node, action]
        completed_qvalue = tree.children_qvalues[game, node, action] if visits > 0 else mixed_value
        scores[action] = tree.children_prior_logits[game, node, action] + scale * (completed_qvalue - low)


@kernel(error_model="numpy", inline="always")
def _root_action(tree, game, gumbel, considered_visits, scores):
    """Return the legal action with so many visits and the greatest noise + improved logit; ties to the first."""
    # Illegal actions have a score of -inf, which is not greater than the first `best_score`.
    best_score, best_action = -np.inf, NO_ACTION
    for action in range(len(scores)):
        score = gumbel[action] + scores[action]
        if tree.children_visits[game, ROOT_INDEX, action] == considered_visits and score > best_score:
            best_score, best_action = score, action
    return best_action


@kernel(error_model="numpy", inline="always")
def _interior_action(tree, game, node, scores):
    """Return the legal action whose share of the visits falls shortest of the improved policy; ties to the first.

    The paper's is the greatest pi'(a) - N(a) / (1 + sum of N); here it is times both denominators.
    """
    # pi'(a) = scores[a] / total, so the product is scores[a] x (1 + sum of N) - N(a) x total.
    total, total_visits = _softmax(scores), 1
    for action in range(len(scores)):
        total_visits += tree.children_visits[game, node, action]
    best_score, best_action = -np.inf, NO_ACTION
    # The weight of a legal action may underflow to 0, so legality is read from the logits.
    for action in range(len(scores)):
        score = scores[action] * total_visits - tree.children_visits[game, node, action] * total
        if tree.children_prior_logits[game, node, action] > -np.inf and score > best_score:
            best_score, best_action = score, action
    return best_action


@kernel(error_model="numpy", inline="always")
def _softmax(scores):
    """Replace scores by weights in proportion to their softmax; return the sum of the weights."""
    # The greatest score is subtracted: weights are at most 1, and their sum is at least 1.
    max_score = scores[0]
    for action in range(1, len(scores)):
        max_score = max(max_score, scores[action])
    total = 0.0
    for action in range(len(scores)):
        scores[action] = np.exp(scores[action] - max_score)
        total += scores[action]
    return total
