"""Search a tree of games in forty lines.

UCT, the simplest Monte Carlo tree search, plays a game on forks of the environment, without learning:

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

HORIZON, EXPLORATION = 8, 1.0
"""Random decisions beyond a leaf, and the weight of actions that were seldom tried beside returns scaled to 0..1."""


class Node:
    """A state of the game, the return until there, and the sum of the returns that simulations through it saw."""

    def __init__(self, env, total, over):
        self.env, self.total = env, total
        self.untried, self.children = [] if over else env.legal_actions(), []
        self.visits, self.sum = 0, 0.0


# ## A simulation
#
# Down to a leaf by the upper confidence bound, one new child, some random moves, and the return on the way back.


def simulate(root, seen, rng):
    """Descend to a leaf, add a child to it, decide a little further at random, and enter the return on the way back."""
    path = [node := root]
    while not node.untried and node.children:
        low, spread, bonus = min(seen), max(seen) - min(seen) + 1e-9, EXPLORATION**2 * math.log(node.visits)
        node = max(node.children, key=lambda c: (c.sum / c.visits - low) / spread + math.sqrt(bonus / c.visits))
        path.append(node)
    total, over, env = node.total, not node.untried, node.env
    for depth in range(0 if over else HORIZON + 1):
        action = rng.choice(env.legal_actions() if depth else node.untried)
        env = env if depth else env.fork()
        _, reward, over, _, _ = env.step(action)
        total += reward
        if not depth:
            node.untried.remove(action)
            node.children.append(Node(env.fork(), total, over))
            path.append(node.children[-1])
        if over:
            break
    seen.append(total)
    for node in path:
        node.visits, node.sum = node.visits + 1, node.sum + total


# ## A game
#
# So many simulations for each decision; the child that was visited most is played.


def search(env, simulations, seed):
    """Return the return of a game in which each decision is the child of the root that was visited most."""
    env.reset()
    rng, node = random.Random(seed), Node(env, 0.0, over=False)
    while node.untried or node.children:
        seen = [node.total]
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
