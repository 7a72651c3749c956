"""A submission's folder: `submission.toml` and `runs.jsonl.xz`, one run per line.

Both are read as untrusted input: only regular files of these names, below a size limit. Runs are decompressed and
parsed piece by piece, so that a hostile file costs bounded memory and stops at its first fault.
"""

from __future__ import annotations

import hashlib
import json
import lzma
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from memplace_env._lib.errors import LeaderboardError, PlanError
from memplace_env._lib.files import write_atomically
from memplace_env._lib.foreign import parse_json, read
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_leaderboard.entry import Entry, Point, RunKey

META, RUNS = "submission.toml", "runs.jsonl.xz"
UNFINISHED: Final = "runs.jsonl"
"""File that the runs of an unfinished submission are appended to; `RUNS` replaces it in the end."""
AGENT: Final = "agent.py"
"""The agent's code, in submissions of an agent that is a file."""
META_BYTES: Final = 2**18
AGENT_BYTES: Final = 2**18
PACKED_BYTES: Final = 2**24
UNPACKED_BYTES: Final = 2**27
LINE_BYTES: Final = 2**22
LINES: Final = 10_000
POINTS: Final = 10_000
"""Limits of what is read: bytes of submission.toml, of the runs compressed and not, and of one run; number of runs, and
of points of a curve. The largest suite needs 4,000 runs; the largest of our submissions has 80 MB."""
DECODER_BYTES: Final = 2**26
"""Most bytes that a file's decoder may allocate; that of our own files takes 9 MiB."""
NAME_LENGTH: Final = 200
"""Characters of an environment id or a budget."""

_PRESET: Final = 6 | lzma.PRESET_EXTREME
_PIECE: Final = 2**20
_FIELDS: Final = ("env_id", "budget", "seed", "latency_ps", "evaluations", "seconds", "curve", "plan")
_JUDGED: Final = "processor_seconds"
"""Field that runs of format 2 have besides."""
_MOST: Final = 2**62


def submission_files(folder: Path) -> tuple[Path, ...]:
    """Return the paths of a submission's `META` and `RUNS`, and of its `AGENT` if it has one.

    Raises:
        LeaderboardError: if anything else is there, or one of them is missing, too large or no regular file.
    """
    if not folder.is_dir():
        raise LeaderboardError(f"{folder} is not a folder; pass the one that 'memplace leaderboard run' wrote.")
    names, present = {META, RUNS}, {path.name for path in folder.iterdir()}
    for name in sorted(present - names - {AGENT}):
        raise LeaderboardError(
            f"{folder / name} does not belong into a submission, which has {' and '.join(sorted(names))}"
            + ("; the run is unfinished, start it again to go on." if name == UNFINISHED else ".")
        )
    for name in sorted(names - present):
        raise LeaderboardError(f"{folder / name} is missing.")
    _require_regular(folder / META, META_BYTES)
    _require_regular(folder / RUNS, PACKED_BYTES)
    if AGENT not in present:
        return folder / META, folder / RUNS
    _require_regular(folder / AGENT, AGENT_BYTES)
    return folder / META, folder / RUNS, folder / AGENT


def read_bytes(path: Path, limit: int) -> bytes:
    """Return the contents of a regular file of at most `limit` bytes; links are not followed.

    Raises:
        LeaderboardError: if it is another thing, larger, or cannot be read.
    """
    try:
        return read(path, limit, follow=False)
    except OSError as error:
        raise LeaderboardError(f"{path} cannot be read: {error.strerror or error}.") from None


def folder_sha256(folder: Path) -> str:
    """Return the hash of a submission's files, see `submission_files`."""
    digest = hashlib.sha256()
    for path in submission_files(folder):
        content = read_bytes(path, PACKED_BYTES)
        digest.update(f"{path.name}:{len(content)}:".encode() + content)
    return digest.hexdigest()


def write_runs(path: Path, entries: Iterable[Entry]) -> Path:
    """Write runs, a line each, compressed together; the file is replaced as a whole or not at all."""
    packer = lzma.LZMACompressor(preset=_PRESET)
    pieces = [packer.compress(to_line(entry)) for entry in entries]
    return write_atomically(path, b"".join([*pieces, packer.flush()]))


def read_runs(path: Path, check: Callable[[RunKey], None] = lambda key: None) -> Iterator[Entry]:
    """Read what `write_runs` wrote, in the file's order.

    Args:
        path: the file.
        check: called with the key of each run; what it raises ends the reading at that line.

    Raises:
        LeaderboardError: if the file is damaged, unpacks to too much or holds something else, or `check` raises one;
            names the line.
    """
    return _parsed(path, _unpacked(path), check)


def append_run(path: Path, entry: Entry) -> None:
    """Append a run to an uncompressed file. A process that is killed meanwhile leaves a line without an end."""
    with path.open("ab") as file:
        file.write(to_line(entry))


def resume_runs(path: Path) -> list[Entry]:
    """Return the runs that `append_run` completed, and cut off a line that has no end.

    Raises:
        LeaderboardError: if a line that has an end holds something else; names the line.
    """
    if not path.exists():
        return []
    content = read_bytes(path, UNPACKED_BYTES)
    end = content.rfind(b"\n") + 1
    entries = list(_parsed(path, [content[:end]]))
    if end < len(content):
        os.truncate(path, end)
    return entries


