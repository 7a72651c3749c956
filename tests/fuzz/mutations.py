"""Damage of files: of their bytes, and of the fields of protocol buffers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from google.protobuf.descriptor import FieldDescriptor

INTEGERS: Final = (
    -(2**63), -(2**62), -(2**31) - 1, -(2**31), -65, -2, -1, 0, 1, 2, 3, 7, 64, 65, 4096, 4097, 10**6,
    2**31 - 1, 2**31, 2**32, 2**40, 2**62, 2**63 - 1,
)  # fmt: skip
FLOATS: Final = (float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1e-45, 3.4e38, -1.0, 0.5, 1e6)
NAMES: Final = (
    "", " ", "/", ".", "a\nb", "\0", "\x1b[2J\x1b[31mred", "\a\a", "\u202eleft", "\u0301" * 50, "\U000e0041",
    "$x^$", "%s%n{0}",
    "</script>", "../../etc/passwd", "ai.onnx", "n" * 300, "long name " * 10_000, "\x1b" * 100_000,
)  # fmt: skip


def pick(rng: np.random.Generator, things: Sequence[Any]) -> Any:
    """Return one of the options."""
    return things[int(rng.integers(len(things)))]


def damaged(data: bytes, rng: np.random.Generator, others: Sequence[bytes] = ()) -> bytes:
    """Return the bytes after one to four changes, which may insert pieces of other files."""
    changed = bytearray(data)
    for _ in range(int(rng.integers(1, 4))):
        place = int(rng.integers(len(changed) + 1))
        length = int(rng.integers(1, 17))
        match pick(rng, ("flip", "flip", "set", "huge", "number", "insert", "delete", "repeat", "splice", "cut")):
            case "flip" if place < len(changed):
                changed[place] ^= 1 << int(rng.integers(8))
            case "set" if place < len(changed):
                changed[place] = int(rng.integers(256))
            case "huge":
                changed[place : place + 4] = pick(rng, (b"\xff\xff\xff\x7f", b"\xff" * 4, b"\0\0\0\x80", b"\0" * 4))
            case "number":
                changed[place : place + length] = str(pick(rng, INTEGERS)).encode()
            case "insert":
                changed[place:place] = rng.bytes(length)
            case "delete":
                del changed[place : place + length]
            case "repeat":
                changed[place:place] = changed[place : place + length] * int(rng.integers(1, 65))
            case "splice" if others:
                other = pick(rng, others)
                start = int(rng.integers(len(other)))
                changed[place : place + length] = other[start : start + int(rng.integers(1, 257))]
            case "cut" if rng.random() < 0.2:
                del changed[place:]
    return bytes(changed)


def change_field(message: Any, rng: np.random.Generator, words: Sequence[str], donor: Any) -> None:
    """Changes one field somewhere in a message of a protocol buffer.

    Args:
        message: is changed.
        rng: decides.
        words: what texts may become, apart from `NAMES`.
        donor: a message of the same type, parts of which may be taken.
    """
    present = [field for field, _ in message.ListFields()]
    field = pick(rng, present if present and rng.random() < 0.93 else message.DESCRIPTOR.fields)
    value = getattr(message, field.name)
    given = getattr(donor, field.name)
    if field.is_repeated:
        inner = field.type == FieldDescriptor.TYPE_MESSAGE and len(value) and rng.random() < 0.85
        if inner:
            change_field(pick(rng, value), rng, words, pick(rng, given) if len(given) else pick(rng, value))
        else:
            _change_list(value, field, rng, words, given)
    elif field.type == FieldDescriptor.TYPE_MESSAGE:
        if rng.random() < 0.95:
            change_field(value, rng, words, given)
        else:
            message.ClearField(field.name)
    else:
        setattr(message, field.name, _scalar(field, rng, words))


def _change_list(
    items: Any, field: FieldDescriptor, rng: np.random.Generator, words: Sequence[str], given: Any
) -> None:
    place = int(rng.integers(len(items) + 1))
    match pick(rng, ("drop", "double", "swap", "take", "new")):
        case "drop" if place < len(items):
            del items[place]
        case "double" if place < len(items):
            items.extend([items[place]] * int(rng.integers(1, 4)))
        case "swap" if len(items) > 1:
            items.insert(place, items.pop(int(rng.integers(len(items)))))
        case "take" if len(given):
            items.insert(place, pick(rng, given))
        case "new" if field.type == FieldDescriptor.TYPE_MESSAGE:
            items.add()
        case _ if field.type != FieldDescriptor.TYPE_MESSAGE:
            value = _scalar(field, rng, words)
            items[place : place + 1] = [value] * (1 if rng.random() < 0.9 else 70)


def _scalar(field: FieldDescriptor, rng: np.random.Generator, words: Sequence[str]) -> Any:
    match field.cpp_type:
        case FieldDescriptor.CPPTYPE_STRING:
            text = pick(rng, words if rng.random() < 0.7 else NAMES)
            if field.type == FieldDescriptor.TYPE_STRING:
                return text
            numbers = [pick(rng, INTEGERS) for _ in range(int(rng.integers(1, 5)))]
            return (
                text.encode() if rng.random() < 0.5 else b"".join(n.to_bytes(8, "little", signed=True) for n in numbers)
            )
        case FieldDescriptor.CPPTYPE_FLOAT | FieldDescriptor.CPPTYPE_DOUBLE:
            return pick(rng, FLOATS)
        case FieldDescriptor.CPPTYPE_ENUM:
            return pick(rng, field.enum_type.values).number
        case FieldDescriptor.CPPTYPE_BOOL:
            return bool(rng.integers(2))
        case FieldDescriptor.CPPTYPE_INT32:
            return min(max(pick(rng, INTEGERS), -(2**31)), 2**31 - 1)
        case FieldDescriptor.CPPTYPE_UINT32 | FieldDescriptor.CPPTYPE_UINT64:
            return abs(pick(rng, INTEGERS)) % 2**32
    return pick(rng, INTEGERS)
