"""Files of policies and checkpoints: safe to load from any source, and written whole or not at all.

They are safetensors (https://huggingface.co/docs/safetensors): the length of a header, the header as JSON, and numbers.
Nothing in them can run or unfold: reading one takes about twice its size. Plain values are JSON in the header, and a
checksum detects damage.
"""

from __future__ import annotations

import json
from hashlib import sha256
from math import prod
from pathlib import Path
from typing import Any, Final, NoReturn

import numpy as np
import torch
from numpy.typing import NDArray

from memplace_agents.built_in_agents import POLICY_BYTES
from memplace_env._lib.errors import AgentError
from memplace_env._lib.files import write_atomically
from memplace_env._lib.foreign import parse_json, read

_HEADERS: Final = 256
"""A header takes at most 1 / 256 of the largest file, as parsed JSON takes many times its size."""

_FORMAT: Final = "memplace"
_ARCHIVE: Final = b"PK\x03\x04"
"""First bytes of torch's own files; as the length of a header they are beyond the limit."""
_BLANK: Final = "0" * 64
"""Placeholder of the checksum while it is computed."""
_TYPES: Final[dict[str, Any]] = {
    **{"F64": np.float64, "F32": np.float32, "F16": np.float16},
    **{"I64": np.int64, "I8": np.int8, "U8": np.uint8, "BOOL": np.bool_},
}
_NAMES: Final = {np.dtype(kind): name for name, kind in _TYPES.items()}
_TENSOR: Final = "tensor"
"""Only key of the JSON object that stands for a tensor; its value is the tensor's name."""


def save(path: Path, kind: str, content: dict[str, Any]) -> None:
    """Write tensors, plain values, lists and dicts; `kind` names the content, such as "graph-policy/3"."""
    write_atomically(path, encoded(kind, content))


def encoded(kind: str, content: dict[str, Any]) -> bytes:
    """Return the bytes that `save` writes."""
    arrays: dict[str, NDArray[Any]] = {}
    text = json.dumps(_without_tensors(content, "", arrays), allow_nan=False)
    header: dict[str, Any] = {
        "__metadata__": {"format": _FORMAT, "sha256": _BLANK, "kind": kind, "content": text},
    }
    end = 0
    ordered = sorted(arrays, key=lambda name: -arrays[name].itemsize)  # widest first keeps every offset aligned
    for name in ordered:
        begin, end = end, end + arrays[name].nbytes
        header[name] = {
            "dtype": _NAMES[arrays[name].dtype],
            "shape": list(arrays[name].shape),
            "data_offsets": [begin, end],
        }
    raw = json.dumps(header, separators=(",", ":")).encode()
    raw += b" " * (-len(raw) % 8)  # the body begins at a multiple of 8 bytes
    head, body = len(raw).to_bytes(8, "little") + raw, b"".join(arrays[name].tobytes() for name in ordered)
    return head.replace(_BLANK.encode(), _checksum(head, memoryview(body)), 1) + body


