"""From functions, loops and branches to straight-line code."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from memplace_env.errors import WorkloadError
from memplace_env.workload.lowered.values import MAX_KNOWN_ELEMENTS, Shape, Value
from memplace_env.workload.names import stem
from memplace_env.workload.stablehlo.folding import folded
from memplace_env.workload.stablehlo.module import Block, Instruction, Module

MAX_STEPS: Final = 200_000
"""More instructions than this, folded ones and those of all rounds of loops counted, are not unrolled."""

_MOST_PIECES: Final = 512
"""A tensor is put together after so many slices, so that long loops take no quadratic time."""

_SAME_VALUE: Final = frozenset(
    {"optimization_barrier", "shard_map_barrier", "after_all", "create_token", "sharding_constraint", "reshard"}
)
_SAME_VALUE_CALLS: Final = frozenset(
    {"Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape", "LayoutConstraint", "xla.sdy.FuncResultSharding"}
)
_RANDOM: Final = frozenset({"rng", "rng_bit_generator"})


@dataclass(frozen=True, slots=True)
class Node:
    """One instruction of the straight-line code.

    Attributes:
        name: of the instruction.
        inputs: names of the values read.
        outputs: names of the values made.
        attributes: of the instruction.
        body: what its region does to two elements, in order.
    """

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]
    body: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Trace:
    """Straight-line code without dead nodes.

    Attributes:
        nodes: in execution order.
        values: by name; constant ones cost nothing, literals of many elements are not among those.
        arguments: names of the main function's arguments.
        literals: names of constants of many different elements.
        outputs: names of what the main function returns.
    """

    nodes: tuple[Node, ...]
    values: Mapping[str, Value]
    arguments: tuple[str, ...]
    literals: frozenset[str]
    outputs: tuple[str, ...]


Work = Callable[[Node, Mapping[str, Value]], int]


def trace(module: Module, work: Work, trips: int | None = None) -> Trace:
    """The straight-line code of a module.

    Args:
        module: what was read.
        work: how much a node does; of several branches the one that does most is taken.
        trips: how often loops run of which the code does not say it.

    Raises:
        WorkloadError: a loop that runs as often as its data says, recursion, or code that is too long unrolled.
    """
    tracer = _Tracer(module, work, trips)
    arguments = [tracer.enter(argument.name, argument.type) for argument in module.arguments]
    outputs = tracer.run(module.functions["main"], arguments, {})
    outputs = [tracer.whole(name) for name in outputs]
    needed, nodes = set(outputs), []
    for node in reversed(tracer.nodes):
        if needed.intersection(node.outputs):
            needed.update(node.inputs)
            nodes.append(node)
    nodes.reverse()
    return Trace(tuple(nodes), tracer.values, tuple(arguments), frozenset(tracer.literals), tuple(outputs))


@dataclass(frozen=True, slots=True)
class _Stack:
    """A tensor that is written slice by slice, as loops write their results.

    Attributes:
        base: the tensor beneath.
        pieces: by where they start, values that lie in it apart from each other, all of one shape.
        shape: of the pieces.
    """

    base: str
    pieces: Mapping[Shape, str]
    shape: Shape


class _Tracer:
    def __init__(self, module: Module, work: Work, trips: int | None) -> None:
        self.values: dict[str, Value] = {}
        self.nodes: list[Node] = []
        self.literals: set[str] = set()
        self._module = module
        self._work = work
        self._trips = trips
        self._stacks: dict[str, _Stack] = {}
        self._unmade: set[str] = set()
        self._calls: list[str] = []
        self._steps = 0

    def enter(self, wanted: str, value: Value) -> str:
        """A new value, under a name like `wanted`."""
        name = stem(wanted)
        number = len(self.values)
        while name in self.values:
            name, number = f"{stem(wanted)}_{number}", number + 1
        self.values[name] = value
        return name

    def run(self, block: Block, inputs: Sequence[str], scope: Mapping[int, str]) -> list[str]:
        """Traces a block; names of what it returns."""
        names = dict(scope)
        names.update(zip(block.arguments, inputs, strict=True))
        for instruction in block.instructions:
            self._steps += 1
            if self._steps > MAX_STEPS:
                raise WorkloadError(
                    f"The module takes over {MAX_STEPS} steps when its loops are unrolled; shorten them."
                )
            results = self._instruction(instruction, [names[number] for number in instruction.inputs], names)
            names.update(zip(instruction.results, results, strict=True))
        return [names[number] for number in block.returned]

    def _instruction(self, instruction: Instruction, inputs: list[str], scope: Mapping[int, str]) -> list[str]:
        known = folded(instruction, [self.values[name].data for name in inputs])
        if known is not None:
            value = replace(instruction.types[0], constant=True, data=known)
            return [self.enter(instruction.name, value)]
        name = instruction.name
        if name in ("call", "composite"):
            return self._call(
                str(instruction.attributes.get("callee", instruction.attributes.get("decomposition"))), inputs
            )
        if name == "while":
            return self._while(instruction, inputs, scope)
        if name in ("case", "if"):
            return self._branches(instruction, inputs, scope)
        same = name == "custom_call" and instruction.attributes.get("call_target_name") in _SAME_VALUE_CALLS
        if (name in _SAME_VALUE or same) and len(inputs) == len(instruction.results):
            return inputs
        if name == "dynamic_update_slice" and (stacked := self._stacked(instruction, inputs)):
            return [stacked]
        if name in ("dynamic_slice", "slice") and (piece := self._piece(instruction, inputs)):
            return [piece]
        return self._node(instruction, [self.whole(each) for each in inputs])

    def _node(self, instruction: Instruction, inputs: list[str]) -> list[str]:
        constant = all(self.values[name].constant for name in inputs) and instruction.name not in _RANDOM
        outputs = [self.enter(instruction.name, replace(each, constant=constant)) for each in instruction.types]
        if instruction.name == "constant":
            many = instruction.types[0].elements > MAX_KNOWN_ELEMENTS
            if many and not instruction.attributes.get("value", (False, None))[0]:
                self.literals.add(outputs[0])
                self.values[outputs[0]] = instruction.types[0]
        elif not constant:
            body = tuple(each.name for block in instruction.blocks for each in block.instructions)
            self.nodes.append(Node(instruction.name, tuple(inputs), tuple(outputs), instruction.attributes, body))
        return outputs

    def _call(self, callee: str, inputs: list[str]) -> list[str]:
        if callee not in self._module.functions:
            raise WorkloadError(f"The module calls {callee!r}, which is no function of it.")
        if callee in self._calls:
            raise WorkloadError(f"Function {callee!r} calls itself, which is not supported.")
        self._calls.append(callee)
        results = self.run(self._module.functions[callee], inputs, {})
        self._calls.pop()
        return results

    def _while(self, instruction: Instruction, inputs: list[str], scope: Mapping[int, str]) -> list[str]:
        condition, body = instruction.blocks
        state, rounds = inputs, 0
        while True:
            (goes_on,) = (self.values[name].data for name in self.run(condition, state, scope))
            if goes_on is None and self._trips is None:
                raise WorkloadError(
                    f"A loop over {len(state)} values runs as often as its data says; pass trips=, how often it does."
                )
            if not (rounds < (self._trips or 0) if goes_on is None else bool(goes_on)):
                return state
            state, rounds = self.run(body, state, scope), rounds + 1

    def _branches(self, instruction: Instruction, inputs: list[str], scope: Mapping[int, str]) -> list[str]:
        """The branch that is known to run, else the one that does most."""
        blocks, index = instruction.blocks, self.values[inputs[0]].data
        if index is not None:
            chosen = int(index.reshape(-1)[0])
            if instruction.name == "if":
                chosen = 0 if chosen else 1
            return self.run(blocks[chosen if 0 <= chosen < len(blocks) else -1], [], scope)
        before, best = self.nodes, None
        for block in blocks:
            self.nodes = []
            stacks, unmade = dict(self._stacks), set(self._unmade)
            results = [self.whole(name) for name in self.run(block, [], scope)]
            work = sum(self._work(node, self.values) for node in self.nodes)
            if best is None or work > best[0]:
                best = work, self.nodes, results
            self._stacks, self._unmade = stacks, unmade
        if best is None:
            raise WorkloadError(f"A {instruction.name} has no branches; the module is damaged.")
        self.nodes = before + best[1]
        return best[2]

    def whole(self, name: str) -> str:
        """The value as one tensor, put together if it was written slice by slice."""
        if name in self._unmade:
            self._unmade.discard(name)
            stack, value = self._stacks[name], self.values[name]
            piece = Value(stack.shape, value.element_type).elements
            covered = piece * len(stack.pieces) >= value.elements
            base = () if covered else (self.whole(stack.base),)
            inputs = (*base, *(self.whole(each) for each in stack.pieces.values()))
            self.nodes.append(Node("concatenate", inputs, (name,), {}))
        return name

    def _starts(self, names: Sequence[str], operand: str, sizes: Shape) -> Shape | None:
        """Where a slice begins, kept inside as StableHLO does; None if that is not known."""
        known = [self.values[name].data for name in names]
        rooms = [dim - size for dim, size in zip(self.values[operand].shape, sizes, strict=True)]
        if any(start is None for start in known):
            return None
        return tuple(
            max(0, min(int(start), room)) for start, room in zip(known, rooms, strict=True) if start is not None
        )

    def _stacked(self, instruction: Instruction, inputs: list[str]) -> str | None:
        """A tensor with one more slice written, if it lies on or apart from those before."""
        operand, update, *indices = inputs
        shape = self.values[update].shape
        starts = self._starts(indices, operand, shape)
        if starts is None or self.values[operand].elements == 0:
            return None
        stack = self._stacks.get(operand, _Stack(operand, {}, shape))
        crowded = len(stack.pieces) >= _MOST_PIECES and starts not in stack.pieces
        if stack.shape != shape or crowded or any(_overlap(starts, at, shape) for at in stack.pieces if starts != at):
            stack = _Stack(self.whole(operand), {}, shape)
        constant = self.values[operand].constant and self.values[update].constant
        name = self.enter(instruction.name, replace(instruction.types[0], constant=constant))
        self._stacks[name] = replace(stack, pieces={**stack.pieces, starts: update})
        if not constant:
            self._unmade.add(name)
        return name

    def _piece(self, instruction: Instruction, inputs: list[str]) -> str | None:
        """The slice that was written where one is read; None if none was exactly there."""
        operand, *indices = inputs
        stack, shape = self._stacks.get(operand), instruction.types[0].shape
        if stack is None or stack.shape != shape:
            return None
        if instruction.name == "slice":
            starts: Shape | None = tuple(instruction.attributes.get("start_indices", ()))
        else:
            starts = self._starts(indices, operand, shape)
        return None if starts is None else stack.pieces.get(starts)


def _overlap(a: Shape, b: Shape, shape: Shape) -> bool:
    return all(abs(x - y) < size for x, y, size in zip(a, b, shape, strict=True))
