"""MuZero's search of one game in plain Python, to which the compiled one is equal to the last bit.

Trees are objects and formulas stand as the papers have them; only the order of sums is that of the kernels.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple

from memplace_agents.muzero.gumbel import Gumbel

EPSILON = 1e-8
MIN_PRIOR = 1e-30
NO_ACTION = -1


class Evaluation(NamedTuple):
    """A model's output for an action: the next state, the reward, and that state's value, policy and actions."""

    state: int
    reward: float
    value: float
    logits: list[float]
    legal: list[bool]


@dataclass
class Node:
    """A node that has been expanded; lists have an element for each action."""

    evaluation: Evaluation
    children: dict[int, Node] = field(default_factory=dict)

    def __post_init__(self):
        actions = range(len(self.evaluation.legal))
        self.legal = [action for action in actions if self.evaluation.legal[action]]
        self.terminal = not self.legal
        self.value = 0.0 if self.terminal else self.evaluation.value
        self.logits = [self.evaluation.logits[action] if action in self.legal else -inf for action in actions]
        self.priors = [] if self.terminal else [max(p, MIN_PRIOR) if p else p for p in softmax(self.logits)]
        self.visits, self.qvalues = [0] * len(actions), [0.0] * len(actions)


@dataclass
class Tree:
    """A tree by its root."""

    root: Node

    @property
    def root_value(self) -> float:
        visits, qvalues = self.root.visits, self.root.qvalues
        total = sum(count * qvalue for count, qvalue in zip(visits, qvalues, strict=True))
        return (self.root.value + total) / (1 + sum(visits))


Model = Callable[[int, int], Evaluation]
Path = list[tuple[Node, int]]
ActionSelection = Callable[[Tree, Node, int], int]


def simulate(tree: Tree, model: Model, simulation: int, discount: float, action_selection: ActionSelection) -> None:
    """One simulation: down to an action never played or the end of a game, and back up."""
    path = select(tree, simulation, action_selection)
    parent, action = path[-1]
    if action not in parent.children:
        expand(parent, action, model(parent.evaluation.state, action))
    backup(path, discount)


def select(tree: Tree, simulation: int, action_selection: ActionSelection) -> Path:
    """The nodes and actions from the root to an action to expand, or to one that ends the game."""
    path, node = [], tree.root
    while True:
        action = action_selection(tree, node, simulation)
        path.append((node, action))
        if action not in node.children or node.children[action].terminal:
            return path
        node = node.children[action]


def expand(parent: Node, action: int, evaluation: Evaluation) -> None:
    """Add the node that an action leads to."""
    parent.children[action] = Node(evaluation)


def backup(path: Path, discount: float) -> None:
    """Count a simulation, and take its return into the Q-values on its path."""
    parent, action = path[-1]
    simulation_return = parent.children[action].value
    for parent, action in reversed(path):
        simulation_return = parent.children[action].evaluation.reward + discount * simulation_return
        parent.visits[action] += 1
        parent.qvalues[action] += (simulation_return - parent.qvalues[action]) / parent.visits[action]


def softmax(scores: list[float]) -> list[float]:
    max_score = max(scores)
    weights = [math.exp(score - max_score) for score in scores]
    total = sum(weights, 0.0)
    return [weight / total for weight in weights]


def best_action(actions: list[int], score: Callable[[int], float]) -> int:
    """The action with the greatest score, the first of equals."""
    return max(actions, key=lambda action: (score(action), -action))


class Result(NamedTuple):
    """One game's result, like `memplace_agents.muzero.search_types.SearchResult`, of one game."""

    action: int
    action_weights: list[float]
    value: float
    visit_counts: list[int]


def gumbel_search(
    model: Model, root: Evaluation, num_simulations: int, discount: float, settings: Gumbel, gumbel: list[float]
) -> Result:
    tree = Tree(Node(root))
    if tree.root.terminal:
        return Result(NO_ACTION, [0.0] * len(root.legal), 0.0, tree.root.visits)
    num_considered = min(settings.max_num_considered_actions, len(tree.root.legal))
    sequence = sequential_halving(num_considered, num_simulations)

    def root_action(considered_visits: int) -> int:
        """The action with the greatest noise + logit + sigma among those with so many visits."""
        logits = improved_logits(tree.root, settings)
        considered = [action for action in tree.root.legal if tree.root.visits[action] == considered_visits]
        return best_action(considered, lambda action: gumbel[action] + logits[action])

    def action_selection(tree: Tree, node: Node, simulation: int) -> int:
        if node is tree.root:
            return root_action(sequence[simulation])
        logits = improved_logits(node, settings)
        weights = [math.exp(logit - max(logits)) for logit in logits]
        total, visits = sum(weights, 0.0), 1 + sum(node.visits)
        return best_action(node.legal, lambda action: weights[action] * visits - node.visits[action] * total)

    for simulation in range(num_simulations):
        simulate(tree, model, simulation, discount, action_selection)
    action_weights = softmax(improved_logits(tree.root, settings))
    return Result(root_action(max(tree.root.visits)), action_weights, tree.root_value, tree.root.visits)


def improved_logits(node: Node, settings: Gumbel) -> list[float]:
    """Logits + sigma(completed Q)."""
    visited = [action for action in node.legal if node.visits[action] > 0]
    mixed_value, total_visits = node.value, sum(node.visits)
    if visited:
        weighted = sum((node.priors[action] * node.qvalues[action] for action in visited), 0.0)
        mean = weighted / sum((node.priors[action] for action in visited), 0.0)
        mixed_value = (mixed_value + total_visits * mean) / (total_visits + 1)
    completed = [node.qvalues[action] if action in visited else mixed_value for action in range(len(node.qvalues))]
    legal = [completed[action] for action in node.legal]
    low, high = (min(legal), max(legal)) if settings.normalise else (0.0, 1.0)
    scale = (settings.c_visit + max(node.visits)) * settings.c_scale / max(high - low, EPSILON)
    return [logit + scale * (qvalue - low) for logit, qvalue in zip(node.logits, completed, strict=True)]


def sequential_halving(num_considered: int, num_simulations: int) -> list[int]:
    """Counts the visits of every action; returns those that the action of each simulation has before it."""
    if num_considered == 1:
        return list(range(num_simulations))
    sequence: list[int] = []
    visits, num_left = [0] * num_considered, num_considered
    while len(sequence) < num_simulations:
        for _ in range(max(1, int(num_simulations / (math.ceil(math.log2(num_considered)) * num_left)))):
            for action in range(num_left):
                sequence.append(visits[action])
                visits[action] += 1
        num_left = max(2, num_left // 2)
    return sequence[:num_simulations]
