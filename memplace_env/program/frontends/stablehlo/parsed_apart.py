"""jax, and parsing of foreign modules in a process of its own: damaged ones can crash the process of MLIR's parser."""

from __future__ import annotations

import subprocess
import sys
import threading
from types import SimpleNamespace
from typing import Any, Final

import numpy as np

from memplace_env._lib.errors import WorkloadError

MARK: Final = b"ML\xefR"
"""First bytes of MLIR's bytecode."""

DEEPEST: Final = 500
"""Most brackets that are open at once in a text; real modules have some tens. Our choice."""

_SECONDS: Final = 300
_SHOWN_ELEMENTS: Final = 4096
_STACK_BYTES: Final = 2**21
"""Stack of the parser, a quarter of that of a main thread: what it survives does not crash the caller either."""
_CHUNK: Final = 2**24
"""Bytes of a text of which brackets are counted at a time, which bounds the memory for it."""


def as_text(data: bytes) -> str:
    """Return the module in a text, in bytecode or in an artifact of `jax.export` as text that can be parsed here.

    Text comes back as it is; that of bytecode is without contents of large constants.

    Raises:
        WorkloadError: the bytecode is damaged, or the parser crashed or did not end.
    """
    kind = "bytecode" if data.startswith(MARK) else "text"
    if kind == "text" and _depth(data) > DEEPEST:
        raise WorkloadError(f"Its brackets are nested more than {DEEPEST} deep; export the function again.")
    try:
        done = subprocess.run(
            [sys.executable, "-m", __name__], input=data, capture_output=True, timeout=_SECONDS, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise WorkloadError(f"The {kind} was not read in {_SECONDS} seconds; export the function again.") from error
    if kind == "bytecode" and (done.returncode != 0 or not done.stdout):
        raise WorkloadError("The bytecode is damaged, cut short or too new for this jax; export the function again.")
    if done.returncode < 0:  # a signal; text with an error is parsed again by the caller, who shows the message
        raise WorkloadError("This text crashes MLIR's parser, so it is no StableHLO module; export the function again.")
    return (done.stdout if kind == "bytecode" else data).decode(errors="replace")


def _depth(text: bytes) -> int:
    """Return the most brackets that are open at once, those in strings included; the > of an arrow closes none."""
    steps = np.zeros(256, np.int32)
    steps[list(b"([{<")], steps[list(b")]}>")] = 1, -1
    opened = deepest = 0
    before = 0
    for start in range(0, len(text), _CHUNK):
        letters = np.frombuffer(text[start : start + _CHUNK], np.uint8)
        previous = np.concatenate([np.array([before], np.uint8), letters[:-1]])
        arrows = (letters == ord(">")) & (previous == ord("-"))
        depths = opened + np.cumsum(np.where(arrows, 0, steps[letters]), dtype=np.int64)
        deepest, opened, before = max(deepest, int(depths.max())), int(depths[-1]), int(letters[-1])
    return deepest


def _convert() -> None:

    library, data = libraries(), sys.stdin.buffer.read()
    with new_context(library) as context:
        context.enable_multithreading(False)  # everything happens on the small stack
        if not data.startswith(MARK):
            library.ir.Module.parse(data.decode(errors="replace"))
            return
        try:
            module = library.stablehlo.deserialize_portable_artifact(context, data)
        except Exception:  # plain bytecode begins with the same bytes as an artifact
            module = library.ir.Module.parse(data)
        text = module.operation.get_asm(large_elements_limit=_SHOWN_ELEMENTS, enable_debug_info=True)
    sys.stdout.buffer.write(text.encode())


def libraries() -> Any:
    """Return a namespace with `jax`, `ir`, `stablehlo` and `new_context`.

    Raises:
        WorkloadError: jax is not installed, or too old.
    """
    try:
        import jax
        from jax.extend.mlir import ir
        from jax.extend.mlir.dialects import stablehlo
        from jax.interpreters import mlir
    except ImportError as error:
        needed = "Reading StableHLO needs the package jax, which is not installed"
        raise WorkloadError(f'{needed}; run: pip install "memplace[jax]".') from error
    return SimpleNamespace(jax=jax, ir=ir, stablehlo=stablehlo, new_context=mlir.make_ir_context)


def new_context(library: Any) -> Any:
    """Return a context of MLIR with StableHLO that also accepts unknown dialects, which the tracer names in errors."""
    context = library.new_context()
    context.allow_unregistered_dialects = True
    return context


if __name__ == "__main__":
    threading.stack_size(_STACK_BYTES)
    thread = threading.Thread(target=_convert)
    thread.start()
    thread.join()
