"""Programs of the zoo as files that are read in a millisecond, so that each process need not import their models anew.

Files are called after a digest of the model and its settings. They lie in a folder that is called after a digest of the
code that imports models, and of the version of onnx; when either changes, they are made anew.
"""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress
from dataclasses import replace
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from memplace_env._lib.errors import WorkloadError
from memplace_env._lib.kept_folder import kept_folder
from memplace_env.placement import workloads
from memplace_env.placement.workloads import WorkloadSpec, is_path, named_file, resolve_workload
from memplace_env.program.program import Program

MOST_KEPT: Final = 2_000
"""Programs that are kept, the oldest leaving first; our choice, less than 20 MB of the largest in the splits."""


def read_kept(spec: WorkloadSpec, **options: Any) -> Program:
    """Return what `resolve_workload` returns, of a zoo name from the file that an earlier call kept.

    Of the zoo's models the numbers of nodes (`op_nodes`) and the names of values are left out, kept or not.

    Raises:
        WorkloadError: as `resolve_workload`.
    """
    if not isinstance(spec, str) or spec.startswith("synthetic:") or is_path(spec):
        return resolve_workload(spec, **options)
    folder, model = _folder(), named_file(spec)
    if folder is None or model.suffix == ".program":
        return replace(resolve_workload(spec, **options), op_nodes=(), tensor_value=())
    text = json.dumps(options, sort_keys=True, default=str).encode()
    file = folder / f"{hashlib.sha256(text + model.read_bytes()).hexdigest()[:32]}.program"
    with suppress(WorkloadError):  # there is none yet, or it is damaged
        return Program.load(file)
    program = replace(resolve_workload(spec, **options), op_nodes=(), tensor_value=())
    with suppress(WorkloadError, OSError):  # a full disk
        program.save(file)
        kept = sorted(folder.glob("*.program"), key=lambda path: path.stat().st_mtime)
        for oldest in kept[:-MOST_KEPT]:
            oldest.unlink(missing_ok=True)
    return program


@cache
def _folder() -> Path | None:
    """Return the folder of the files; None if none can be written."""
    package = Path(workloads.__file__).parents[1]
    sources = [Path(workloads.__file__), *sorted((package / "program").rglob("*.py"))]
    total = hashlib.sha256(version("onnx").encode())
    for path in sources:
        total.update(hashlib.sha256(path.read_bytes()).digest())
    return kept_folder(f"programs-{hashlib.sha256(os.fsencode(package)).hexdigest()[:8]}", total.hexdigest()[:16])
