"""Arrays that steps and games in JAX share: units of time, programs padded to one size, and the way back to plans."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import tree_map_with_path

from memplace_env._lib.errors import EnvError
from memplace_env._lib.foreign import described
from memplace_env.envs.arguments import checked_choice, is_integer
from memplace_env.envs.malloc_game.env import drawn_game
from memplace_env.envs.malloc_game.problem import MallocGameProblem
from memplace_env.envs.many.draws import SplitDraws
from memplace_env.envs.registration import Formulation
from memplace_env.envs.splits import SPLITS, Split
from memplace_env.envs.steps.env import drawn_steps
from memplace_env.envs.steps.problem import StepsProblem
from memplace_env.machine.costs import Costs
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.program.program import Ints

Params = TypeVar("Params", bound=tuple[Any, ...])

MOST: Final = 2**31 - 1
"""Largest number of 32 bits."""
LONGEST: Final = 2**30
"""Units in the longest time that an episode can add up to; half of what 32 bits hold, as rounding adds to it."""
_FILL: Final = {"free": MOST, "usable": MOST, "segment_last": -1, "entry_op": MOST}
"""Numbers that pad tables to one size, by field; 0 for other fields."""


def check_problem(problem: Any, wanted: type[Any], env_id: str) -> None:
    """Refuse what is no problem of this kind, with an id that has one.

    Raises:
        EnvError: if it is none.
    """
    if not isinstance(problem, wanted):
        how = f"gym.make({env_id!r}).unwrapped.problem"
        raise EnvError(f"A {wanted.__name__} is wanted, such as {how}, not {described(problem)}.")


def in_units(times_ps: Ints, unit: float) -> Ints:
    """Return times int64 in units, to the nearest; positive ones are at least 1."""
    return np.where(times_ps > 0, np.maximum(np.rint(times_ps / unit), 1), 0).astype(np.int64)


def rounded_costs(costs: Costs, longest_ps: float, picoseconds: bool) -> tuple[Costs, float]:
    """Return the costs with times in units, and the picoseconds of a unit: 1 if asked for, or if `longest_ps` fits.

    Raises:
        EnvError: for picoseconds where JAX has 32 bits.
    """
    if picoseconds and jnp.zeros(0, int).dtype.itemsize < 8:
        raise EnvError("Times in picoseconds need 64 bits: set jax_enable_x64, or leave out picoseconds=True.")
    unit = 1.0 if picoseconds else max(1.0, longest_ps / LONGEST)
    names = [name for name in costs._fields if name.endswith("_ps")]
    times: Any = {name: in_units(getattr(costs, name), unit) for name in names}
    return costs._replace(**times), unit


def on_device(params: Params, picoseconds: bool) -> Params:
    """Return tables as arrays of JAX; integers become int32, but for fields `..._ps` in picoseconds."""

    def moved(path: Any, leaf: Any) -> Any:
        wide = picoseconds and path[-1].name.endswith("_ps")
        if np.asarray(leaf).dtype.kind != "i" or wide:
            return jnp.asarray(leaf)
        return jnp.asarray(np.clip(leaf, -1, MOST).astype(np.int32))

    result: Params = tree_map_with_path(moved, params)
    return result


def stacked(params: Sequence[Params], classes: int = 1) -> list[tuple[Ints, Params]]:
    """Return programs in size classes, each padded to its largest, for a `vmap` over the first axis.

    Padding changes no number of an episode. A program that is padded to twice its size takes about twice the time, so
    that two or three classes suffice.

    Args:
        params: of steps, or of games with as many slots; all with the same type of times.
        classes: number of classes, of about equally many programs.

    Returns:
        For each class int64[n], the indices of its programs, and their tables with a first axis of length n.

    Raises:
        EnvError: for no programs, steps and games together, two types of times, or a number of classes below 1.
    """
    kinds = {(type(one), *(getattr(leaf, "dtype", None) for leaf in jax.tree.leaves(one))) for one in params}
    if len(kinds) != 1 or not hasattr(params[0], "tables"):
        raise EnvError("Pass a list of what steps_params returns, or of game_params, all with the same type of times.")
    if not is_integer(classes) or classes < 1:
        raise EnvError(f"classes is an integer of at least 1, not {described(classes)}.")

    def joined(path: Any, *leaves: Any) -> Any:
        shape = np.max([leaf.shape for leaf in leaves], axis=0).astype(int)
        rows = np.full((len(leaves), *shape), _FILL.get(path[-1].name, 0), dtype=leaves[0].dtype)
        for index, leaf in enumerate(leaves):
            where: Any = index, *map(slice, leaf.shape)
            rows[where] = leaf
        return jnp.asarray(rows)

    sizes = [sum(leaf.size for leaf in jax.tree.leaves(one)) for one in params]
    groups = np.array_split(np.argsort(sizes, kind="stable"), min(classes, len(params)))
    return [(group, tree_map_with_path(joined, *(params[index] for index in group))) for group in groups]


def split_problems(formulation: str, split: str) -> list[Any]:
    """Return the `StepsProblem`s or `MallocGameProblem`s of all settings that a split draws from, made once a process.

    They are loaded as by the environments' `preload`, which takes seconds, longer the first time.

    Args:
        formulation: "steps" or "game".
        split: "train", "validation" or "test".

    Raises:
        EnvError: for another formulation or split.
    """
    game = checked_choice("formulation", formulation, (Formulation.STEPS, Formulation.GAME)) == Formulation.GAME
    draws = SplitDraws(Formulation(formulation), Split(checked_choice("split", split, SPLITS)))
    of_setting: Any = drawn_game if game else lambda setting: drawn_steps(setting, "density")
    return [of_setting(setting).problem for setting in draws.settings]


def replayed(problem: StepsProblem | MallocGameProblem, actions: Any) -> Ints:
    """Return int64[B, size], the compiled kernels' states after the actions int[B, D] of finished episodes.

    `problem.scores` of steps, and `problem.final_latency_s` of games, evaluate them: by the compiler and the simulator,
    in picoseconds. Only these numbers are results; rewards in JAX are for learning.

    Args:
        problem: what was played.
        actions: the field `actions` of states; longer ones of padded programs are cut.

    Raises:
        EnvError: if an episode is not finished, or these are no actions.
    """
    decided, count = np.asarray(actions), problem.num_decisions
    if decided.ndim != 2 or decided.dtype.kind not in "iu":
        raise EnvError(f"Actions of episodes are integers of shape (episodes, {count}), not {described(decided)}.")
    if (decided > 2).any():
        raise EnvError(f"Actions are 0, 1 or 2, not {decided.max()}; pass the field actions of states.")
    decided = decided[:, :count].astype(np.int64)
    if decided.shape[1] < count or (decided < 0).any():
        raise EnvError("Only finished episodes have a plan; play the others to their end.")
    states = problem.new_states(len(decided))
    for of_all in decided.T:
        problem.play(states, of_all)
    return states


def plans(problem: StepsProblem | MallocGameProblem, actions: Any) -> list[MemoryPlan]:
    """Return the plans of finished episodes, those of steps as the compiler makes them; see `replayed`."""
    return [problem.plan(state) for state in replayed(problem, actions)]
