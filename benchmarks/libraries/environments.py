"""Python environments of the libraries: one each, made once, with pinned versions."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[2]
HOME: Final = ROOT / "out" / "libraries"
"""Folder of the environments; about 7 GB."""
TORCH: Final = "torch==2.13.0"


class Library(NamedTuple):
    """A library, where it lives and what it can.

    Attributes:
        name: its name.
        glue: module in `benchmarks/libraries/glue` that trains it.
        environment: name of its Python environment, which others may share.
        requirements: what is installed there beside this package; the first is the library.
        masks: whether illegal actions are masked.
        algorithm: file of ours, from the root, with the algorithm that the glue calls; empty if it is the library's.
    """

    name: str
    glue: str
    environment: str
    requirements: tuple[str, ...]
    masks: bool = True
    algorithm: str = ""

    @property
    def source(self) -> str:
        """Code that trains it."""
        return (Path(__file__).parent / "glue" / f"{self.glue}.py").read_text("utf-8")

    @property
    def own_sources(self) -> list[str]:
        """All code that is not the library's."""
        return [self.source, *([(ROOT / self.algorithm).read_text("utf-8")] if self.algorithm else [])]


_SB3: Final = ("stable-baselines3==2.9.2", "sb3-contrib==2.9.2", "gymnasium==1.4.0")
LIBRARIES: Final = (
    Library("Stable-Baselines3", "with_sb3", "sb3", _SB3, masks=False),
    Library("sb3-contrib", "with_sb3_contrib", "sb3", _SB3),
    Library("examples/ppo.py", "with_ppo", "sb3", _SB3, algorithm="examples/ppo.py"),
    Library("RLlib", "with_rllib", "rllib", ("ray[rllib]==2.60.0", "gymnasium==1.2.2")),
    Library("TorchRL", "with_torchrl", "torchrl", ("torchrl==0.14.1", "tensordict==0.14.3", "gymnasium==1.4.0")),
    Library("Tianshou", "with_tianshou", "tianshou", ("tianshou==2.0.1", "gymnasium==1.4.0")),
    Library("skrl", "with_skrl", "skrl", ("skrl==2.1.1", "gymnasium==1.4.0")),
    Library("JAX", "with_jax", "jax", ("jax==0.10.2", "jaxlib==0.10.2", "optax==0.2.8", "gymnasium==1.4.0")),
)


def python_of(library: Library) -> Path:
    """Return the Python of a library's environment, which is made if it is missing or has other versions.

    Raises:
        subprocess.CalledProcessError: if something cannot be installed.
    """
    folder = HOME / library.environment
    python, stamp = folder / "bin" / "python", folder / "requirements.json"
    wanted = [TORCH] * (library.environment != "jax") + [*library.requirements, "numpy==2.4.6", "psutil"]
    if stamp.exists() and json.loads(stamp.read_text("utf-8")) == wanted:
        return python
    print(f"installing {library.environment} into {folder}", file=sys.stderr)
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    if TORCH in wanted:  # first and alone: that is the build without CUDA
        subprocess.run([*pip, TORCH], check=True)
    subprocess.run([*pip, *wanted, "--editable", str(ROOT)], check=True)
    stamp.write_text(json.dumps(wanted), "utf-8")
    return python


def run_module(library: Library, module: str, arguments: Sequence[str]) -> str:
    """Return what a module prints that runs in a library's environment, on one thread.

    Raises:
        RuntimeError: if it fails; the last lines say why.
    """
    single = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    kept = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    command = [str(python_of(library)), "-m", module, *arguments]
    done = subprocess.run(command, cwd=ROOT, env=kept | single, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError("\n".join(done.stderr.strip().splitlines()[-3:]))
    return done.stdout