def to_line(entry: Entry) -> bytes:
    """Return a run as one line of JSON, with its line break."""
    document = {
        **{field: getattr(entry, field) for field in _FIELDS[:-2]},
        "curve": [list(point) for point in entry.curve],
        "plan": json.loads(entry.plan.to_json()),
        **({} if entry.processor_seconds is None else {_JUDGED: entry.processor_seconds}),
    }
    return json.dumps(document, separators=(",", ":")).encode() + b"\n"


def from_line(line: bytes) -> Entry:
    """Return the run that `to_line` wrote.

    Raises:
        LeaderboardError: if the line holds something else.
    """
    if len(line) > LINE_BYTES:
        raise LeaderboardError(f"it has more than {LINE_BYTES:,} bytes.")
    try:
        document = parse_json(line.decode())
    except ValueError as error:
        raise LeaderboardError(f"it is not JSON ({error}).") from None
    if not isinstance(document, dict) or set(document) - {_JUDGED} != set(_FIELDS):
        raise LeaderboardError(f"a run has exactly the fields {', '.join(_FIELDS)}, and {_JUDGED} in format 2.")
    for field in ("env_id", "budget"):
        text = document[field]
        if not isinstance(text, str) or len(text) > NAME_LENGTH or not text.isprintable():
            raise LeaderboardError(f"{field} is not a line of at most {NAME_LENGTH} characters.")
    for field in ("seed", "latency_ps", "evaluations"):
        if not _is_count(document[field]):
            raise LeaderboardError(f"{field} is not a whole number from 0 to {_MOST}.")
    try:
        plan = MemoryPlan.from_document(document["plan"])
    except PlanError as error:
        raise LeaderboardError(f"its plan is not usable: {error}") from None
    curve, seconds, processor = document["curve"], document["seconds"], document.get(_JUDGED)
    if not isinstance(curve, list) or len(curve) > POINTS or not all(_is_point(point) for point in curve):
        raise LeaderboardError(f"its curve is not a list of at most {POINTS:,} [evaluations, seconds, latency_ps].")
    if not _is_time(seconds):
        raise LeaderboardError("seconds is not a number of at least 0.")
    if _JUDGED in document and not _is_time(processor):
        raise LeaderboardError(f"{_JUDGED} is not a number of at least 0.")
    return Entry(
        **{field: document[field] for field in _FIELDS[:-3]},
        plan=plan,
        seconds=float(seconds),
        curve=tuple(Point(*point) for point in curve),
        processor_seconds=None if processor is None else float(processor),
    )


def _unpacked(path: Path) -> Iterator[bytes]:
    """Yield what a file decompresses to, in pieces of at most `_PIECE` bytes."""
    unpacker = lzma.LZMADecompressor(memlimit=DECODER_BYTES)
    packed, total = read_bytes(path, PACKED_BYTES), 0
    while not unpacker.eof:
        try:
            piece = unpacker.decompress(packed, max_length=_PIECE)
        except lzma.LZMAError as error:
            raise LeaderboardError(f"{path} is damaged ({error}); make the submission again.") from None
        # The decoder has got the whole input with the first call, so it needs more only where some is missing.
        if unpacker.needs_input:
            raise LeaderboardError(f"{path} is cut off; make the submission again.")
        packed, total = b"", total + len(piece)
        if total > UNPACKED_BYTES:
            raise LeaderboardError(f"{path} unpacks to more than {UNPACKED_BYTES:,} bytes.")
        yield piece
    if unpacker.unused_data:
        raise LeaderboardError(f"{path} has trailing data.")


def _parsed(path: Path, pieces: Iterable[bytes], check: Callable[[RunKey], None] = lambda key: None) -> Iterator[Entry]:
    for number, line in enumerate(_lines(pieces), 1):
        if number > LINES:
            raise LeaderboardError(f"{path} has more than {LINES:,} lines.")
        if not line:
            continue
        try:
            entry = from_line(line)
            check(entry.key)
        except LeaderboardError as error:
            raise LeaderboardError(f"{path}, line {number}: {error}") from None
        yield entry


def _lines(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Split at line breaks. A line above the limit ends the text: no more of it is collected than one piece."""
    rest = b""
    for piece in pieces:
        *whole, rest = (rest + piece).split(b"\n")
        yield from whole
        if len(rest) > LINE_BYTES:
            break
    if rest:
        yield rest


def _require_regular(path: Path, limit: int) -> None:
    status = path.lstat()
    if not stat.S_ISREG(status.st_mode):
        raise LeaderboardError(f"{path} is not a regular file; links, folders and devices are not read.")
    if status.st_size > limit:
        raise LeaderboardError(f"{path} has {status.st_size:,} bytes; the limit is {limit:,}.")


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value <= _MOST


def _is_time(value: Any) -> bool:
    return type(value) in (int, float) and 0 <= value < 1e9


def _is_point(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 3 and all(map(_is_count, value[::2])) and _is_time(value[1])
