"""MuZero's two searches of one game in plain Python: what the compiled ones are held equal to, to the last bit.

Trees are objects and formulas stand as the papers have them; only the order of sums is that of the kernels.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple

from agents.muzero.gumbel import Gumbel
from agents.muzero.puct import Puct

EPSILON = 1e-8


class Answer(NamedTuple):
    """What a model says: the next state, the reward on the way there, and of it the value, policy and legal actions."""

    state: int
    reward: float
    value: float
    logits: list[float]
    legal: list[bool]


@dataclass
class Node:
    answer: Answer
    children: dict[int, Node] = field(default_factory=dict)

    def __post_init__(self):
        actions = range(len(self.answer.legal))
        self.legal = [action for action in actions if self.answer.legal[action]]
        self.over = not self.legal
        self.value = 0.0 if self.over else self.answer.value
        self.logits = [self.answer.logits[action] if action in self.legal else -inf for action in actions]
        self.prior = [] if self.over else [max(p, 1e-30) if p else p for p in softmax(self.logits)]
        self.visits, self.q = [0] * len(actions), [0.0] * len(actions)


@dataclass
class Tree:
    """`low` and `high` are the least and greatest Q that any visited action has had."""

    root: Node
    low: float = inf
    high: float = -inf

    @property
    def value(self) -> float:
        visits, q = self.root.visits, self.root.q
        return (self.root.value + sum(n * mean for n, mean in zip(visits, q, strict=True))) / (1 + sum(visits))


Model = Callable[[int, int], Answer]
Choose = Callable[[Tree, Node, int], int]


def simulate(tree: Tree, model: Model, simulation: int, discount: float, choose: Choose) -> None:
    """One simulation: down to an action never played or the end of a game, and back up."""
    node, path = tree.root, []
    while not node.over:
        action = choose(tree, node, simulation)
        path.append((node, action))
        if action not in node.children:
            node.children[action] = node = Node(model(node.answer.state, action))
            break
        node = node.children[action]
    gain = node.value
    for parent, action in reversed(path):
        gain = parent.children[action].answer.reward + discount * gain
        parent.visits[action] += 1
        parent.q[action] += (gain - parent.q[action]) / parent.visits[action]
        tree.low, tree.high = min(tree.low, parent.q[action]), max(tree.high, parent.q[action])


def softmax(scores: list[float]) -> list[float]:
    top = max(scores)
    weights = [math.exp(score - top) for score in scores]
    total = sum(weights, 0.0)
    return [weight / total for weight in weights]


def best(actions: list[int], score: Callable[[int], float]) -> int:
    """The action with the greatest score, the first of equals."""
    return max(actions, key=lambda action: (score(action), -action))


class Found(NamedTuple):
    action: int
    policy: list[float]
    value: float
    visits: list[int]


def gumbel_search(
    model: Model, root: Answer, simulations: int, discount: float, settings: Gumbel, noise: list[float]
) -> Found:
    tree = Tree(Node(root))
    if tree.root.over:
        return Found(-1, [0.0] * len(root.legal), 0.0, tree.root.visits)
    plan = halving(min(settings.considered, len(tree.root.legal)), simulations)

    def top(wanted: int) -> int:
        """The action at the root with the greatest noise + logit + sigma among those with so many visits."""
        score = improved_logits(tree, tree.root, settings)
        among = [action for action in tree.root.legal if tree.root.visits[action] == wanted]
        return best(among, lambda action: noise[action] + score[action])

    def choose(tree: Tree, node: Node, simulation: int) -> int:
        if node is tree.root:
            return top(plan[simulation])
        scores = improved_logits(tree, node, settings)
        weights = [math.exp(score - max(scores)) for score in scores]
        total, visits = sum(weights, 0.0), 1 + sum(node.visits)
        return best(node.legal, lambda action: weights[action] * visits - node.visits[action] * total)

    for simulation in range(simulations):
        simulate(tree, model, simulation, discount, choose)
    policy = softmax(improved_logits(tree, tree.root, settings))
    return Found(top(max(tree.root.visits)), policy, tree.value, tree.root.visits)


def improved_logits(tree: Tree, node: Node, settings: Gumbel) -> list[float]:
    """Logits + sigma(completed Q)."""
    visited = [action for action in node.legal if node.visits[action] > 0]
    mixed, total = node.value, sum(node.visits)
    if visited:
        weighted = sum((node.prior[action] * node.q[action] for action in visited), 0.0)
        mixed = (mixed + total * (weighted / sum((node.prior[action] for action in visited), 0.0))) / (total + 1)
    completed = [node.q[action] if action in visited else mixed for action in range(len(node.q))]
    known = [completed[action] for action in node.legal]
    low, high = {
        "none": (0.0, 1.0),
        "node": (min(known), max(known)),
        "tree": (min(tree.low, mixed), max(tree.high, mixed)),
    }[settings.normalise]
    scale = (settings.c_visit + max(node.visits)) * settings.c_scale / max(high - low, EPSILON)
    return [logit + scale * (q - low) for logit, q in zip(node.logits, completed, strict=True)]


def halving(considered: int, simulations: int) -> list[int]:
    """Sequential halving by keeping the books: visits of the action that each simulation goes to."""
    if considered == 1:
        return list(range(simulations))
    plan: list[int] = []
    books, left = [0] * considered, considered
    while len(plan) < simulations:
        for _ in range(max(1, int(simulations / (math.ceil(math.log2(considered)) * left)))):
            for action in range(left):
                plan.append(books[action])
                books[action] += 1
        left = max(2, left // 2)
    return plan[:simulations]


def puct_search(
    model: Model, root: Answer, simulations: int, discount: float, settings: Puct, noise: list[float]
) -> Found:
    tree = Tree(Node(root))
    if tree.root.over:
        return Found(-1, [0.0] * len(root.legal), 0.0, tree.root.visits)
    total = sum((noise[action] for action in tree.root.legal), 0.0)
    for action in tree.root.legal:
        share = settings.fraction * (noise[action] / total)
        tree.root.prior[action] = (1 - settings.fraction) * tree.root.prior[action] + share

    def choose(tree: Tree, node: Node, simulation: int) -> int:
        count = 1 + sum(node.visits)
        weight = settings.pb_c_init + math.log((1 + count + settings.pb_c_base) / settings.pb_c_base)
        explore = weight * math.sqrt(count)

        def bound(action: int) -> float:
            exploration = node.prior[action] * explore / (1 + node.visits[action])
            if not node.visits[action]:
                return exploration
            return exploration + (node.q[action] - tree.low) / max(tree.high - tree.low, EPSILON)

        return best(node.legal, bound)

    for simulation in range(simulations):
        simulate(tree, model, simulation, discount, choose)
    visits = tree.root.visits
    policy = [count / simulations for count in visits]
    if settings.temperature == 0:
        return Found(best(tree.root.legal, lambda action: visits[action]), policy, tree.value, visits)
    weights = [(count / max(visits)) ** (1 / settings.temperature) for count in visits]
    left = noise[-1] * sum(weights, 0.0)
    reached = 0.0
    for action, weight in enumerate(weights):
        reached += weight
        if left < reached:
            return Found(action, policy, tree.value, visits)
    raise AssertionError("the shares of the visits add up to 1")
