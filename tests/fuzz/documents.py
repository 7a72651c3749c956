"""Hostile documents: structures of JSON or TOML with strange parts, and bytes that are damaged."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

STRANGE: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2, 7, 127, 128, 255, 2**31 - 1, 2**31, 2**53 + 1, 10**15, 10**18, 10**18 + 1),
    *(2**60, 2**62, 2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 2**64, 10**40, 10**4000),
    *(0.5, -0.0, 1e-18, 1e-300, 1e18, 1e300, -1.5, 0.001),
    *("", " ", "a", "nnp-i", "tpu-v4i-streamed", "/dev/zero", "../../etc/passwd", "plan.json", "synthetic:chain"),
    *("synthetic:chain?accelerator=/dev/zero", "roofline", "tiled", "int8", "float32", "serial", "exposed"),
    *("\x1b[2J\x07", "a\nb", "\u202e\u200b", "\ud800", "\0", "x" * 5000, "é" * 300),
    *("%s{0}", "[red]a[/red]", "9" * 5000),
    *([], [[]], {}, {"a": 1}, {"a": {"b": {}}}, [1, 2, 3], [None], ["a"]),
)  # fmt: skip
PIECES = (
    *(b"\x00", b"\xff", b"\xef\xbb\xbf", b"\x1b[2J", b"\n", b"\r", b'"', b"'", b"{", b"}", b"[", b"]", b","),
    *(b":", b"="),
    *(b"1" * 5000, b"0x" + b"f" * 5000, b"[" * 3000, b"{" * 3000, b'{"a":' * 3000, b"NaN", b"Infinity", b"1e999", b"-"),
    *(b"\\ud800", b"\\u0000", b"true", b"null", b"1.0", b"[[a]]\n", b"[a]\n", b"a.b.c", b"." * 1500, b"a." * 400, b"#"),
)  # fmt: skip


def mutated(document: Any, rng: np.random.Generator) -> Any:
    """Return a copy with one to three parts replaced, lost, doubled, moved or changed by a little."""
    document = copy.deepcopy(document)
    for _ in range(rng.integers(1, 4)):
        places = list(_places(document))
        if not places:
            break
        parent, key = places[rng.integers(len(places))]
        _change(parent, key, rng)
    return document


def damaged(content: bytes, rng: np.random.Generator) -> bytes:
    """Return the bytes with one to three pieces flipped, lost, repeated or inserted, or the end cut off."""
    for _ in range(rng.integers(1, 4)):
        at = int(rng.integers(len(content) + 1))
        until = min(len(content), at + int(rng.integers(1, 40)))
        kind = rng.integers(5)
        if kind == 0 and content:
            flipped = content[at - 1] ^ (1 << int(rng.integers(8)))
            content = content[: at - 1] + bytes([flipped]) + content[at:] if at else content
        elif kind == 1:
            content = content[:at] + content[until:]
        elif kind == 2:
            content = content[:at] + content[at:until] * int(rng.integers(2, 50)) + content[until:]
        elif kind == 3:
            content = content[:at] + PIECES[rng.integers(len(PIECES))] + content[at:]
        elif rng.random() < 0.3:
            content = content[:at]
        else:
            content = content[:at] + rng.bytes(int(rng.integers(1, 9))) + content[until:]
    return content


def strange(rng: np.random.Generator) -> Any:
    """Return a value that is seldom right."""
    return copy.deepcopy(STRANGE[rng.integers(len(STRANGE))])


def document_to_toml(document: Mapping[str, Any]) -> str:
    """Return a document of TOML with a line for each key at its top."""
    return "".join(f"{to_toml(key)} = {to_toml(value)}\n" for key, value in document.items())


def to_toml(value: Any) -> str:
    """Return a value as TOML on one line, all tables inline; None, which TOML lacks, is nan."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{to_toml(key)} = {to_toml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(to_toml, value)) + "]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, int) and abs(value) > 10**50:
        return hex(value)  # Python writes no decimals of that many digits
    return "nan" if value is None else repr(value).lower()  # Python's True, inf and 1e-05 are TOML's but for the case


def _change(parent: Any, key: Any, rng: np.random.Generator) -> None:
    value, kind = parent[key], rng.integers(6)
    if kind == 0:
        del parent[key]
    elif kind == 1 and isinstance(parent, list):
        parent[key:key] = [copy.deepcopy(value)] * int(rng.integers(1, 4))
    elif kind == 1:
        name = strange(rng)
        parent[name if isinstance(name, str) else f"{key}x"] = value
    elif kind == 2 and isinstance(parent, list):
        other = int(rng.integers(len(parent)))
        parent[key], parent[other] = parent[other], parent[key]
    elif type(value) in (int, float) and kind < 5:
        parent[key] = value + int(rng.integers(-2, 3)) if rng.random() < 0.6 else -value * 10 ** int(rng.integers(20))
    else:
        parent[key] = strange(rng)


def _places(document: Any) -> Iterator[tuple[Any, Any]]:
    """Return every (container, key) of a document."""
    items = (
        document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    )
    for key, value in items:
        yield document, key
        yield from _places(value)
