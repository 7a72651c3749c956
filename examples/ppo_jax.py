"""Train PPO in JAX alone, with environments, seeds and programs in one function.

    python examples/ppo_jax.py MemPlaceSteps-BERT-v0 --rounds 75
    python examples/ppo_jax.py MemPlaceSteps-ResNet50-v0 MemPlaceSteps-ViT-v0 --seeds 4 --json
    python examples/ppo_jax.py MallocGame-BERT-v0 --rounds 40

Settings are those of examples/ppo.py: rounds are whole episodes, and lambda is 1. With several ids one policy plays all
of them, and advantages are scaled program by program. The last line of each id is what its best plan is worth by the
compiler and the simulator; the means above it are estimates for learning.
"""

import argparse
import json
import time
from functools import partial
from itertools import pairwise

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np

import memplace_env  # noqa: F401 - registers the ids
from memplace_env.envs.jax import jax_game, jax_steps
from memplace_env.envs.jax.jax_arrays import plans, stacked
from memplace_env.envs.jax.jax_game_tables import game_params
from memplace_env.placement.compiler import native_report
from memplace_env.placement.simulator import evaluate_plan

SETTINGS = {  # environments, minibatch, epochs, rate and entropy (which fall to 0), width, place of the mask
    "MemPlaceSteps": (128, 2048, 3, 2e-3, 0.06, 64, slice(0, 3)),
    "MallocGame": (32, 1024, 4, 1e-3, 0.01, 128, slice(23, 26)),
}


def first_net(key, sizes):
    """Return orthogonal weights and zero biases of an actor and a critic."""
    net = []
    for outputs, gain in ((3, 0.01), (1, 1.0)):
        shapes = list(pairwise([*sizes, outputs]))
        gains = [2**0.5] * (len(shapes) - 1) + [gain]
        keys = jax.random.split(jax.random.fold_in(key, outputs), len(shapes))
        make = [jax.nn.initializers.orthogonal(each) for each in gains]
        net.append([(m(k, shape), jnp.zeros(shape[1])) for m, k, shape in zip(make, keys, shapes, strict=True)])
    return net


def mlp(layers, inputs):
    """Return the outputs of an MLP with tanh units."""
    for weights, biases in layers[:-1]:
        inputs = jnp.tanh(inputs @ weights + biases)
    return inputs @ layers[-1][0] + layers[-1][1]


def log_policy(actor, seen, mask):
    """Return log-probabilities of the actions, those of illegal ones very small."""
    return jax.nn.log_softmax(jnp.where(seen[..., mask] > 0, mlp(actor, seen), -1e9))


def loss(net, entropy, mask, rows):
    """Return PPO's loss of a minibatch; steps after the end of an episode have weight 0."""
    seen, action, taken, advantage, returned, weight = rows
    log_p = log_policy(net[0], seen, mask)
    ratio = jnp.exp(jnp.take_along_axis(log_p, action[:, None], 1)[:, 0] - taken)
    gain = jnp.minimum(ratio * advantage, jnp.clip(ratio, 0.8, 1.2) * advantage)
    spread = -(jnp.exp(log_p) * log_p).sum(-1)
    error = (mlp(net[1], seen)[:, 0] - returned) ** 2
    return (weight * (error / 2 - gain - entropy * spread)).sum() / jnp.maximum(weight.sum(), 1)


def adam(net, moments, slopes, rate, number):
    """Return the net and moments after one step of Adam, with the norm of the slopes cut at 0.5."""
    norm = jnp.sqrt(sum((slope**2).sum() for slope in jax.tree.leaves(slopes)))
    slopes = jax.tree.map(lambda slope: slope * jnp.minimum(1, 0.5 / (norm + 1e-6)), slopes)
    first = jax.tree.map(lambda old, slope: 0.9 * old + 0.1 * slope, moments[0], slopes)
    second = jax.tree.map(lambda old, slope: 0.999 * old + 0.001 * slope**2, moments[1], slopes)
    size = rate * jnp.sqrt(1 - 0.999**number) / (1 - 0.9**number)
    return jax.tree.map(lambda w, m, v: w - size * m / (jnp.sqrt(v) + 1e-5), net, first, second), (first, second)