def load(path: Path, kind: str, most: int = POLICY_BYTES) -> dict[str, Any]:
    """Return the content of a file that `save` wrote.

    Args:
        path: the file.
        kind: the kind that it must be of.
        most: largest file that is read, in bytes.

    Raises:
        AgentError: if the file is missing, no regular file, too large, damaged or of another kind.
    """
    try:
        raw = read(path, most)
    except FileNotFoundError:
        raise AgentError(f"There is no file {path}; pass one that 'memplace train' wrote.") from None
    except OSError as error:
        raise AgentError(f"Cannot read {path}: {error.strerror}; pass a file that 'memplace train' wrote.") from None
    if raw.startswith(_ARCHIVE):
        raise AgentError(f"{path} is a file of torch or of an older memplace, which are not read; train it anew.")
    size = int.from_bytes(raw[:8], "little")
    if len(raw) < 8 or size > min(len(raw) - 8, most // _HEADERS):
        _refuse(path)
    try:
        header = parse_json(raw[8 : 8 + size])
    except ValueError:
        _refuse(path)
    metadata: Any = header.pop("__metadata__", None) if isinstance(header, dict) else None
    texts = isinstance(metadata, dict) and all(isinstance(value, str) for value in metadata.values())
    if not texts or metadata.get("format") != _FORMAT:
        raise AgentError(f"{path} is not a file of memplace; pass one that 'memplace train' wrote.")
    if metadata.get("kind") != kind:
        raise AgentError(f"{path} holds {metadata.get('kind')!r}, where {kind!r} is needed.")
    try:
        body = _checked(raw[: 8 + size], memoryview(raw)[8 + size :], metadata["sha256"].encode())
        content = _with_tensors(parse_json(metadata["content"]), _tensors(header, body))
    except (KeyError, OverflowError, RecursionError, TypeError, ValueError):
        _refuse(path)
    if not isinstance(content, dict):
        _refuse(path)
    return content


def _refuse(path: Path) -> NoReturn:
    raise AgentError(f"{path} is damaged or not a file of memplace; pass one that 'memplace train' wrote.") from None


def _checked(head: bytes, body: memoryview, checksum: bytes) -> memoryview:
    """Return the body if the checksum is that of the file.

    Raises:
        ValueError: if it is not.
    """
    blank = _BLANK.encode()
    if len(checksum) != len(blank) or _checksum(head.replace(checksum, blank, 1), body) != checksum:
        raise ValueError("another checksum")
    return body


def _checksum(head: bytes, body: memoryview) -> bytes:
    digest = sha256(head)
    digest.update(body)
    return digest.hexdigest().encode()


def _tensors(header: dict[str, Any], body: memoryview) -> dict[str, torch.Tensor]:
    """Return the tensors of a header, which must lie one after the other and fill the body.

    Raises:
        KeyError, TypeError, ValueError: if they do not, or the header is damaged.
    """
    tensors: dict[str, torch.Tensor] = {}
    end = 0
    for name, entry in header.items():
        dtype, shape, (begin, next_end) = np.dtype(_TYPES[entry["dtype"]]), entry["shape"], entry["data_offsets"]
        if len(shape) > 8 or not all(type(size) is int and 0 <= size < 2**31 for size in shape):
            raise ValueError("a shape is not up to 8 whole numbers below 2**31")
        if begin != end or next_end != begin + prod(shape) * dtype.itemsize or next_end > len(body):
            raise ValueError("a tensor is not where it should be")
        part, end = body[begin:next_end], next_end
        if dtype == np.bool_ and np.frombuffer(part, np.uint8).max(initial=0) > 1:
            raise ValueError("a boolean tensor has a byte other than 0 and 1")
        tensors[name] = torch.from_numpy(np.frombuffer(part, dtype).reshape(shape).copy())
    if end != len(body):
        raise ValueError("there is trailing data after the last tensor")
    return tensors


def _without_tensors(value: Any, path: str, arrays: dict[str, NDArray[Any]]) -> Any:
    """Return the value with each tensor replaced by its name; the tensors are put into `arrays`."""
    if isinstance(value, torch.Tensor):
        arrays[path] = value.detach().numpy()
        return {_TENSOR: path}
    if isinstance(value, dict):
        return {key: _without_tensors(part, f"{path}/{key}" if path else key, arrays) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_without_tensors(part, f"{path}/{index}", arrays) for index, part in enumerate(value)]
    return value


def _with_tensors(value: Any, tensors: dict[str, torch.Tensor]) -> Any:
    """Undo `_without_tensors`; each tensor may be taken once, so that no two share memory."""
    if isinstance(value, dict):
        if value.keys() == {_TENSOR}:
            return tensors.pop(value[_TENSOR])
        return {key: _with_tensors(part, tensors) for key, part in value.items()}
    return [_with_tensors(part, tensors) for part in value] if isinstance(value, list) else value
