"""What steps and games in JAX share: units of time, programs padded to one size, and the way back to plans."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from memplace_env._lib.errors import EnvError
from memplace_env.envs.malloc_game.env import drawn_game
from memplace_env.envs.malloc_game.problem import MallocGameProblem
from memplace_env.envs.many.draws import SplitDraws
from memplace_env.envs.registration import Formulation
from memplace_env.envs.splits import Split
from memplace_env.envs.steps.env import drawn_steps
from memplace_env.envs.steps.problem import StepsProblem
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.program.program import Ints

Params = TypeVar("Params", bound=tuple[Any, ...])
P = TypeVar("P", StepsProblem, MallocGameProblem)

MOST: Final = 2**31 - 1
"""Largest number of 32 bits."""
LONGEST: Final = 2**30
"""Units in the longest time that an episode can add up to; half of what 32 bits hold, as rounding adds to it."""
_FILL: Final = {"free": MOST, "segment_last": -1, "usable": MOST, "entry_op": MOST}
"""Numbers that pad tables to one size, by field; 0 for other fields."""


def unit_ps(longest_ps: float, picoseconds: bool) -> float:
    """Return the picoseconds in a unit of time; 1 where an episode of so many picoseconds fits, or if asked for.

    Raises:
        EnvError: for picoseconds where JAX has 32 bits.
    """
    if picoseconds and not jax.config.jax_enable_x64:
        raise EnvError("Times in picoseconds need 64 bits: set jax_enable_x64, or leave out picoseconds=True.")
    return 1.0 if picoseconds else max(1.0, longest_ps / LONGEST)


def in_units(times_ps: Ints, unit: float) -> Ints:
    """Return times int64 in units, to the nearest; positive ones are at least 1."""
    return np.where(times_ps > 0, np.maximum(np.rint(times_ps / unit), 1), 0).astype(np.int64)


def on_device(params: Params) -> Params:
    """Return the same tables as arrays of JAX."""
    moved: Params = jax.tree.map(jnp.asarray, params)
    return moved


def stacked(params: Sequence[Params], classes: int = 1) -> list[tuple[Ints, Params]]:
    """Return programs in size classes, each padded to its largest, for a `vmap` over the first axis.

    Padding changes no number of an episode. A program that is padded to twice its size takes about twice the time, so
    that two or three classes suffice.

    Args:
        params: of steps, or of games with as many slots; all with the same types of times.
        classes: number of classes, of equally many programs.

    Returns:
        For each class int64[n], the indices of its programs, and their tables with a first axis of length n.
    """
    sizes = [sum(leaf.size for leaf in jax.tree.leaves(one)) for one in params]
    groups = np.array_split(np.argsort(sizes, kind="stable"), min(classes, len(params)))
    return [(group, _padded([params[index] for index in group])) for group in groups]


def _padded(params: Sequence[Params]) -> Params:
    """Return one set of tables with a first axis; the shortest dims are padded to the longest."""
    fields = []
    for name, *arrays in zip(type(params[0])._fields, *params, strict=True):  # type: ignore[attr-defined]
        shape = np.max([array.shape for array in arrays], axis=0).astype(int)
        rows = np.full((len(arrays), *shape), _FILL.get(name, 0), dtype=arrays[0].dtype)
        for row, array in zip(rows, arrays, strict=True):
            row[tuple(map(slice, array.shape))] = array
        fields.append(jnp.asarray(rows))
    return type(params[0])(*fields)


def split_problems(formulation: Formulation | str, split: Split | str) -> list[StepsProblem] | list[MallocGameProblem]:
    """Return the problems of all settings that a split draws from, of steps or games; made once a process.

    A model file is read for each, so that this takes a minute or two.
    """
    draws = SplitDraws(Formulation(formulation), Split(split))
    if Formulation(formulation) is Formulation.GAME:
        return [drawn_game(setting).problem for setting in draws.settings]
    return [drawn_steps(setting, "density").problem for setting in draws.settings]


def replayed(problem: P, actions: Any) -> Ints:
    """Return int64[B, size], the compiled kernels' states after the actions int[B, D] of finished episodes.

    `problem.scores` of steps, and `problem.final_latency_s` of games, evaluate them: by the compiler and the simulator,
    in picoseconds. Only these numbers are results; rewards in JAX are for learning.

    Args:
        problem: what was played.
        actions: the field `actions` of states; longer ones of padded programs are cut.

    Raises:
        EnvError: if an episode is not finished.
    """
    decided = np.asarray(actions, dtype=np.int64)[:, : problem.num_decisions]
    if decided.shape[1] < problem.num_decisions or (decided < 0).any():
        raise EnvError("Only finished episodes have a plan; play the others to their end.")
    states = problem.new_states(len(decided))
    for of_all in decided.T:
        problem.play(states, np.ascontiguousarray(of_all))
    return states


def plans(problem: P, actions: Any) -> list[MemoryPlan]:
    """Return the plans of finished episodes, as the compiler makes them; see `replayed`."""
    return [problem.plan(state) for state in replayed(problem, actions)]
