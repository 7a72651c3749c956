"""Conversion of bytecode to text in a process of its own, as damaged bytecode can crash the parser's process."""

from __future__ import annotations

import subprocess
import sys
from typing import Final

from memplace_env._lib.errors import WorkloadError

MARK: Final = b"ML\xefR"
"""First bytes of MLIR's bytecode."""

_SECONDS: Final = 300
_SHOWN_ELEMENTS: Final = 4096


def as_text(data: bytes) -> str:
    """Return the module in bytecode or in an artifact of `jax.export` as text, without contents of large constants.

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
    from memplace_env.program.frontends.stablehlo.library import libraries, new_context

    library, data = libraries(), sys.stdin.buffer.read()
    with new_context(library) as context:
        try:
            module = library.stablehlo.deserialize_portable_artifact(context, data)
        except Exception:  # plain bytecode begins with the same bytes as an artifact
            module = library.ir.Module.parse(data)
        text = module.operation.get_asm(large_elements_limit=_SHOWN_ELEMENTS, enable_debug_info=True)
    sys.stdout.buffer.write(text.encode())


if __name__ == "__main__":
    _main()