def trainer(rules, params, settings, rounds):
    """Return functions of a key that make a start, and of (start, key, round) that play and learn a round."""
    envs, minibatch, epochs, rate, entropy, width, mask = settings
    programs, decisions = params.ops.shape[0], jax.eval_shape(jax.vmap(partial(rules.init, None)), params)[0].actions
    length, each = decisions.shape[1], max(envs // programs, 1)
    every = jax.vmap(jax.vmap(rules.step, in_axes=(0, 0, None)))  # programs, then their episodes

    def act(carry, key):
        net, state, seen, over = carry
        log_p = log_policy(net[0], seen, mask)
        action = jax.random.categorical(key, log_p)
        state, after, reward, ended = every(state, action, params)
        taken = jnp.take_along_axis(log_p, action[..., None], -1)[..., 0]
        return (net, state, after, ended), (seen, action, taken, reward, 1.0 - over)

    def fit(carry, rows):
        net, moments, number, data, left = carry
        slopes = jax.grad(loss)(net, entropy * left, mask, jax.tree.map(lambda part: part[rows], data))
        net, moments = adam(net, moments, slopes, rate * left, number)
        return (net, moments, number + 1, data, left), None

    def start(key):
        seen = jax.eval_shape(jax.vmap(partial(rules.init, None)), params)[1]
        net = first_net(key, (seen.shape[-1], width, width))
        zeros = jax.tree.map(jnp.zeros_like, net)
        return net, (zeros, zeros), 1.0

    def round_(now, key, number):
        net, moments, steps = now
        keys = jax.random.split(jax.random.fold_in(key, number), length + epochs)
        begin = jax.vmap(lambda one: jax.vmap(lambda _: rules.init(None, one))(jnp.arange(each)))
        state, seen = begin(params)
        carry, played = jax.lax.scan(act, (net, state, seen, jnp.zeros((programs, each), bool)), keys[:length])
        seens, actions, takens, rewards, weights = played
        returns = jnp.cumsum(rewards[::-1], 0)[::-1]  # gamma and lambda are 1
        targets = (returns - returns[0].mean(-1, keepdims=True)) / (returns[0].std(-1, keepdims=True) + 1e-3)
        advantages = targets - mlp(net[1], seens)[..., 0]
        count = weights.sum((0, 2), keepdims=True)
        advantages -= (weights * advantages).sum((0, 2), keepdims=True) / count
        advantages /= jnp.sqrt((weights * advantages**2).sum((0, 2), keepdims=True) / count) + 1e-8
        data = [part.reshape(-1, *part.shape[3:]) for part in (seens, actions, takens, advantages, targets, weights)]
        size = min(minibatch, len(data[1]))
        rows = [jax.random.permutation(k, len(data[1]))[: len(data[1]) // size * size] for k in keys[length:]]
        fitting = net, moments, steps, data, 1 - number / rounds
        (net, moments, steps, _, _), _ = jax.lax.scan(fit, fitting, jnp.concatenate(rows).reshape(-1, size))
        best = carry[1].actions[jnp.arange(programs), returns[0].argmax(-1)]
        return (net, moments, steps), (returns[0].mean(-1), returns[0].max(-1), best)

    return start, round_


def train(ids, rounds, seeds=1, verbose=False):
    """Train one policy for each seed on all ids, and return means [rounds, seeds, programs] and speed-ups by id."""
    kind = ids[0].split("-")[0]
    problems = [gym.make(env_id).unwrapped.problem for env_id in ids]
    make, rules = (game_params, jax_game) if kind == "MallocGame" else (jax_steps.steps_params, jax_steps)
    ((order, params),) = stacked([make(problem) for problem in problems])
    start, round_ = trainer(rules, params, SETTINGS[kind], rounds)
    keys = jax.random.split(jax.random.key(0), seeds)
    # One after the other: on a CPU of two cores, `vmap` of the QR decompositions in it has hung.
    now, means, best = jax.lax.map(start, keys), [], [(-np.inf, None)] * len(ids)
    play, began = jax.jit(jax.vmap(round_, in_axes=(0, 0, None))), time.perf_counter()
    for number in range(rounds):
        now, (mean, most, actions) = play(now, keys, jnp.int32(number))
        means.append(np.asarray(mean)[:, np.argsort(order)])
        for place, index in enumerate(order):
            seed = int(np.asarray(most)[:, place].argmax())
            best[index] = max(best[index], (float(most[seed, place]), actions[seed, place]), key=lambda pair: pair[0])
        if verbose:
            print(
                f"{time.perf_counter() - began:6.1f} s  round {number + 1:4}  mean {np.mean(means[-1]):.4f}", flush=True
            )
    return np.array(means), [worth(problem, actions) for problem, (_, actions) in zip(problems, best, strict=True)]


def worth(problem, actions):
    """Return the speed-up over native of the plan that the compiler makes of an episode, by the simulator."""
    plan = plans(problem, actions[None])[0]
    return native_report(problem.task).latency_s / evaluate_plan(problem.task, plan).latency_s


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ids", nargs="+", help="ids of steps, or of games, whose sizes are padded to the largest")
    parser.add_argument("--rounds", type=int, default=75)
    parser.add_argument("--seeds", type=int, default=1, help="trained side by side, from 0 on")
    parser.add_argument("--json", action="store_true", help="print means by round, seed and id, and the speed-ups")
    options = parser.parse_args()
    means, speedups = train(options.ids, options.rounds, options.seeds, verbose=not options.json)
    if options.json:
        print(json.dumps({"means": means.tolist(), "speedups": speedups}))
        return
    for env_id, last, speedup in zip(options.ids, means[-1].T, speedups, strict=True):
        print(f"{env_id}: means of the last round {np.round(last, 4).tolist()}, best plan {speedup:.4f} times native's")


if __name__ == "__main__":
    main()
