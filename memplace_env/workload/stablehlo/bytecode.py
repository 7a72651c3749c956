"""Bytecode becomes text in a process of its own: damaged bytecode can bring the parser down with all around it."""

from __future__ import annotations

import subprocess
import sys
from typing import Final

from memplace_env.errors import WorkloadError

MARK: Final = b"ML\xefR"
_SECONDS: Final = 300
_SHOWN_ELEMENTS: Final = 4096


def as_text(data: bytes) -> str:
    """The module in bytecode, or in an artifact of `jax.export`, as text; contents of large constants are left out.

    Raises:
        WorkloadError: the bytecode is damaged.
    """
    try:
        done = subprocess.run(
            [sys.executable, "-m", __name__], input=data, capture_output=True, timeout=_SECONDS, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise WorkloadError(f"The bytecode was not read in {_SECONDS} seconds; export the function again.") from error
    if done.returncode != 0 or not done.stdout:
        raise WorkloadError("The bytecode is damaged, cut short or too new for this jax; export the function again.")
    return done.stdout.decode(errors="replace")


def _main() -> None:
    from memplace_env.workload.stablehlo.library import libraries, new_context

    library, data = libraries(), sys.stdin.buffer.read()
    with new_context(library) as context:
        try:
            module = library.stablehlo.deserialize_portable_artifact(context, data)
        except Exception:  # both forms begin with the same bytes
            module = library.ir.Module.parse(data)
        text = module.operation.get_asm(large_elements_limit=_SHOWN_ELEMENTS, enable_debug_info=True)
    sys.stdout.buffer.write(text.encode())


if __name__ == "__main__":
    _main()
