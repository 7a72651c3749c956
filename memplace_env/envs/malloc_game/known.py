"""Which states a game can be set to: those that legal play leads to, since kernels trust what states say of places."""

from __future__ import annotations

import secrets
from typing import Any, Final

import numpy as np

from memplace_env.envs.malloc_game.playouts import is_reached
from memplace_env.envs.malloc_game.state import Layout, Tables
from memplace_env.errors import EnvError
from memplace_env.kernel import kernel
from memplace_env.workload.program import Ints

_MOST: Final = 2**16
"""States that are remembered at once, 6 MB of digests; our choice."""
_KEY: Final = np.uint64(secrets.randbits(64))
"""Of this process, so that nobody makes a state that has the digest of another one."""


class KnownStates:
    """States of one game that were given out, and a check of all others.

    A planner comes back to states that it was given; their digests say so, for less than playing them again. Every
    other one, of another process or of a planner's own making, is played again from the first decision on.
    """

    def __init__(self, tables: Tables, layout: Layout) -> None:
        self._tables, self._layout = tables, layout
        self._digests: set[int] = set()

    def add(self, state: Ints) -> None:
        """Remember a state int64[size] that play led to."""
        if len(self._digests) >= _MOST:
            self._digests.clear()
        self._digests.add(int(_digest(state, _KEY)))

    def check(self, state: Any) -> Ints:
        """The state int64[size], if play leads to it.

        Raises:
            EnvError: if it is no such array, or no legal play leads to it.
        """
        size = self._layout.size
        if not isinstance(state, np.ndarray) or state.dtype != np.int64 or state.shape != (size,):
            kind = f"{state.dtype}{list(state.shape)}" if isinstance(state, np.ndarray) else type(state).__name__
            raise EnvError(f"A state of this game is int64[{size}], as get_state gives it, not {kind}.")
        own = np.array(state)  # contiguous, plain, and nobody else's
        if int(_digest(own, _KEY)) not in self._digests and not is_reached(self._tables, self._layout, own):
            raise EnvError("No legal play of this game leads to this state; pass one that get_state gave, unchanged.")
        return own


@kernel
def _digest(state, key):
    """A 64-bit mix of a state int64[size], in four lanes that the processor works at side by side."""
    words, odd, left, right = state.view(np.uint64), np.uint64(0x9E3779B97F4A7C15), np.uint64(29), np.uint64(35)
    a, b, c, d = key, key ^ odd, key + odd, ~key
    whole = len(words) // 4 * 4
    for place in range(0, whole, 4):
        a, b = (a ^ words[place]) * odd, (b ^ words[place + 1]) * odd
        c, d = (c ^ words[place + 2]) * odd, (d ^ words[place + 3]) * odd
        a, b, c, d = a << left | a >> right, b << left | b >> right, c << left | c >> right, d << left | d >> right
    for place in range(whole, len(words)):
        a = (a ^ words[place]) * odd
        a = a << left | a >> right
    for lane in (b, c, d):
        a = (a ^ lane) * odd
        a = a << left | a >> right
    return a * odd
