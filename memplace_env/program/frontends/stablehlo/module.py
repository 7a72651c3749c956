"""Records of a StableHLO module, independent of the library that reads it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from memplace_env.program.lowering.graph_values import Value


@dataclass(frozen=True, slots=True)
class Instruction:
    """One operation.

    Attributes:
        name: without its dialect, such as "dot_general".
        inputs: numbers of the values read.
        results: numbers of the values written.
        types: types of the results.
        attributes: attributes that the loader uses, by name.
        blocks: its regions, each of one block.
    """

    name: str
    inputs: tuple[int, ...]
    results: tuple[int, ...]
    types: tuple[Value, ...]
    attributes: Mapping[str, Any]
    blocks: tuple[HloBlock, ...]

    @property
    def captured(self) -> set[int]:
        """Numbers of the values around it that its blocks read."""
        return {number for block in self.blocks for number in block.captured}


@dataclass(frozen=True, slots=True)
class HloBlock:
    """Straight-line code.

    Attributes:
        arguments: numbers of the block's arguments.
        instructions: in the order of the text.
        returned: numbers of the values that the block returns.
    """

    arguments: tuple[int, ...]
    instructions: tuple[Instruction, ...]
    returned: tuple[int, ...]

    @property
    def captured(self) -> set[int]:
        """Numbers of the values that it reads and does not make."""
        read, made = set(self.returned), set(self.arguments)
        for instruction in self.instructions:
            read |= {*instruction.inputs, *instruction.captured}
            made.update(instruction.results)
        return read - made

    def live(self) -> list[Instruction]:
        """Return the instructions that the returned values depend on, in order."""
        needed, live = set(self.returned), []
        for instruction in reversed(self.instructions):
            if needed.intersection(instruction.results):
                needed |= {*instruction.inputs, *instruction.captured}
                live.append(instruction)
        return live[::-1]


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument of the main function.

    Attributes:
        name: from the debug information, or generated.
        type: shape and element type.
        donated: whether the results may take its memory.
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
        arguments: arguments of the main function.
    """

    functions: Mapping[str, HloBlock]
    arguments: tuple[Argument, ...] = field(default=())
