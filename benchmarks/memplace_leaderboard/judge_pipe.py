"""The judge's end of a pipe: whatever the other end does, or leaves undone, no message takes longer than it may."""

from __future__ import annotations

import socket
import time
from multiprocessing.reduction import sendfds
from typing import Final

from memplace_env._lib.errors import LeaderboardError
from memplace_leaderboard.plan_wire import MESSAGE_BYTES

MESSAGE_S: Final = 30.0
"""Seconds in which a message that has begun must have come, or gone. Our choice."""
_PIECE: Final = 2**16
_HEAD: Final = 4


class JudgePipe:
    """A pipe whose other end is a `multiprocessing.connection.Connection`.

    Attributes:
        theirs: the other end, for a process that gets it; to be closed then.
    """

    def __init__(self) -> None:
        self._ours, self.theirs = socket.socketpair()

    def receive(self, left_s: float) -> bytes:
        """Return the next message, which has to come within some seconds.

        Raises:
            TimeoutError: if it has not come by then, or not wholly.
            EOFError: if the other end is closed.
            LeaderboardError: if it is too long.
        """
        until, data, size = time.monotonic() + left_s, bytearray(), _HEAD
        while len(data) < size:
            left_s = until - time.monotonic()
            if left_s <= 0:  # also where more is there to read: a flood ends as silence does
                raise TimeoutError
            self._ours.settimeout(left_s)
            piece = self._ours.recv(min(size - len(data), _PIECE))
            if not piece:
                raise EOFError
            if not data:
                until = min(until, time.monotonic() + MESSAGE_S)
            data += piece
            if len(data) == size == _HEAD:
                size += int.from_bytes(data, "big", signed=True)
                if not _HEAD <= size <= _HEAD + MESSAGE_BYTES:
                    raise LeaderboardError(f"it sent a message above {MESSAGE_BYTES:,} bytes.")
        return bytes(data[_HEAD:])

    def send(self, message: bytes) -> None:
        """Send a message.

        Raises:
            OSError: if the other end is closed, or does not read it.
        """
        self._ours.settimeout(MESSAGE_S)
        self._ours.sendall(len(message).to_bytes(_HEAD, "big") + message)

    def send_end(self, end: socket.socket) -> None:
        """Send the end of another pipe, and close it here."""
        with end:
            sendfds(self._ours, [end.fileno()])

    def close(self) -> None:
        """Close this end."""
        self._ours.close()
