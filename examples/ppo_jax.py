"""Train PPO in JAX alone, with environments, seeds and programs in one function.

    python examples/ppo_jax.py MemPlaceSteps-BERT-v0 --rounds 75 --csv curve.csv
    python examples/ppo_jax.py MemPlaceSteps-ResNet50-v0 MemPlaceSteps-ViT-v0 --seeds 4 --json
    python examples/ppo_jax.py MallocGame-BERT-v0 --rounds 40
    python examples/ppo_jax.py MemPlaceSteps-Train-v0 --rounds 8

Settings are those of examples/ppo.py: rounds are whole episodes, and lambda is 1. With several ids, or one that draws
from a split, one policy plays all programs, and advantages are scaled program by program. Programs of a split lie in
three size classes, which a round plays and learns in turn. The last line of each id is what its best plans are worth by
the compiler and the simulator; the means above it are estimates for learning.
"""

import argparse
import csv
import json
import sys
import time
from functools import partial
from itertools import pairwise, product

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np

from memplace_env._lib.errors import EnvError, MemPlaceError
from memplace_env._lib.units import PS
from memplace_env.envs.jax import jax_game, jax_steps
from memplace_env.envs.jax.jax_arrays import replayed, split_problems, stacked
from memplace_env.envs.jax.jax_game_tables import game_params
from memplace_env.envs.malloc_game import MallocGameEnv
from memplace_env.envs.registration import Formulation, formulation_of_id
from memplace_env.envs.splits import SPLITS
from memplace_env.envs.steps import StepsEnv, StepsProblem

