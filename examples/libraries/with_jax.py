"""JAX: a PPO of our own; rollouts and updates run under `jit` and `scan`, and `io_callback` plays the environments."""

import functools
from itertools import pairwise

import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.experimental import io_callback

from memplace_env.envs.malloc_game import MallocGameEnv

NUM_ENVS, ROLLOUT, EPOCHS, MINIBATCH = 32, 320, 4, 512
MASK = MallocGameEnv.mask_slice
"""Where the flat observation has the action mask."""


def player(env):
    """Return a function of actions for use under `jit`: observations, rewards and ends after a step."""
    shapes = (
        jax.ShapeDtypeStruct(env.observation_space.shape, np.float32),
        jax.ShapeDtypeStruct((env.num_envs,), np.float32),
        jax.ShapeDtypeStruct((env.num_envs,), np.bool_),
    )

    def play(actions):
        observations, rewards, ends, _, _ = env.step(np.asarray(actions))
        return observations, rewards.astype(np.float32), ends

    return lambda actions: io_callback(play, shapes, actions, ordered=True)


def first_weights(key, sizes, last_gain):
    """Return orthogonal weights and zero biases of an MLP."""
    gains = [2**0.5] * (len(sizes) - 2) + [last_gain]
    keys = jax.random.split(key, len(gains))
    make = [jax.nn.initializers.orthogonal(gain) for gain in gains]
    return [(m(k, shape), jnp.zeros(shape[1])) for m, k, shape in zip(make, keys, pairwise(sizes), strict=True)]


def mlp(layers, inputs):
    """Return the outputs of an MLP with tanh units."""
    for weights, biases in layers[:-1]:
        inputs = jnp.tanh(inputs @ weights + biases)
    return inputs @ layers[-1][0] + layers[-1][1]


def log_policy(net, seen):
    """Return log-probabilities of the actions, those of illegal ones very small."""
    return jax.nn.log_softmax(jnp.where(seen[..., MASK] > 0, mlp(net["actor"], seen), -1e9))


def value(net, seen):
    """Return values."""
    return mlp(net["critic"], seen)[..., 0]


def loss(net, seen, action, taken, advantage, returned):
    """Return the clipped loss of a minibatch."""
    log_p = log_policy(net, seen)
    ratio = jnp.exp(jnp.take_along_axis(log_p, action[:, None], 1)[:, 0] - taken)
    advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
    gain = jnp.minimum(ratio * advantage, jnp.clip(ratio, 0.8, 1.2) * advantage).mean()
    entropy = -(jnp.exp(log_p) * log_p).sum(-1).mean()
    return ((value(net, seen) - returned) ** 2).mean() / 2 - gain - 0.01 * entropy


def train(env_id: str, steps: int, seed: int):
    """Return the trained weights."""
    env = gym.make_vec(env_id, num_envs=NUM_ENVS, observation="flat", skip_forced=True, autoreset_mode="SameStep")
    step_envs, batch = player(env), NUM_ENVS * ROLLOUT
    rounds = steps // batch
    rate = optax.linear_schedule(1e-3, 0.0, rounds * EPOCHS * batch // MINIBATCH)
    optimiser = optax.chain(optax.clip_by_global_norm(0.5), optax.adam(rate, eps=1e-5))

    def act(carry, key):
        net, seen = carry
        log_p = log_policy(net, seen)
        action = jax.random.categorical(key, log_p)
        after, reward, over = step_envs(action)
        taken = jnp.take_along_axis(log_p, action[:, None], 1)[:, 0]
        return (net, after), (seen, action, taken, value(net, seen), reward, 1.0 - over)

    def credit(carry, step):
        advantage, following = carry
        now, reward, goes_on = step
        advantage = reward + goes_on * (following + advantage) - now
        return (advantage, now), advantage

    def learn(carry, rows):
        net, state, data = carry
        changes, state = optimiser.update(jax.grad(loss)(net, *(part[rows] for part in data)), state)
        return (optax.apply_updates(net, changes), state, data), None

    @functools.partial(jax.jit, donate_argnums=(0, 1))
    def round_(net, state, seen, key):
        keys = jax.random.split(key, ROLLOUT + EPOCHS)
        (_, last), (seens, actions, takens, values, *ends) = jax.lax.scan(act, (net, seen), keys[:ROLLOUT])
        first = (jnp.zeros(NUM_ENVS), value(net, last))
        _, advantages = jax.lax.scan(credit, first, (values, *ends), reverse=True)
        data = [
            part.reshape(batch, *part.shape[2:]) for part in (seens, actions, takens, advantages, advantages + values)
        ]
        rows = jnp.concatenate([jax.random.permutation(k, batch).reshape(-1, MINIBATCH) for k in keys[ROLLOUT:]])
        (net, state, _), _ = jax.lax.scan(learn, (net, state, data), rows)
        return net, state, last

    key, *start = jax.random.split(jax.random.key(seed), 3)
    inputs, actions = env.single_observation_space.shape[0], int(env.single_action_space.n)
    net = {
        "actor": first_weights(start[0], (inputs, 128, 128, actions), 0.01),
        "critic": first_weights(start[1], (inputs, 128, 128, 1), 1.0),
    }
    state, seen = optimiser.init(net), env.reset(seed=seed)[0]
    for number in range(rounds):
        net, state, seen = round_(net, state, seen, jax.random.fold_in(key, number))
    return net
