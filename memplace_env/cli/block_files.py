"""Files of blocks for `memplace pack`: MiniMalloc's CSV and a JSON."""

from __future__ import annotations

import csv
import sys
from collections.abc import Sequence
from io import StringIO
from pathlib import Path
from typing import Any, Final, NamedTuple

from memplace_env._lib.errors import PlanError
from memplace_env._lib.foreign import parse_json, read

FILE_BYTES: Final = 2**28
"""Largest file that is read: some ten million blocks. Our choice."""
_CSV: Final = {"lower": "first", "upper": "last", "offset": "pin"}
"""Names of a CSV by those of a JSON; `upper` is one more than `last`."""


class BlockRow(NamedTuple):
    """A block: name, bytes, first and last unit of time, and what is asked of its offset; see docs/toolchains.md."""

    id: str
    size: int
    first: int
    last: int
    alignment: int = 1
    pin: int | None = None
    bank: str = ""


def read_blocks(path: Path) -> list[BlockRow]:
    """Return the blocks of a file, or of standard input if it is "-".

    Raises:
        PlanError: if it is neither a CSV nor a JSON of blocks, or two have one name.
    """
    try:
        content = sys.stdin.buffer.read(FILE_BYTES + 1) if str(path) == "-" else read(path, FILE_BYTES)
        if len(content) > FILE_BYTES:
            raise ValueError(f"it has more than {FILE_BYTES:,} bytes")
        text = content.decode("utf-8-sig")
        if text.lstrip()[:1] in ("{", "["):
            document = parse_json(text)
            rows = document["blocks"] if isinstance(document, dict) else document
            blocks = [_block(row) for row in rows]
        else:
            blocks = [_block(_of_csv(row)) for row in csv.DictReader(text.splitlines(), strict=True)]
    except OSError as error:
        raise PlanError(f"Cannot read {path}: {error.strerror or error}.") from None
    except (AttributeError, KeyError, TypeError, ValueError, csv.Error) as error:
        reason = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise PlanError(
            f"{path} holds no blocks: {reason}. A .csv has the columns id,lower,upper,size and may have "
            "alignment,offset; a .json has blocks with id, size, first and last."
        ) from None
    if not blocks:
        raise PlanError(f"{path} holds no blocks.")
    if len({block.id for block in blocks}) < len(blocks):
        raise PlanError(f"{path} has two blocks of one id.")
    return blocks


def _of_csv(row: dict[str, str]) -> dict[str, Any]:
    values = {_CSV.get(key, key): value for key, value in row.items() if value not in (None, "")}
    return {**values, "last": _whole(values, "last") - 1}


def _block(row: dict[str, Any]) -> BlockRow:
    pin = row.get("pin")
    size, first, last = (_whole(row, name) for name in ("size", "first", "last"))
    alignment = _whole(row, "alignment") if row.get("alignment") is not None else 1
    bank = str(row.get("bank") or "")
    return BlockRow(str(row["id"]), size, first, last, alignment, None if pin is None else _whole(row, "pin"), bank)


def _whole(row: dict[str, Any], name: str) -> int:
    value = row[name]
    if isinstance(value, (bool, float)) or not -(2**60) < int(value) < 2**60:
        raise ValueError(f"{name} of {row.get('id')!r} is {value!r}, not a whole number")
    return int(value)


def to_csv(blocks: Sequence[BlockRow], offsets: Sequence[int]) -> str:
    """Return MiniMalloc's CSV, with the offsets."""
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    banks = ["bank"] * any(block.bank for block in blocks)
    writer.writerow(["id", "lower", "upper", "size", "alignment", "offset", *banks])
    for block, offset in zip(blocks, offsets, strict=True):
        bank = [block.bank] * len(banks)
        writer.writerow([block.id, block.first, block.last + 1, block.size, block.alignment, offset, *bank])
    return text.getvalue()


def to_json(blocks: Sequence[BlockRow], offsets: Sequence[int | None], **facts: Any) -> dict[str, Any]:
    """Return a document of the blocks with their offsets, after the facts; `read_blocks` reads it."""
    rows = [{**block._asdict(), "offset": offset} for block, offset in zip(blocks, offsets, strict=True)]
    return {**facts, "blocks": rows}
