"""Empty environments of Python in which the built package is tried as its users have it; uv makes and fills them."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
MEGABYTE = 1_000_000
TORCH = "torch==2.13.0"
"""Version of PyTorch with which learning agents and other libraries are tried."""


class Ended(NamedTuple):
    """A command that ended: its exit code, what it printed, and the processor seconds that it took."""

    code: int
    printed: str
    seconds: float

    @property
    def complaint(self) -> str:
        """The last line that was printed if the command failed, else an empty text."""
        return (self.printed.strip().splitlines() or ["nothing"])[-1].strip() if self.code else ""


def build_wheel(folder: Path) -> Path:
    """Build the wheel of this checkout into a folder and return its path."""
    subprocess.run(["uv", "build", "--quiet", "--out-dir", str(folder), str(ROOT)], check=True)  # by way of the sdist
    (wheel,) = folder.glob("*.whl")
    return wheel


class FreshEnvironment:
    """An empty environment of Python; commands run in a working folder beside it.

    Args:
        python: version or path of its interpreter.
        folder: where it is made; must be empty or not exist.
        kernels: folder that keeps compiled kernels for environments at the same place; None keeps them within it.
    """

    def __init__(self, python: str, folder: Path, kernels: Path | None = None) -> None:
        self._kernels = {} if kernels is None else {"NUMBA_CACHE_DIR": str(kernels)}
        self.home, self.work = folder / "env", folder / "work"
        self.work.mkdir(parents=True)
        subprocess.run(["uv", "venv", "--quiet", "--python", python, str(self.home)], check=True)

    def run(self, command: Sequence[str]) -> Ended:
        """Run a program, by preference one of the environment."""
        programs = self.home / "bin"
        variables = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "VIRTUAL_ENV": str(self.home)}
        variables = {name: value for name, value in variables.items() if name not in ("PYTHONPATH", "NUMBA_CACHE_DIR")}
        first, *arguments = command
        program = str(programs / first) if (programs / first).exists() else first
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        ended = subprocess.run(
            [program, *arguments],
            cwd=self.work,
            env={**variables, **self._kernels},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return Ended(ended.returncode, ended.stdout, round(seconds, 1))

    def packages(self) -> dict[str, str]:
        """Return the version of each installed package."""
        printed = subprocess.run(
            ["uv", "pip", "list", "--quiet", "--format", "json", "--python", str(self.home)],
            check=True,
            stdout=subprocess.PIPE,
        ).stdout
        return {package["name"]: package["version"] for package in json.loads(printed)}

    def megabytes(self) -> int:
        """Return the size of its files."""
        return round(sum(path.lstat().st_size for path in self.home.rglob("*") if not path.is_dir()) / MEGABYTE)


def version_of(python: str = sys.executable) -> str:
    """Return the version of an interpreter, such as "3.11"."""
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    return subprocess.run([python, "-c", code], check=True, capture_output=True, text=True).stdout.strip()
