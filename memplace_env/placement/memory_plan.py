"""The MemoryPlan: the one currency that every solver, game and agent ends in."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeGuard

import numpy as np
from numpy.typing import NDArray

from memplace_env._lib.errors import PlanError
from memplace_env._lib.files import write_atomically
from memplace_env._lib.foreign import parse_json, read
from memplace_env.program.program import Ints, Program

SCHEMA = 1
ALLOCATION = ("tensor", "level", "offset", "start", "end")
TRANSFER = ("tensor", "source", "target", "start", "end")
FILE_BYTES: Final = 2**25
"""Largest plan that is read: some 400,000 blocks and copies; any JSON of this size takes at most about 1 GB as
objects. Our choice."""
TEXT: Final = 4_096
"""Most characters of a name or a setting, as of a path."""
LIST: Final = 10**6
"""Most numbers of a setting, as of the ops of a program."""
_IDENTITY = ("program", "program_sha256", "accelerator", "accelerator_sha256")


@dataclass(frozen=True, eq=False)
class MemoryPlan:
    """The level that serves every use, the blocks in fast memory, and the copies that run beside the ops.

    Times are op indices, both ends inclusive, and may reach T, the end of the program.

    Attributes:
        program: name of the program; `program_sha256` is its hash.
        accelerator: name of the chip; `accelerator_sha256` is its hash.
        use_level: int8[U], the level that serves each use.
        allocations: int64[A, 5], columns `ALLOCATION`: a block of the tensor's size at a byte offset of a level
            during start..end. The backing memory needs none.
        transfers: int64[M, 5], columns `TRANSFER`: a copy that may run during ops start..end.
        settings: the options that made the program (batch, dims, dtype, ...), so that a saved plan can be replayed.
    """

    program: str
    program_sha256: str
    accelerator: str
    accelerator_sha256: str
    use_level: NDArray[np.int8]
    allocations: Ints
    transfers: Ints
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MemoryPlan) and self._document() == other._document()

    def __hash__(self) -> int:
        return hash((self.program_sha256, self.accelerator_sha256, self.use_level.tobytes()))

    @property
    def key(self) -> str:
        """Short hash of the levels, blocks and copies; plans of one program that are equal in these have the same."""
        digest = hashlib.sha256(self.use_level.tobytes())
        for table in (self.allocations, self.transfers):
            digest.update(len(table).to_bytes(8, "big") + np.ascontiguousarray(table, dtype="<i8").tobytes())
        return digest.hexdigest()[:12]

    def tensor_levels(self, program: Program) -> Ints:
        """Return int64[K], the level of each tensor: the one that serves most of the bytes that its uses move.

        Plans of the game, and those that stream weights, may serve a tensor from several levels; of two that serve the
        same number of bytes the faster counts. Our choice.
        """
        served = np.zeros((program.num_tensors, int(self.use_level.max(initial=0)) + 1), dtype=np.int64)
        np.add.at(served, (program.use_tensor, self.use_level), program.use_bytes)
        levels: Ints = served.argmax(axis=1)
        return levels

    def block_rows(self) -> dict[tuple[int, int], list[int]]:
        """Return the rows of the blocks that a tensor has in a level, in order, by (tensor, level)."""
        rows: dict[tuple[int, int], list[int]] = {}
        for row, (tensor, level) in enumerate(self.allocations[:, :2].tolist()):
            rows.setdefault((tensor, level), []).append(row)
        return rows

    def handed_over(self, program: Program) -> list[tuple[int, int]]:
        """Return the rows (of an operand's block, of a result's) that are the same bytes, as `inplace` allows, by op.

        The operand's block ends, and the result's begins, at the op of a pair of `program.handovers`.
        """
        if not len(program.handovers):
            return []
        ends = np.column_stack([self.allocations[:, [0, 1, 2, 4]], np.arange(len(self.allocations))])
        ends = ends[np.isin(ends[:, 0], program.handovers[:, 0])]
        starts = np.column_stack([self.allocations[:, :4], np.arange(len(self.allocations))])
        starts = starts[np.isin(starts[:, 0], program.handovers[:, 1])]
        by_end, by_start = ({(*place,): row for *place, row in rows.tolist()} for rows in (ends, starts))
        given: dict[tuple[int, int], list[tuple[int, int]]] = {}
        for tensor, level, offset, end in by_end:
            given.setdefault((tensor, end), []).append((level, offset))
        return [
            (by_end[operand, level, offset, op], by_start[result, level, offset, op])
            for operand, result, op in program.handovers.tolist()
            for level, offset in given.get((operand, op), ())
            if (result, level, offset, op) in by_start
        ]

    def shared_bytes(self, program: Program, levels: int) -> Ints:
        """Return int64[T + 1, levels], bytes that an operand and a result share during each op, see `handed_over`."""
        shared = np.zeros((program.num_ops + 1, levels), dtype=np.int64)
        rows = self.allocations[[row for _, row in self.handed_over(program)]]
        np.add.at(shared, (rows[:, 3], rows[:, 1]), program.tensor_bytes[rows[:, 0]])
        return shared

    def copy_windows(self, backing: int) -> dict[tuple[int, int], list[tuple[int, int]]]:
        """Return (start, end) of every copy into a fast memory, in order, by (tensor, level that it fills)."""
        windows: dict[tuple[int, int], list[tuple[int, int]]] = {}
        for tensor, _, target, start, end in self.transfers.tolist():
            if target < backing:
                windows.setdefault((tensor, target), []).append((start, end))
        return windows

    def save(self, path: str | Path) -> Path:
        """Write the plan as JSON, whole or not at all."""
        return write_atomically(path, self.to_json())

    def to_json(self) -> str:
        """Return the plan as a JSON document with a schema version, one block or copy a line."""
        document = self._document()
        head = {key: document[key] for key in ("schema", *_IDENTITY, "settings")}
        rows = {
            key: "[" + ",\n    ".join(json.dumps(row) for row in document[key]) + "]"
            for key in ("allocations", "transfers")
        }
        return (
            json.dumps(head, indent=2)[:-2]
            + f',\n  "use_level": {json.dumps(document["use_level"])}'
            + "".join(f',\n  "{key}": {text}' for key, text in rows.items())
            + "\n}\n"
        )

    def _document(self) -> dict[str, Any]:
        return {
            "schema": SCHEMA,
            **{key: getattr(self, key) for key in _IDENTITY},
            "settings": dict(self.settings),
            "use_level": self.use_level.tolist(),
            "allocations": [dict(zip(ALLOCATION, row, strict=True)) for row in self.allocations.tolist()],
            "transfers": [dict(zip(TRANSFER, row, strict=True)) for row in self.transfers.tolist()],
        }

    @classmethod
    def load(cls, path: str | Path) -> MemoryPlan:
        """Read a plan that `save` wrote.

        Raises:
            PlanError: if the file is missing, truncated or not such a plan.
        """
        try:
            text = read(path, FILE_BYTES)
        except (OSError, ValueError) as error:  # ValueError: a null character in the path
            why = getattr(error, "strerror", None) or error
            raise PlanError(f"Cannot read the plan {path}: {why}; pass a plan.json that memplace wrote.") from None
        try:
            return cls.from_json(text)
        except PlanError as error:
            raise PlanError(f"{path} is not a usable plan: {error}") from None

    @classmethod
    def from_json(cls, text: str | bytes) -> MemoryPlan:
        """Parse `to_json`'s document.

        Raises:
            PlanError: naming the field that is missing or wrong.
        """
        try:
            document = parse_json(text)
        except ValueError as error:
            raise PlanError(f"it is not a complete JSON document ({error}).") from None
        return cls.from_document(document)

    @classmethod
    def from_document(cls, document: Any) -> MemoryPlan:
        """Return the plan of `to_json`'s document, parsed.

        Raises:
            PlanError: naming the field that is missing or wrong.
        """
        version = document.get("schema") if isinstance(document, dict) else None
        if type(version) is not int or version != SCHEMA:
            raise PlanError(f"it lacks 'schema': {SCHEMA}, the version this memplace reads and writes.")
        names: dict[str, str] = {}
        for key in _IDENTITY:
            value = document.get(key)
            if not _is_text(value):
                raise PlanError(f"the field {key!r} is missing or not a line of at most {TEXT:,} characters.")
            names[key] = value
        settings = document.get("settings", {})
        if not isinstance(settings, dict):
            raise PlanError("the field 'settings' is not a table.")
        for key, value in settings.items():
            if not _is_setting(key, value):
                raise PlanError(
                    f"its setting {key!r} is neither a number, a line of text, a list of whole numbers nor a table."
                )
        return cls(
            names["program"],
            names["program_sha256"],
            names["accelerator"],
            names["accelerator_sha256"],
            use_level=_integers(document.get("use_level"), "use_level", np.iinfo(np.int8)).astype(np.int8),
            allocations=_rows(document, "allocations", ALLOCATION),
            transfers=_rows(document, "transfers", TRANSFER),
            settings=settings,
        )


def _is_text(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and len(value) <= TEXT and value.isprintable()


def _is_setting(key: str, value: object) -> bool:
    """Return whether the value is a setting, or a table of settings."""
    inner = value if isinstance(value, dict) else {key: value}
    return _is_text(key) and all(_is_text(name) and (_is_value(item) or _is_list(item)) for name, item in inner.items())


def _is_value(value: object) -> bool:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return abs(value) < 2**63
    return value is None or isinstance(value, bool) or _is_text(value)


def _is_list(value: object) -> bool:
    return (
        isinstance(value, list)
        and len(value) <= LIST
        and all(type(item) is int and abs(item) < 2**63 for item in value)
    )


def _rows(document: dict[str, Any], key: str, columns: tuple[str, ...]) -> Ints:
    rows = document.get(key)
    if not isinstance(rows, list):
        raise PlanError(f"the field {key!r} is missing or not a list.")
    for index, row in enumerate(rows):
        if not isinstance(row, dict) or set(row) != set(columns):
            raise PlanError(f"{key}[{index}] must have exactly the fields {', '.join(columns)}.")
    cells = [row[column] for row in rows for column in columns]
    return _integers(cells, key, np.iinfo(np.int64)).reshape(-1, len(columns))


def _integers(values: object, key: str, limits: np.iinfo) -> Ints:
    if not isinstance(values, list):
        raise PlanError(f"the field {key!r} is missing or not a list.")
    whole = set(map(type, values)) <= {int}
    if not whole or (values and not limits.min <= min(values) <= max(values) <= limits.max):
        raise PlanError(f"the field {key!r} holds something other than integers from {limits.min} to {limits.max}.")
    return np.array(values, dtype=np.int64)
