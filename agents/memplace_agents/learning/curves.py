"""Curves for TensorBoard, each point written at once.

TensorBoard's own writers work in a thread, which on a full disk ends with a traceback on the terminal.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any


class Curves:
    """Scalars against rounds, in a file of its own.

    Args:
        folder: folder of the file; None writes nothing.
        purge_round: points of older files in the folder are void from this round on.
    """

    def __init__(self, folder: Path | None, purge_round: int) -> None:
        self._folder, self._purge_round = folder, purge_round
        self._file: Any = None

    def __enter__(self) -> Curves:
        if self._folder is not None:
            from tensorboard.compat.proto.event_pb2 import SessionLog
            from tensorboard.summary.writer.record_writer import RecordWriter

            self._folder.mkdir(parents=True, exist_ok=True)
            name = f"events.out.tfevents.{time.time_ns()}.{socket.gethostname()}.{os.getpid()}"
            self._file = (self._folder / name).open("wb", buffering=0)
            self._records = RecordWriter(self._file)
            self._add(step=self._purge_round, file_version="brain.Event:2")
            self._add(step=self._purge_round, session_log=SessionLog(status=SessionLog.START))
        return self

    def write(self, scalars: Mapping[str, float], round_number: int) -> None:
        """Write the scalars of a round, by tag.

        Raises:
            OSError: if there is no room.
        """
        if self._file is None:
            return
        from tensorboard.compat.proto.summary_pb2 import Summary

        values = [Summary.Value(tag=tag, simple_value=value) for tag, value in scalars.items()]
        self._add(step=round_number, summary=Summary(value=values))

    def _add(self, **content: Any) -> None:
        from tensorboard.compat.proto.event_pb2 import Event

        self._records.write(Event(wall_time=time.time(), **content).SerializeToString())

    def __exit__(self, *exception: object) -> None:
        if self._file is not None:
            self._file.close()