FEWEST = 4  # episodes of each program in a round
SETTINGS = {  # place of the mask, environments, minibatch, epochs, rate and entropy (which fall to 0), width
    Formulation.STEPS: (jax_steps, StepsEnv.mask_slice, 128, 2048, 3, 2e-3, 0.06, 64),
    Formulation.GAME: (jax_game, MallocGameEnv.mask_slice, 32, 1024, 4, 1e-3, 0.01, 128),
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


def trainer(settings, turns):
    """Return functions of (key, params) that make a start, and of (start, key, turn, params) that play and learn."""
    rules, mask, envs, minibatch, epochs, rate, entropy, width = settings
    every = jax.vmap(jax.vmap(rules.step, in_axes=(0, 0, None)))  # programs, then their episodes

    def act(params, carry, key):
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

    def start(key, params):
        seen = jax.eval_shape(jax.vmap(partial(rules.init, None)), params)[1]
        net = first_net(key, (seen.shape[-1], width, width))
        zeros = jax.tree.map(jnp.zeros_like, net)
        return net, (zeros, zeros), 1.0

    def turn(now, key, number, params):
        net, moments, steps = now
        first = jax.vmap(partial(rules.init, None))(params)
        programs, length = first[0].actions.shape
        each = max(envs // programs, FEWEST)
        keys = jax.random.split(jax.random.fold_in(key, number), length + epochs)
        state, seen = jax.tree.map(lambda part: jnp.repeat(part[:, None], each, axis=1), first)
        begin = net, state, seen, jnp.zeros((programs, each), bool)
        carry, played = jax.lax.scan(partial(act, params), begin, keys[:length])
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
        fitting = net, moments, steps, data, 1 - number / turns
        (net, moments, steps, _, _), _ = jax.lax.scan(fit, fitting, jnp.concatenate(rows).reshape(-1, size))
        best = carry[1].actions[jnp.arange(programs), returns[0].argmax(-1)]
        inexact = getattr(carry[1], "inexact", jnp.zeros(1, bool)).any()
        return (net, moments, steps), (returns[0].mean(-1), returns[0].max(-1), best, weights.sum(), inexact)

    return start, turn


def programs_of(env_id, slots):
    """Return problems and their tables, of an id or of the split that it draws from, without what JAX refuses there."""
    formulation, found = formulation_of_id(env_id), []
    drawn = gym.spec(env_id.removeprefix("memplace_env:")).kwargs.get("programs")
    if formulation not in SETTINGS or drawn not in (None, *SPLITS):
        raise EnvError(f"{env_id} is none of the ids of steps or games of one program, or of a split.")
    game = formulation is Formulation.GAME
    for problem in split_problems(formulation, drawn) if drawn else [gym.make(env_id).unwrapped.problem]:
        try:
            params = game_params(problem, slots=slots) if game else jax_steps.steps_params(problem, estimate=True)
            found.append((problem, params))
        except EnvError as error:
            if not drawn:
                raise
            print(f"{env_id} without {problem.program.name}: {error}", file=sys.stderr)
    return found


def train(ids, rounds, seeds=1, verbose=False, slots=64):
    """Train one policy for each seed on all ids.

    Returns:
        A point for each round: processor seconds, decisions of a seed, mean returns [seeds, ids]. And by id what the
        best plan is worth: times native, of games percent less than with everything in the backing memory. Numbers of
        a split are means over its programs.
    """
    kinds = {formulation_of_id(env_id) for env_id in ids}
    if len(kinds) > 1:
        raise EnvError("One policy plays steps or games: pass ids of one kind alone.")
    by_id = [programs_of(env_id, slots) for env_id in ids]
    problems, params = zip(*(program for programs in by_id for program in programs), strict=True)
    ends = np.cumsum([len(programs) for programs in by_id])[:-1]
    classes = stacked(params, classes=3 if len(params) > len(ids) else 1)
    start, turn = trainer(SETTINGS[kinds.pop()], rounds * len(classes))
    keys = jax.random.split(jax.random.key(0), seeds)
    # One after the other: on a CPU of two cores, `vmap` of the QR decompositions in it has hung.
    now, best = jax.lax.map(lambda key: start(key, classes[0][1]), keys), [(-np.inf, None)] * len(problems)
    play, began = jax.jit(jax.vmap(turn, in_axes=(0, 0, None, None))), time.process_time()
    curve, steps, inexact = [], 0, False
    for number in range(rounds):
        means = np.empty((seeds, len(problems)))
        for place, (order, padded) in enumerate(classes):
            now, seen = play(now, keys, jnp.int32(number * len(classes) + place), padded)
            means[:, order], most, actions, decided, flags = map(np.asarray, seen)
            for column, index in enumerate(order):
                seed = int(most[:, column].argmax())
                best[index] = max(best[index], (most[seed, column], actions[seed, column]), key=lambda pair: pair[0])
            steps += int(decided[0])
            if flags.any() and not inexact:
                print(f"{slots} slots are too few: means may be those of other games; take more.", file=sys.stderr)
            inexact |= flags.any()
        of_ids = np.stack([part.mean(axis=1) for part in np.split(means, ends, axis=1)], axis=1)
        curve.append((time.process_time() - began, steps, of_ids))
        if verbose:
            print(f"{curve[-1][0]:6.1f} s  round {number + 1:4}  mean {means.mean():.4f}", flush=True)
    worths = [worth(problem, actions) for problem, (_, actions) in zip(problems, best, strict=True)]
    return curve, [float(part.mean()) for part in np.split(np.array(worths), ends)]


def worth(problem, actions):
    """Return the return of the plan that the compiler makes of an episode, or the game, by the simulator."""
    states = replayed(problem, actions[None])
    if isinstance(problem, StepsProblem):
        return problem.scores(states).speedup[0]
    return 100 * (1 - problem.final_latency_s(states)[0] / (problem.all_backing_ps * PS))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ids", nargs="+", help="ids of steps, or of games, whose sizes are padded to the largest")
    parser.add_argument("--rounds", type=int, default=75)
    parser.add_argument("--seeds", type=int, default=1, help="trained side by side, from 0 on")
    parser.add_argument("--slots", type=int, default=64, help="blocks that a state of a game remembers")
    parser.add_argument("--json", action="store_true", help="print means by round, seed and id, and the best plans")
    parser.add_argument("--csv", metavar="FILE", help="write the learning curves, by the seconds of all seeds together")
    options = parser.parse_args()
    try:
        curve, best = train(options.ids, options.rounds, options.seeds, not options.json, options.slots)
    except (MemPlaceError, gym.error.Error) as error:
        parser.error(str(error))
    if options.csv:
        with open(options.csv, "w", encoding="utf-8", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(["id", "algorithm", "seed", "step", "seconds", "return"])
            each = product(enumerate(options.ids), range(options.seeds), curve)
            for (column, env_id), seed, (seconds, step, means) in each:
                rows.writerow([env_id, "ppo-jax", seed, step, round(seconds, 2), round(means[seed, column], 6)])
    if options.json:
        print(json.dumps({"means": [means.tolist() for _, _, means in curve], "best": best}))
        return
    unit = "% saved" if formulation_of_id(options.ids[0]) is Formulation.GAME else "times native's"
    for env_id, last, value in zip(options.ids, curve[-1][2].T, best, strict=True):
        print(f"{env_id}: means of the last round {np.round(last, 4).tolist()}, best plan {value:.4f} {unit}")


if __name__ == "__main__":
    main()
