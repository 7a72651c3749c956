"""A submission's folder: `submission.toml` and `plans/<env id>.jsonl.xz`, a run a line. Read as a stranger's file is:
nothing is opened but regular files with the names that must be there, below a size limit.
"""

from __future__ import annotations

import json
import lzma
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from memplace_env.errors import LeaderboardError, PlanError
from memplace_env.files import write_atomically
from memplace_env.foreign import parse_json, read
from memplace_env.leaderboard.entry import Entry, Point
from memplace_env.plan import MemoryPlan

META, PLANS, SUFFIX = "submission.toml", "plans", ".jsonl.xz"
PARTS: Final = "parts"
"""Folder of the runs of environments that are not finished."""
META_BYTES: Final = 2**18
PACKED_BYTES: Final = 2**22
UNPACKED_BYTES: Final = 2**26
WHOLE_BYTES: Final = 2**27
LINE_BYTES: Final = 2**22
RUNS: Final = 1_000
POINTS: Final = 10_000
"""Sizes above which nothing is read: of submission.toml, of a file of plans, of what it unpacks to, of what all of a
submission's do, of a run, of the runs of an environment, and of a run's curve."""
NAME_LENGTH: Final = 200

_FIELDS: Final = ("env_id", "budget", "seed", "latency_ps", "evaluations", "seconds", "curve", "plan")
_MOST: Final = 2**62


def files_in(folder: Path) -> tuple[Path, dict[str, Path]]:
    """The file submission.toml of a folder and the files of plans by environment id.

    Raises:
        LeaderboardError: if anything else is there, something is missing, too large or no regular file.
    """
    if not folder.is_dir():
        raise LeaderboardError(f"{folder} is no folder; pass the one that 'memplace leaderboard run' wrote.")
    _only(folder, {META, PLANS})
    meta, plans = folder / META, folder / PLANS
    _regular(meta, META_BYTES)
    if not stat.S_ISDIR(plans.lstat().st_mode):
        raise LeaderboardError(f"{plans} is no folder; it must hold a file of plans for each environment.")
    packed = {}
    for path in sorted(plans.iterdir()):
        if not path.name.endswith(SUFFIX):
            raise LeaderboardError(f"{path} does not belong into a submission; there are only <env id>{SUFFIX}.")
        _regular(path, PACKED_BYTES)
        packed[path.name.removesuffix(SUFFIX)] = path
    return meta, packed


def read_bytes(path: Path, limit: int) -> bytes:
    """The contents of a regular file below a limit; a link to one is none.

    Raises:
        LeaderboardError: if it is none.
    """
    try:
        return read(path, limit, follow=False)
    except OSError as error:
        raise LeaderboardError(f"{path} cannot be read: {error.strerror or error}.") from None


def write_entries(path: Path, entries: Iterable[Entry]) -> Path:
    """Write the runs of one environment, a line each, compressed together, whole or not at all."""
    lines = "".join(to_line(entry) + "\n" for entry in entries)
    return write_atomically(path, lzma.compress(lines.encode()))


def read_all(packed: Mapping[str, Path]) -> dict[str, list[Entry]]:
    """The runs in files of plans, by environment id.

    Raises:
        LeaderboardError: as `read_entries`, or if all together unpack to too much.
    """
    entries, whole = {}, 0
    for env_id, path in packed.items():
        content = _unpacked(path)
        whole += len(content)
        if whole > WHOLE_BYTES:
            raise LeaderboardError(f"{path.parent} unpacks to more than {WHOLE_BYTES:,} bytes.")
        entries[env_id] = list(_runs(path, content))
    return entries


def read_entries(path: Path) -> Iterator[Entry]:
    """The runs of one environment.

    Raises:
        LeaderboardError: if the file is damaged, unpacks to too much or holds something else; says in which line.
    """
    yield from _runs(path, _unpacked(path))


