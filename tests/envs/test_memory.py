"""Memory does not grow in long use: the short test; the full one is `python -m tests.fuzz.memory`."""

import json
import mmap
import subprocess
import sys

import pytest

from tests.fuzz import memory

SHORT = ("game, states and forks", "one-shot, made and closed", "game, vector")
"""The kinds of use that allocate most: copies of states, environments, and batches."""


@pytest.mark.parametrize("kind", SHORT)
def test_memory_is_flat(kind):
    """In a process of its own: the heap of one that ran other tests grows and shrinks as these left it."""
    command = [sys.executable, "-m", "tests.fuzz.memory", "--kind", kind, "--steps", "1500"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    line = json.loads(result.stdout)
    assert line["growth_mib"] < 3, line


def test_a_leak_is_seen(monkeypatch):
    buffers = []

    def leaks():
        while True:  # new pages, as the heap may have room from other tests
            buffers.append(mmap.mmap(-1, 2**16, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
            buffers[-1].write(bytes([1]) * 2**16)
            yield

    monkeypatch.setattr(memory, "kinds", lambda: {"leak": leaks})
    line = memory.measure("leak", 300)
    assert line["growth_mib"] > 10
    assert not line["flat"]
