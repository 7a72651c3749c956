"""Files of learned things: safe to load from strangers, whole or not there at all."""

from __future__ import annotations

import io
import warnings
from pathlib import Path
from typing import Any

import torch

from memplace_env.errors import AgentError
from memplace_env.files import write_atomically

_FORMAT = "memplace"


def save(path: Path, kind: str, content: dict[str, Any]) -> None:
    """Write tensors and plain values; `kind` says what the file is, such as "graph-policy/1"."""
    buffer = io.BytesIO()
    torch.save({"format": _FORMAT, "kind": kind, "content": content}, buffer)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, buffer.getvalue())


def load(path: Path, kind: str) -> dict[str, Any]:
    """What `save` wrote. No code in the file is run (torch's `weights_only`).

    Raises:
        AgentError: if there is no such file, it is damaged, or it is something else.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of torch, about formats that are not its own
            data = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError as error:
        raise AgentError(f"There is no file {path}; pass one that 'memplace train' wrote.") from error
    except Exception as error:  # whatever reading a broken pickle step by step may raise
        raise AgentError(f"{path} is damaged or no file of memplace; pass one that 'memplace train' wrote.") from error
    if not isinstance(data, dict) or data.get("format") != _FORMAT or not isinstance(data.get("content"), dict):
        raise AgentError(f"{path} is no file of memplace; pass one that 'memplace train' wrote.")
    if data.get("kind") != kind:
        raise AgentError(f"{path} holds {data.get('kind')!r}, where {kind!r} is needed.")
    content: dict[str, Any] = data["content"]
    return content
