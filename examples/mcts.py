"""Search a tree of games in forty lines.

UCT, the simplest Monte Carlo tree search, plays a game on forks of the environment, without learning. Each simulation
adds one decision to the tree and ends the game with the greedy player's actions:

    python examples/mcts.py MallocGame-BERT-v0 --simulations 100
"""

import argparse
import math
import random
import time

import gymnasium as gym

import memplace_env  # noqa: F401 (registers the ids)

# ## A node
#
# `env.fork()` copies a game in microseconds, so that each node can keep one. `env.legal_actions()` are its moves.

EXPLORATION = 1.0
"""Weight of actions that were seldom tried beside returns scaled to 0..1."""


class Node:
    """A state of the game, the return until there, and the sum of the values that simulations through it saw."""

    def __init__(self, env, total, over):
        self.env, self.total = env, total
        self.untried, self.children = [] if over else env.legal_actions(), []
        self.visits, self.sum = 0, 0.0


# ## A simulation
#
# Down to a leaf by the upper confidence bound, one new child, the greedy player's end, and its value on the way back.


def value(env):
    """Return minus the milliseconds of the game that ends with the greedy player's actions."""
    states = env.get_state()[None]
    env.problem.finish_greedily(states)
    return -1e3 * float(env.problem.latency_s(states)[0])


def simulate(root, seen, rng):
    """Descend to a leaf, add a child to it, end the game as the greedy player, and enter the value on the way back."""
    path = [node := root]
    while not node.untried and node.children:
        low, spread, bonus = min(seen), max(seen) - min(seen) + 1e-9, EXPLORATION**2 * math.log(node.visits)
        node = max(node.children, key=lambda c: (c.sum / c.visits - low) / spread + math.sqrt(bonus / c.visits))
        path.append(node)
    if node.untried:
        action, env = node.untried.pop(rng.randrange(len(node.untried))), node.env.fork()
        _, reward, over, _, _ = env.step(action)
        node.children.append(Node(env, node.total + reward, over))
        path.append(node.children[-1])
    seen.append(value(path[-1].env))
    for node in path:
        node.visits, node.sum = node.visits + 1, node.sum + seen[-1]


# ## A game
#
# So many simulations for each decision; the child that was visited most is played.


def search(env, simulations, seed):
    """Return the return of a game in which each decision is the child of the root that was visited most."""
    env.reset()
    rng, node = random.Random(seed), Node(env, 0.0, over=False)
    while node.untried or node.children:
        seen = [value(node.env)]
        while node.visits < simulations or not node.children:
            simulate(node, seen, rng)
        node = max(node.children, key=lambda child: child.visits)
    return node.total


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("id", help="id of a game, see `memplace envs`")
    parser.add_argument("--simulations", type=int, default=100, help="of each decision")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    env = gym.make(options.id, observation="flat", skip_forced=True).unwrapped
    search(env, 1, options.seed)  # loads compiled kernels before the clock starts
    began = time.process_time()
    total = search(env, options.simulations, options.seed)
    print(f"return {total:.4f} in {time.process_time() - began:.1f} processor seconds")


if __name__ == "__main__":
    main()
