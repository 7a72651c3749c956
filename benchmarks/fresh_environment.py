"""Empty environments of Python in which the built package is tried as its users have it."""

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
LONGEST_S = 3600
"""Seconds after which a command is given up. Our choice."""


class Ended(NamedTuple):
    """A command that ended: its exit code, what it printed, and the processor seconds that it took."""

    code: int
    printed: str
    seconds: float

    @property
    def complaint(self) -> str:
        """The last line that was printed if the command failed, else an empty text."""
        return (self.printed.strip().splitlines() or ["nothing"])[-1] if self.code else ""


def build_wheel(folder: Path) -> Path:
    """Build the wheel of this checkout into a folder and return its path."""
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(ROOT)]
    subprocess.run(command, check=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


class FreshEnvironment:
    """An empty environment, made by `venv`; commands run in a working folder beside it.

    Args:
        python: interpreter that it belongs to.
        folder: where it is made; must be empty or not exist.
    """

    def __init__(self, python: str, folder: Path) -> None:
        self.bin, self.home, self.work = folder / "env" / "bin", folder / "env", folder / "work"
        self.work.mkdir(parents=True)
        subprocess.run([python, "-m", "venv", str(self.home)], check=True)
        self.empty_bytes = self._bytes()

    def run(self, command: Sequence[str]) -> Ended:
        """Run a program of the environment, or one of this process's path, with its folder of programs first."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        variables = {**os.environ, "PATH": f"{self.bin}:{os.environ['PATH']}", "VIRTUAL_ENV": str(self.home)}
        variables.pop("PYTHONPATH", None)
        ended = subprocess.run(
            ["timeout", str(LONGEST_S), *command],
            cwd=self.work, env=variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
        )  # fmt: skip
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return Ended(ended.returncode, ended.stdout, round(seconds, 1))

    def pip(self, *arguments: str) -> Ended:
        """Run pip in the environment."""
        return self.run([str(self.bin / "python"), "-m", "pip", "--disable-pip-version-check", *arguments])

    def packages(self) -> dict[str, str]:
        """Return the version of each installed package but pip and setuptools."""
        code = "import json, importlib.metadata as m; print(json.dumps({d.name: d.version for d in m.distributions()}))"
        found: dict[str, str] = json.loads(self.run([str(self.bin / "python"), "-c", code]).printed)
        return {name: version for name, version in found.items() if name not in ("pip", "setuptools")}

    def megabytes(self) -> int:
        """Return the size of what was installed since it was empty."""
        return round((self._bytes() - self.empty_bytes) / MEGABYTE)

    def _bytes(self) -> int:
        return sum(path.lstat().st_size for path in self.home.rglob("*") if not path.is_dir())
