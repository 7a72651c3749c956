"""Sources of an agent's code: a file inside the submission, or a package that is pinned."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import packages_distributions, version
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from memplace_env._lib.errors import LeaderboardError
from memplace_leaderboard.folder import AGENT, AGENT_BYTES, read_bytes
from memplace_leaderboard.submission import Meta

FILE: Final = "file"
PACKAGE: Final = "package"


def own_code(agent: str) -> bool:
    """Return whether an agent is "module:Class", rather than a name of this package or of an installed one."""
    return ":" in agent


def source_of(agent: str) -> dict[str, str]:
    """Return kind, name, version and sha256 of the code that "module:Class" names, without running it.

    A module that is one file is of the kind "file", and goes into the submission; any other is a "package", with the
    hash of all its files.

    Raises:
        LeaderboardError: if there is no such module.
    """
    top = agent.partition(":")[0].partition(".")[0]
    try:
        spec = find_spec(top)
    except (ImportError, ValueError):
        spec = None
    if spec is None or spec.origin is None:
        raise LeaderboardError(f"{agent} cannot be loaded: there is no module {top!r}; run it from its folder.")
    if not spec.submodule_search_locations:
        content = read_bytes(Path(spec.origin), AGENT_BYTES)
        return {"kind": FILE, "name": top, "version": "", "sha256": hashlib.sha256(content).hexdigest()}
    distributions = packages_distributions().get(top, [])
    return {
        "kind": PACKAGE,
        "name": distributions[0] if distributions else top,
        "version": version(distributions[0]) if distributions else "",
        "sha256": _tree_sha256(Path(spec.origin).parent),
    }


def file_of(agent: str) -> bytes:
    """Return the file that "module:Class" names, if that is one, see `source_of`."""
    spec = find_spec(agent.partition(":")[0])
    assert spec is not None
    return read_bytes(Path(str(spec.origin)), AGENT_BYTES)


@contextmanager
def pinned_code(folder: Path, meta: Meta) -> Iterator[None]:
    """Have the code of a submission be what its agent's name loads in processes that start in the block.

    Raises:
        LeaderboardError: if another version of its package is installed, or its file is another one.
    """
    if not own_code(meta.agent) or not meta.source:
        yield
        return
    if meta.source["kind"] != FILE:
        _require_same(meta.agent, meta.source, source_of(meta.agent))
        yield
        return
    content = read_bytes(folder / AGENT, AGENT_BYTES)
    _require_same(meta.agent, meta.source, {**meta.source, "sha256": hashlib.sha256(content).hexdigest()})
    with TemporaryDirectory() as place:
        (Path(place) / f"{meta.source['name']}.py").write_bytes(content)
        sys.path.insert(0, place)
        try:
            yield
        finally:
            sys.path.remove(place)


def _require_same(agent: str, said: Mapping[str, str], here: Mapping[str, str]) -> None:
    if dict(said) != dict(here):
        want, have = (f"{each['name']} {each['version']} ({each['sha256'][:12]})" for each in (said, here))
        raise LeaderboardError(f"the code of {agent} here is {have}, and the submission's {want}; install that.")


def _tree_sha256(folder: Path) -> str:
    """Return the hash of all files, but for compiled code that Python and Numba write beside them."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder)
        if path.is_symlink() and path.is_dir():
            raise LeaderboardError(f"{path} is a link to a folder; a package that is pinned holds its files itself.")
        if path.is_file() and not (name.parent.name == "__pycache__" and name.suffix in (".pyc", ".nbi", ".nbc")):
            with path.open("rb") as file:
                digest.update(f"{name.as_posix()}:{hashlib.file_digest(file, 'sha256').hexdigest()}\n".encode())
    return digest.hexdigest()
