"""States that a game can be set to: those that legal play leads to, since kernels trust the indices in a state."""

from __future__ import annotations

import secrets
from typing import Any, Final

import numpy as np

from memplace_env._lib.errors import EnvError
from memplace_env._lib.kernel import kernel
from memplace_env.envs.malloc_game.playouts import is_reached
from memplace_env.envs.malloc_game.state import StateLayout, Tables
from memplace_env.program.program import Ints

_MOST: Final = 2**16
"""Number of digests stored at once, 6 MB; our choice."""
_KEY: Final = np.uint64(secrets.randbits(64))
"""Key of this process's digests, so that no state can be built to have the digest of another one."""


class KnownStates:
    """States of one game that `get_state` returned, and a check of all others.

    Planners return to states that they were given; comparing digests costs less than playing them again. Every other
    state, of another process or built by hand, is played again from the first decision on.
    """

    def __init__(self, tables: Tables, layout: StateLayout) -> None:
        self._tables, self._layout = tables, layout
        self._digests: set[int] = set()

    def add(self, state: Ints) -> None:
        """Remember a state int64[size] that play led to."""
        if len(self._digests) >= _MOST:
            self._digests.clear()
        self._digests.add(int(_digest(state, _KEY)))

    def check(self, state: Any) -> Ints:
        """Return a copy of a state int64[size] that legal play leads to.

        Raises:
            EnvError: if it is no such array, or no legal play leads to it.
        """
        size = self._layout.size
        if not isinstance(state, np.ndarray) or state.dtype != np.int64 or state.shape != (size,):
            kind = f"{state.dtype}{list(state.shape)}" if isinstance(state, np.ndarray) else type(state).__name__
            raise EnvError(f"A state of this game is int64[{size}], as get_state gives it, not {kind}.")
        checked = np.array(state)  # contiguous, no subclass, and out of reach for the caller
        if int(_digest(checked, _KEY)) not in self._digests and not is_reached(self._tables, self._layout, checked):
            raise EnvError("No legal play of this game leads to this state; pass one that get_state gave, unchanged.")
        return checked


@kernel
def _digest(state, key):
    """Return a 64-bit digest of a state int64[size], mixed in four lanes that the processor handles in parallel."""
    # Each word is xor-ed in, multiplied by 2**64 / golden ratio (odd, so that nothing is lost) and rotated by 29 bits.
    words, odd, left, right = state.view(np.uint64), np.uint64(0x9E3779B97F4A7C15), np.uint64(29), np.uint64(35)
    a, b, c, d = key, key ^ odd, key + odd, ~key
    whole = len(words) // 4 * 4
    for index in range(0, whole, 4):
        a, b = (a ^ words[index]) * odd, (b ^ words[index + 1]) * odd
        c, d = (c ^ words[index + 2]) * odd, (d ^ words[index + 3]) * odd
        a, b, c, d = a << left | a >> right, b << left | b >> right, c << left | c >> right, d << left | d >> right
    # The remaining words, then the other lanes, go into the first.
    for index in range(whole, len(words)):
        a = (a ^ words[index]) * odd
        a = a << left | a >> right
    for lane in (b, c, d):
        a = (a ^ lane) * odd
        a = a << left | a >> right
    return a * odd
