"""A StableHLO module as plain records, free of the library that read it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from memplace_env.workload.lowered.values import Value


@dataclass(frozen=True, slots=True)
class Instruction:
    """One operation.

    Attributes:
        name: without its dialect, such as "dot_general".
        inputs: numbers of the values read.
        results: numbers of the values made.
        types: of the results.
        attributes: those that matter here, by name.
        blocks: its regions, each of one block.
    """

    name: str
    inputs: tuple[int, ...]
    results: tuple[int, ...]
    types: tuple[Value, ...]
    attributes: Mapping[str, Any]
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class Block:
    """Straight-line code.

    Attributes:
        arguments: numbers of the values that come in.
        instructions: in the order of the text.
        returned: numbers of the values that go out.
    """

    arguments: tuple[int, ...]
    instructions: tuple[Instruction, ...]
    returned: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Argument:
    """What comes into the main function.

    Attributes:
        name: from the debug information, or made up.
        type: shape and element type.
        donated: the caller gives the memory away.
        becomes: number of the output that takes its place, None if none does.
    """

    name: str
    type: Value
    donated: bool = False
    becomes: int | None = None


@dataclass(frozen=True, slots=True)
class Module:
    """Functions by name, of which "main" is public.

    Attributes:
        functions: bodies by name.
        arguments: of the main function.
    """

    functions: Mapping[str, Block]
    arguments: tuple[Argument, ...] = field(default=())
