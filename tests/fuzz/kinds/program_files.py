"""Damaged .program files: bytes changed, or numbers and names in them with a hash that fits again."""

from __future__ import annotations

import json
import zlib
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from memplace_env.placement.synthetic import from_spec
from memplace_env.program.program import Program
from tests.fuzz import Wrong, accepted
from tests.fuzz.kinds.onnx_files import check_program
from tests.fuzz.mutations import FLOATS, INTEGERS, NAMES, damaged, pick

NAME = "Program files"
CASES = 8_000
_VALUES = (None, True, [], {}, "", 0.5, -1, 0, 1, 2**30, 2**62, "int8", [[]] * 50)


def prepare(folder: Path) -> list[bytes]:
    """Return the files."""
    files = []
    for spec in ("synthetic:chain?ops=6", "synthetic:diamond?ops=9"):
        path = folder / "seed.program"
        from_spec(spec).save(path)
        files.append(path.read_bytes())
    return files


def case(prepared: Any, rng: np.random.Generator, folder: Path) -> bool:
    """Load one damaged file; an accepted one must be equal after saving and loading."""
    data = pick(rng, prepared)
    data = damaged(data, rng, prepared) if rng.random() < 0.25 else _resigned(data, rng)
    path = folder / "model.program"
    path.write_bytes(data)
    program = Program.load(path)
    check_program(program)
    with accepted():
        program.save(path)
        again = Program.load(path)
    if (again.sha256, again.op_name, again.tensor_name) != (program.sha256, program.op_name, program.tensor_name):
        raise Wrong("it is another one when it is loaded again")
    return True


def _resigned(data: bytes, rng: np.random.Generator) -> bytes:
    """Return the file with its header, its arrays or its names changed, and the hash of that."""
    first, _, body = data.partition(b"\n")
    line, _, packed = body.partition(b"\n")
    content = bytearray(zlib.decompress(packed))
    header = json.loads(line)
    names = json.loads(content[-header["text"] :])
    arrays = content[: -header["text"]]
    match pick(rng, ("header", "arrays", "arrays", "names", "names", "stream", "text")):
        case "header":
            header[pick(rng, [*header, "more"])] = pick(rng, (*_VALUES, *NAMES, *FLOATS))
        case "arrays":
            for _ in range(int(rng.integers(1, 4))):
                place = 8 * int(rng.integers(len(arrays) // 8))
                number = pick(rng, INTEGERS) if rng.random() < 0.5 else int(rng.integers(-2, 12))
                arrays[place : place + 8] = number.to_bytes(8, "little", signed=True)
        case "names":
            part = pick(rng, list(names))
            names[part][int(rng.integers(len(names[part])))] = pick(rng, NAMES if rng.random() < 0.8 else _VALUES)
        case "stream":
            packed = damaged(packed, rng)
        case "text":
            line = damaged(line, rng)
            return _signed(first, line, packed)
    text = json.dumps(names).encode()
    header |= {"text": len(text)} if rng.random() < 0.95 else {}
    body = zlib.compress(bytes(arrays) + text)
    return _signed(first, json.dumps(header).encode(), packed if rng.random() < 0.05 else body)


def _signed(first: bytes, line: bytes, packed: bytes) -> bytes:
    body = line + b"\n" + packed
    return first[: -len(sha256().hexdigest())] + sha256(body).hexdigest().encode() + b"\n" + body
