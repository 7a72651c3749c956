"""Models that public packages ship: a table of them, and their files, fetched from the packages' indexes.

The files stay in a folder outside the repository: `MEMPLACE_SHIPPED` in the environment, or `memplace/shipped` in the
user's cache. Nothing of a package is run or installed.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import os
import shlex
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

from benchmarks.harness import ROOT
from memplace_env._lib.files import write_atomically
from memplace_env.cli.model_flags import ModelFlags

TABLE: Final = ROOT / "benchmarks" / "data" / "shipped.csv"
FETCH: Final = {
    "pypi": [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--no-deps",
        "--only-binary",
        ":all:",
        "--python-version",
        "3.11",
    ],
    "npm": ["npm", "pack", "--ignore-scripts"],
}
"""Commands that fetch a package into the folder in which they run, by registry; wheels as for any interpreter."""


class NotThereError(Exception):
    """A package that its index does not give, or a file in it that is not the table's; the message says which."""


class Shipped(NamedTuple):
    """A model that a package ships.

    Attributes:
        name: short name of the model.
        registry: "pypi" or "npm".
        package, version: of the package.
        path: path of the file inside the wheel or tarball; `list.json#key` are the chunks that a JSON file there lists.
        bytes: bytes of the file.
        sha256: its digest.
        options: flags of `memplace solve`, as in "--batch 1 --dim seq=128".
    """

    name: str
    registry: str
    package: str
    version: str
    path: str
    bytes: int
    sha256: str
    options: str

    @property
    def source(self) -> str:
        """Package and version: "magika 1.0.3", "@mediapipe/pose 0.5 (npm)"."""
        return f"{self.package} {self.version}" + (" (npm)" if self.registry == "npm" else "")

    def arguments(self) -> dict[str, Any]:
        """Return the options as arguments of `resolve_task`.

        Raises:
            MemPlaceError: for an option that is not of its form.
            SystemExit: for an unknown option.
        """
        parser = argparse.ArgumentParser(prog=f"options of {self.name}", add_help=False, allow_abbrev=False)
        for flag, kind in (("--batch", int), ("--trips", int), ("--cut", str)):
            parser.add_argument(flag, type=kind)
        for flag in ("--dim", "--value"):
            parser.add_argument(flag, action="append")
        flags = ModelFlags.parse(**vars(parser.parse_args(shlex.split(self.options))))
        return {name: value for name, value in vars(flags).items() if value is not None}


def table_of(path: Path = TABLE) -> list[Shipped]:
    """Return the models of a table.

    Raises:
        ValueError: if a row has other columns than `Shipped` has, a name that is there twice, or another registry.
    """
    with path.open(encoding="utf-8", newline="") as lines:
        heads, *rows = csv.reader(lines)
    if {(*heads,), *map(len, rows)} - {Shipped._fields, len(heads)}:
        raise ValueError(f"{path.name}: each row has the columns {', '.join(Shipped._fields)}")
    models = [Shipped(*row[:5], int(row[5]), *row[6:]) for row in rows]  # type: ignore[misc]
    if len({model.name for model in models}) < len(models) or not {model.registry for model in models} <= FETCH.keys():
        raise ValueError(f"{path.name}: names differ, and the registry is {' or '.join(FETCH)}")
    return models


def file_of(model: Shipped) -> Path:
    """Return where the model's file is; fetch the package if it is not there yet.

    Raises:
        NotThereError: if the index does not give the package, or the package has no such file.
    """
    inside, _, key = model.path.partition("#")
    path = _cache() / model.sha256[:16] / (f"{PurePosixPath(key).name}.onnx" if key else PurePosixPath(inside).name)
    if path.exists() and hashlib.sha256(path.read_bytes()).hexdigest() == model.sha256:
        return path
    read = _reader(_package(model))
    try:
        content = read(inside)
        if key:
            folder = PurePosixPath(inside).parent
            content = b"".join(read(str(folder / chunk["hash"])) for chunk in json.loads(content)[key]["chunks"])
    except KeyError as error:
        raise NotThereError(f"{model.source} has no {model.path}") from error
    if hashlib.sha256(content).hexdigest() != model.sha256:
        raise NotThereError(f"{model.path} of {model.source} is another file than the table's")
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, content)
    return path


def _cache() -> Path:
    default = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "memplace" / "shipped"
    return Path(os.environ.get("MEMPLACE_SHIPPED") or default)


def _package(model: Shipped) -> Path:
    """Return the package's archive; fetch it if it is not there yet."""
    folder = _cache() / model.registry / f"{model.package.replace('/', '-')}-{model.version}"
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        name = f"{model.package}{'==' if model.registry == 'pypi' else '@'}{model.version}"
        with TemporaryDirectory(dir=folder.parent) as there:
            fresh = Path(there) / "package"
            fresh.mkdir()
            try:
                subprocess.run([*FETCH[model.registry], name], cwd=fresh, capture_output=True, check=True)
            except (OSError, subprocess.CalledProcessError) as error:
                raise NotThereError(f"the index gave no package {model.source}") from error
            fresh.rename(folder)
    return next(folder.iterdir())


def _reader(archive: Path) -> Callable[[str], bytes]:
    """Return what reads a file of an archive by its path, with a KeyError if there is none."""
    if archive.suffix == ".whl":
        return lambda name: zipfile.ZipFile(archive).read(name)

    def read(name: str) -> bytes:
        with tarfile.open(archive) as packed:
            file = packed.extractfile(name)
            assert file is not None, "a folder"
            return file.read()

    return read
