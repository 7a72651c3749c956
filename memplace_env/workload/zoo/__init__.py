"""The zoo: ONNX graphs without weights' bytes that ship with the package."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Final

from memplace_env.errors import WorkloadError
from memplace_env.hints import nearest

DEFAULT_DIMS: Final[Mapping[str, int]] = {"batch": 1, "sequence": 128, "decoder_sequence": 128}
"""Sizes of the zoo's symbolic dims where the user says nothing."""


@cache
def zoo_names() -> tuple[str, ...]:
    """Names of all workloads in the zoo, in alphabetical order."""
    names = (entry.name for entry in files("memplace_env.workload.zoo").iterdir())
    return tuple(sorted((name.removesuffix(".onnx") for name in names if name.endswith(".onnx")), key=str.lower))


def zoo_path(name: str) -> Path:
    """The file of a zoo workload; upper and lower case are the same.

    Raises:
        WorkloadError: no such workload; names the nearest one and lists all.
    """
    by_lower = {known.lower(): known for known in zoo_names()}
    known = by_lower.get(name.lower())
    if known is None:
        close = nearest(name, zoo_names())
        hint = f" Did you mean {close}?" if close else ""
        raise WorkloadError(
            f"There is no workload {name!r}.{hint} The zoo has {', '.join(zoo_names())}; "
            "a path to an .onnx or .tflite file or a 'synthetic:...' text works too."
        )
    return Path(str(files("memplace_env.workload.zoo").joinpath(f"{known}.onnx")))
