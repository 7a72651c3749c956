"""The number of threads that torch works with."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def one_thread() -> Iterator[None]:
    """Let torch work with one thread inside.

    Our networks are small: more threads mostly wait for each other, on a busy machine for many times the work. One
    thread also adds in the same order on every machine.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