def _runs(path: Path, content: bytes) -> Iterator[Entry]:
    if content.count(b"\n") > RUNS:
        raise LeaderboardError(f"{path} has more than {RUNS:,} lines.")
    for number, line in enumerate(content.split(b"\n"), 1):
        if not line:
            continue
        try:
            if len(line) > LINE_BYTES:
                raise LeaderboardError(f"it has {len(line):,} bytes, and {LINE_BYTES:,} are the most.")
            yield of_line(line.decode())
        except (LeaderboardError, UnicodeDecodeError) as error:
            raise LeaderboardError(f"{path}, line {number}: {error}") from None


def to_line(entry: Entry) -> str:
    """A run as one line of JSON."""
    document = {
        **{field: getattr(entry, field) for field in _FIELDS[:-2]},
        "curve": [list(point) for point in entry.curve],
        "plan": json.loads(entry.plan.to_json()),
    }
    return json.dumps(document, separators=(",", ":"))


def of_line(line: str) -> Entry:
    """The run that `to_line` wrote.

    Raises:
        LeaderboardError: if it is another thing.
    """
    try:
        document = parse_json(line)
    except ValueError as error:
        raise LeaderboardError(f"it is no JSON ({error}).") from None
    if not isinstance(document, dict) or set(document) != set(_FIELDS):
        raise LeaderboardError(f"a run has exactly the fields {', '.join(_FIELDS)}.")
    for field in ("env_id", "budget"):
        text = document[field]
        if not isinstance(text, str) or len(text) > NAME_LENGTH or not text.isprintable():
            raise LeaderboardError(f"{field} is no line of at most {NAME_LENGTH} characters.")
    for field in ("seed", "latency_ps", "evaluations"):
        if not _is_count(document[field]):
            raise LeaderboardError(f"{field} is no whole number from 0 to {_MOST}.")
    try:
        plan = MemoryPlan.from_document(document["plan"])
    except PlanError as error:
        raise LeaderboardError(f"its plan is not usable: {error}") from None
    curve, seconds = document["curve"], document["seconds"]
    if not isinstance(curve, list) or len(curve) > POINTS or not all(_is_point(point) for point in curve):
        raise LeaderboardError(f"its curve is no list of at most {POINTS:,} [evaluations, seconds, latency_ps].")
    if not _is_time(seconds):
        raise LeaderboardError("seconds is no number of at least 0.")
    fields = {field: document[field] for field in _FIELDS[:-3]}
    return Entry(**fields, seconds=float(seconds), curve=tuple(Point(*point) for point in curve), plan=plan)


def _unpacked(path: Path) -> bytes:
    unpacker = lzma.LZMADecompressor(memlimit=UNPACKED_BYTES)
    try:
        content = unpacker.decompress(read_bytes(path, PACKED_BYTES), max_length=UNPACKED_BYTES)
    except lzma.LZMAError as error:
        raise LeaderboardError(f"{path} is damaged ({error}); make the submission again.") from None
    if not unpacker.eof:
        raise LeaderboardError(f"{path} unpacks to more than {UNPACKED_BYTES:,} bytes, or is cut off.")
    if unpacker.unused_data:
        raise LeaderboardError(f"{path} holds something behind its end.")
    return content


def _only(folder: Path, names: set[str]) -> None:
    there = {path.name for path in folder.iterdir()}
    for name in sorted(there - names):
        raise LeaderboardError(
            f"{folder / name} does not belong into a submission, which has {' and '.join(sorted(names))}"
            + ("; the run is unfinished, start it again to go on." if name == PARTS else ".")
        )
    for name in sorted(names - there):
        raise LeaderboardError(f"{folder / name} is missing.")


def _regular(path: Path, limit: int) -> None:
    status = path.lstat()
    if not stat.S_ISREG(status.st_mode):
        raise LeaderboardError(f"{path} is no regular file; links, folders and devices are not read.")
    if status.st_size > limit:
        raise LeaderboardError(f"{path} has {status.st_size:,} bytes, and {limit:,} are the most.")


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value <= _MOST


def _is_time(value: Any) -> bool:
    return type(value) in (int, float) and 0 <= value < 1e9


def _is_point(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 3 and all(map(_is_count, value[::2])) and _is_time(value[1])
