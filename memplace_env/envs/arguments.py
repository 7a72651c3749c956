"""Checks of the arguments of `reset` and `step`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from memplace_env._lib.errors import ActionError, EnvError
from memplace_env._lib.foreign import described

SEEDS: Final = 2**128
"""Seeds lie below this, as those that NumPy draws for itself; larger integers would only take time."""

NO_STATE: Final = (
    "options['state'] is for games and steps; an episode of one step has no state to begin from but its first."
)
"""Error message for a state that a reset cannot begin from."""


def checked_seed(seed: Any) -> int | None:
    """Return the seed of a reset in the form that Gymnasium takes.

    Raises:
        EnvError: if it is neither None nor an integer of at least 0 and below `SEEDS`.
    """
    if seed is None:
        return None
    if is_integer(seed) and 0 <= int(seed) < SEEDS:
        return int(seed)
    raise EnvError(f"A seed is None or an integer of at least 0 and below 2**128, not {described(seed)}.")


def checked_flag(name: str, flag: Any) -> bool:
    """Return a flag.

    Raises:
        EnvError: if it is no bool.
    """
    if isinstance(flag, bool | np.bool_):
        return bool(flag)
    raise EnvError(f"{name} is True or False, not {described(flag)}.")


def checked_choice(name: str, value: Any, names: Sequence[str]) -> str:
    """Return the value of an argument that is one of these names.

    Raises:
        EnvError: if it is none.
    """
    if not isinstance(value, str) or value not in names:
        raise EnvError(f"{name} must be one of {', '.join(names)}, not {described(value)}.")
    return value


def checked_options(options: Any) -> Mapping[str, Any]:
    """Return the options of a reset, empty for None.

    Raises:
        EnvError: if they are neither None nor a dictionary.
    """
    if options is None or isinstance(options, Mapping):
        return options or {}
    raise EnvError(f"The options of a reset are None or a dictionary, not {described(options)}.")


def checked_count(num_envs: Any, bytes_each: int) -> int:
    """Return the number of copies of an environment, after a check that they fit into memory.

    Raises:
        EnvError: if it is no integer of at least 1, or this machine has too little memory.
    """
    if not is_integer(num_envs) or num_envs < 1:
        raise EnvError(f"num_envs is an integer of at least 1, not {described(num_envs)}.")
    most = max(_memory_bytes() // bytes_each, 1)
    count = int(num_envs)
    if count > most:
        raise EnvError(
            f"num_envs {described(count)} is more than the {most:,} copies of {bytes_each:,} bytes that the memory of "
            "this machine holds."
        )
    return count


def _memory_bytes() -> int:
    """Return the memory of this machine, or if that is unknown as much as can be addressed."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 2**47


def integers(actions: Any, shape: tuple[int | None, ...], what: str) -> NDArray[np.integer]:
    """Return the actions as an array of integers of that shape, where None is any length.

    Args:
        actions: anything.
        shape: the shape wanted.
        what: beginning of the error message, a sentence about the actions wanted.

    Raises:
        ActionError: for another shape or dtype, or something that is no array.
    """
    try:
        array = np.asarray(actions)
    except Exception as error:  # ragged lists, or any error of a foreign object
        raise ActionError(f"{what}; this {type(actions).__name__} is not an array.") from error
    fits = len(array.shape) == len(shape) and all(map(_fits, array.shape, shape))
    if not fits or array.dtype.kind not in "iu":
        raise ActionError(f"{what}; this one has shape {array.shape} and dtype {array.dtype}.")
    return array


def is_integer(value: Any) -> bool:
    """Return whether it is an integer of Python or NumPy, but no bool and no duration, which are subclasses."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool | np.timedelta64)


def _fits(length: int, wanted: int | None) -> bool:
    return wanted is None or length == wanted
