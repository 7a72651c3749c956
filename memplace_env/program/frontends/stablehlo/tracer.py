"""Tracing of a module with functions, loops and branches to straight-line code; integer constants are folded."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Final

import numpy as np

from memplace_env._lib.errors import WorkloadError
from memplace_env.program.frontends.stablehlo.module import HloBlock, Instruction, Module
from memplace_env.program.lowering.graph_values import INTEGER_BITS, MAX_KNOWN_ELEMENTS, Array, Shape, Value, type_name
from memplace_env.program.model_file import stem

MAX_STEPS: Final = 200_000
"""Most instructions after unrolling, folded ones included; our choice."""

_MOST_PIECES: Final = 512
"""Most slices of a tensor that are tracked, so that long loops take no quadratic time; our choice."""

_SAME_VALUE: Final = frozenset(
    {"optimization_barrier", "shard_map_barrier", "after_all", "create_token", "sharding_constraint", "reshard"}
)
_SAME_VALUE_CALLS: Final = frozenset(
    {"Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape", "LayoutConstraint", "xla.sdy.FuncResultSharding"}
)
"""Targets of a custom_call that return their operands, as the instructions of `_SAME_VALUE` do."""

_RANDOM: Final = frozenset({"rng", "rng_bit_generator"})


@dataclass(frozen=True, slots=True)
class TraceNode:
    """One instruction of the straight-line code.

    Attributes:
        name: name of the instruction.
        inputs: names of the values read.
        outputs: names of the values written; none for a node that decides what runs.
        attributes: attributes of the instruction.
        body: names of the instructions in its regions, in order.
        captured: names of values that are computed although it may not read them.
    """

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]
    body: tuple[str, ...] = ()
    captured: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Trace:
    """Straight-line code without dead nodes.

    Attributes:
        nodes: in execution order.
        values: by name; constant ones cost nothing, and `literals` are not marked as constant.
        arguments: names of the main function's arguments.
        literals: names of constants of more than `MAX_KNOWN_ELEMENTS` elements that are not all equal.
        outputs: names of the main function's results.
        choices: for each condition that the data decide its branches, first the one with most work, which is taken.
    """

    nodes: tuple[TraceNode, ...]
    values: Mapping[str, Value]
    arguments: tuple[str, ...]
    literals: frozenset[str]
    outputs: tuple[str, ...]
    choices: tuple[Mapping[str, Trace], ...] = ()


Work = Callable[[TraceNode, Mapping[str, Value]], int]


def trace(module: Module, work: Work, trips: int | None = None) -> Trace:
    """Return the straight-line code of a module.

    Args:
        module: the module with its functions.
        work: the amount of work of a node; of several possible branches the one with most work is taken.
        trips: number of rounds of loops for which the code does not determine it.

    Raises:
        WorkloadError: the data determine the rounds of a loop, there is recursion, or the unrolled code is too long.
    """
    tracer = _Tracer(module, work, trips)
    arguments = [tracer.enter(argument.name, argument.type) for argument in module.arguments]
    outputs = tracer.run(module.functions["main"], arguments, {})
    outputs = [tracer.whole(name) for name in outputs]
    nodes, _ = _live(tracer.nodes, outputs)
    literals = frozenset(tracer.literals)
    return Trace(nodes, tracer.values, tuple(arguments), literals, tuple(outputs), tuple(tracer.choices))


def _live(nodes: Sequence[TraceNode], outputs: Sequence[str]) -> tuple[tuple[TraceNode, ...], set[str]]:
    """Return the nodes that values depend on, with those that decide, and the names of all that they need."""
    needed, live = set(outputs), []
    for node in reversed(nodes):
        if not node.outputs or needed.intersection(node.outputs):
            needed.update(node.inputs, node.captured)
            live.append(node)
    return tuple(reversed(live)), needed


@dataclass(frozen=True, slots=True)
class _Stack:
    """A tensor that is written slice by slice, as loops write their results.

    Attributes:
        base: the tensor before the slices were written.
        pieces: by start indices the values of the slices, all of one shape and without overlap.
        shape: shape of the pieces.
    """

    base: str
    pieces: Mapping[Shape, str]
    shape: Shape


class _Tracer:
    def __init__(self, module: Module, work: Work, trips: int | None) -> None:
        self.values: dict[str, Value] = {}
        self.nodes: list[TraceNode] = []
        self.literals: set[str] = set()
        self._module = module
        self._work = work
        self._trips = trips
        self._stacks: dict[str, _Stack] = {}
        self._unmade: set[str] = set()
        self._calls: list[str] = []
        self._steps = 0
        self.choices: list[Mapping[str, Trace]] = []
        self._live_instructions: dict[int, list[Instruction]] = {}

    def enter(self, wanted: str, value: Value) -> str:
        """Add a value and return its name: `wanted`, or that with a number."""
        name = stem(wanted)
        number = len(self.values)
        while name in self.values:
            name, number = f"{stem(wanted)}_{number}", number + 1
        self.values[name] = value
        return name

    def run(self, block: HloBlock, inputs: Sequence[str], scope: Mapping[int, str]) -> list[str]:
        """Trace a block with the names of its inputs and of the values around it; return the names of its results."""
        names = dict(scope)
        names.update(zip(block.arguments, inputs, strict=True))
        if id(block) not in self._live_instructions:
            self._live_instructions[id(block)] = block.live()
        for instruction in self._live_instructions[id(block)]:
            self._steps += 1
            if self._steps > MAX_STEPS:
                raise WorkloadError(
                    f"The module takes over {MAX_STEPS} steps when its loops are unrolled; shorten them."
                )
            results = self._instruction(instruction, [names[number] for number in instruction.inputs], names)
            names.update(zip(instruction.results, results, strict=True))
        return [names[number] for number in block.returned]

    def _instruction(self, instruction: Instruction, inputs: list[str], scope: Mapping[int, str]) -> list[str]:
        contents = folded(instruction, [self.values[name].data for name in inputs])
        if contents is not None:
            value = replace(instruction.types[0], constant=True, data=contents)
            return [self.enter(instruction.name, value)]
        name, attributes = instruction.name, instruction.attributes
        if name in ("call", "composite"):
            return self._call(str(attributes.get("callee", attributes.get("decomposition"))), inputs)
        if name == "while":
            return self._while(instruction, inputs, scope)
        if name in ("case", "if"):
            return self._branches(instruction, inputs, scope)
        same = name == "custom_call" and attributes.get("call_target_name") in _SAME_VALUE_CALLS
        if (name in _SAME_VALUE or same) and len(inputs) == len(instruction.results):
            return inputs
        if name == "dynamic_update_slice" and (stacked := self._stacked(instruction, inputs)):
            return [stacked]
        if name in ("dynamic_slice", "slice") and (piece := self._piece(instruction, inputs)):
            return [piece]
        return self._node(instruction, list(map(self.whole, inputs)))

    def _node(self, instruction: Instruction, inputs: list[str]) -> list[str]:
        constant = all(self.values[name].constant for name in inputs) and instruction.name not in _RANDOM
        outputs = [self.enter(instruction.name, replace(value, constant=constant)) for value in instruction.types]
        if instruction.name == "constant":
            many = instruction.types[0].elements > MAX_KNOWN_ELEMENTS
            if many and not instruction.attributes.get("value", (False, None))[0]:
                self.literals.add(outputs[0])
                self.values[outputs[0]] = instruction.types[0]
        elif not constant:
            body = tuple(inner.name for block in instruction.blocks for inner in block.instructions)
            self.nodes.append(TraceNode(instruction.name, tuple(inputs), tuple(outputs), instruction.attributes, body))
        return outputs

    def _call(self, callee: str, inputs: list[str]) -> list[str]:
        if callee not in self._module.functions:
            raise WorkloadError(f"The module calls {callee!r}, which is not one of its functions.")
        if callee in self._calls:
            raise WorkloadError(f"Function {callee!r} calls itself, which is not supported.")
        self._calls.append(callee)
        results = self.run(self._module.functions[callee], inputs, {})
        self._calls.pop()
        return results

    def _while(self, instruction: Instruction, inputs: list[str], scope: Mapping[int, str]) -> list[str]:
        condition, body = instruction.blocks
        state, rounds, decided = inputs, 0, False
        while True:
            (name,) = self.run(condition, state, scope)
            goes_on = self.values[name].data
            decided |= self._decide(instruction, name, () if rounds else [*inputs, *_captured(instruction, scope)])
            if goes_on is None and self._trips is None:
                raise WorkloadError(
                    f"The data determine how often a loop over {len(state)} values runs; pass its number of rounds as "
                    "trips= (--trips)."
                )
            if not (rounds < (self._trips or 0) if goes_on is None else bool(goes_on)):
                return list(map(self._unsettled, state)) if decided else state
            state, rounds = self.run(body, state, scope), rounds + 1

    def _branches(self, instruction: Instruction, inputs: list[str], scope: Mapping[int, str]) -> list[str]:
        """Trace the branch that is known to run, else that with most work; return the names of its results."""
        blocks, index = instruction.blocks, self.values[inputs[0]].data
        if index is not None:
            chosen = int(index.reshape(-1)[0])
            if instruction.name == "if":
                chosen = 0 if chosen else 1
            return self.run(blocks[chosen if 0 <= chosen < len(blocks) else -1], [], scope)
        if not blocks:
            raise WorkloadError(f"A {instruction.name} has no branches; the module is damaged.")
        decided = self._decide(instruction, inputs[0], _captured(instruction, scope))
        # Each branch is traced from the same state, into a list of its own; only the nodes of the best one stay.
        before, chosen_before, tried = self.nodes, len(self.choices), []
        for number, block in enumerate(blocks):
            self.nodes = []
            stacks, unmade = dict(self._stacks), set(self._unmade)
            results = [self.whole(name) for name in self.run(block, [], scope)]
            work = sum(self._work(node, self.values) for node in self.nodes)
            inner = self.choices[chosen_before:]
            del self.choices[chosen_before:]
            tried.append((-work, number, self.nodes, results, inner))
            self._stacks, self._unmade = stacks, unmade
        tried.sort(key=lambda branch: branch[:2])
        _, _, nodes, results, inner = tried[0]
        self.nodes = before + nodes
        traces = {f"branch {number}": self._alone(nodes, results) for _, number, nodes, results, _ in tried}
        self.choices += [*inner, traces]
        return list(map(self._unsettled, results)) if decided else results

    def _alone(self, nodes: Sequence[TraceNode], results: Sequence[str]) -> Trace:
        """Return a branch as code of its own, whose arguments are the values that it captures."""
        live, needed = _live(nodes, results)
        made = {name for node in live for name in node.outputs} | self.literals
        arguments = (name for name in sorted(needed - made) if not self.values[name].constant)
        return Trace(live, self.values, tuple(arguments), frozenset(self.literals), tuple(results))

    def _decide(self, instruction: Instruction, name: str, captured: Sequence[str]) -> bool:
        """Add the node that reads a condition, and return whether that is no constant.

        What the instruction captures is computed whatever is decided.
        """
        if self.values[name].constant:
            return False
        parts = chain.from_iterable(map(self._parts, captured))
        self.nodes.append(TraceNode(instruction.name, (self.whole(name),), (), {}, captured=tuple(parts)))
        return True

    def _parts(self, name: str) -> list[str]:
        """Return the slices of a tensor that are still apart, and what they were written to; else the tensor."""
        if name not in self._unmade:
            return [name]
        stack = self._stacks[name]
        return [part for inner in (stack.base, *stack.pieces.values()) for part in self._parts(inner)]

    def _unsettled(self, name: str) -> str:
        """Return a result that is no constant, as the data decide over it; known integers stay, such as counters."""
        value = self.values[name]
        if not value.constant or value.data is not None:
            return name
        copy = self.enter(name, replace(value, constant=False))
        self.nodes.append(TraceNode("broadcast_in_dim", (name,), (copy,), {}))
        return copy

    def whole(self, name: str) -> str:
        """Return a value as one tensor, after adding the node that concatenates its slices if it has some."""
        if name in self._unmade:
            self._unmade.discard(name)
            stack, value = self._stacks[name], self.values[name]
            piece = Value(stack.shape, value.element_type).elements
            # Slices do not overlap, so by their number they cover the tensor or leave a part of the base visible.
            covered = piece * len(stack.pieces) >= value.elements
            base = () if covered else (self.whole(stack.base),)
            inputs = (*base, *map(self.whole, stack.pieces.values()))
            self.nodes.append(TraceNode("concatenate", inputs, (name,), {}))
        return name

    def _starts(self, names: Sequence[str], operand: str, sizes: Shape) -> Shape | None:
        """Return the start indices of a slice, moved inside the operand as in StableHLO; None if they are unknown."""
        starts = [self.values[name].data for name in names]
        largest = [dim - size for dim, size in zip(self.values[operand].shape, sizes, strict=True)]
        if any(start is None for start in starts):
            return None
        return tuple(
            max(0, min(int(start), most)) for start, most in zip(starts, largest, strict=True) if start is not None
        )

    def _stacked(self, instruction: Instruction, inputs: list[str]) -> str | None:
        """Return a tensor with one more slice, None if start or elements are unknown; overlapping slices start anew."""
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
        """Return the written slice at the position of one that is read, None if none is exactly there."""
        operand, *indices = inputs
        stack, shape = self._stacks.get(operand), instruction.types[0].shape
        if stack is None or stack.shape != shape:
            return None
        if instruction.name == "slice":
            starts: Shape | None = tuple(instruction.attributes.get("start_indices", ()))
        else:
            starts = self._starts(indices, operand, shape)
        return None if starts is None else stack.pieces.get(starts)


def _captured(instruction: Instruction, scope: Mapping[int, str]) -> list[str]:
    return [scope[number] for number in sorted(instruction.captured) if number in scope]


def _overlap(a: Shape, b: Shape, shape: Shape) -> bool:
    return all(abs(x - y) < size for x, y, size in zip(a, b, shape, strict=True))


_COMPARISONS: Final[Mapping[str, Callable[..., Any]]] = {
    "EQ": np.equal,
    "NE": np.not_equal,
    "LT": np.less,
    "LE": np.less_equal,
    "GT": np.greater,
    "GE": np.greater_equal,
}

_FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "negate": np.negative,
    "abs": np.abs,
    "sign": np.sign,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "not": np.invert,
    "select": lambda choice, left, right: np.where(choice, left, right),
    "clamp": lambda low, value, high: np.minimum(np.maximum(value, low), high),
    "reshape": np.array,
    "convert": np.array,
    "divide": lambda left, right: np.trunc(np.divide(left, right)),
    "remainder": np.fmod,
}

_BYTES: Final = {"int2": "int8", "uint2": "uint8", "int4": "int8", "uint4": "uint8"}
"""NumPy types for those that it lacks."""


def folded(instruction: Instruction, operands: Sequence[Array | None]) -> Array | None:
    """Return the result of an instruction whose operands are known integers, None if it is unknown."""
    result = instruction.types[0] if len(instruction.types) == 1 else None
    if result is None or not (result.element_type in INTEGER_BITS or type_name(result.element_type) == "BOOL"):
        return None
    if instruction.name == "constant":
        contents = instruction.attributes.get("value", (False, None))[1]
        return None if contents is None else _cast(contents, result)
    values = [operand for operand in operands if operand is not None]
    if not values or len(values) < len(operands):
        return None
    if instruction.name == "compare":
        function = _COMPARISONS.get(instruction.attributes.get("comparison_direction", ""))
    elif instruction.name == "broadcast_in_dim" and values[0].size == 1 and result.elements == 1:
        function = np.array
    else:
        function = _FUNCTIONS.get(instruction.name)
    if function is None or (instruction.name in ("divide", "remainder") and not values[1].all()):
        return None
    with np.errstate(all="ignore"):
        return _cast(function(*values), result)


def _cast(contents: Any, result: Value) -> Array:
    name = type_name(result.element_type).lower()
    dtype = np.dtype(_BYTES.get(name, name))
    return np.broadcast_to(np.asarray(contents).astype(dtype).reshape(-1), (result.elements,)).reshape(result.shape)
