"""The ops of a program as models of their own, and the whole model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from onnx import ModelProto

from memplace_env._lib.errors import ExecutionError
from memplace_env.backends.ort.carving import Carved, carve
from memplace_env.backends.ort.execution_result import ROUNDING
from memplace_env.backends.ort.model_constants import Constants
from memplace_env.backends.ort.sessions import session_of
from memplace_env.backends.ort.source import Source
from memplace_env.program.blocks import inner_ops
from memplace_env.program.program import TensorKind

if TYPE_CHECKING:
    import onnxruntime


@dataclass(frozen=True)
class Port:
    """An input or output of a model of one op.

    Attributes:
        name: name in that model.
        tensor: number of the program's tensor.
        element_type: an ONNX `TensorProto.DataType`.
        shape: shape of the value.
    """

    name: str
    tensor: int
    element_type: int
    shape: tuple[int, ...]


@dataclass(frozen=True)
class OpModel:
    """An op that can run.

    Attributes:
        model: the model that computes it, with its constants but without its weights.
        session: session of the model; None for the ops of `blocks.with_ends`, which compute nothing.
        operands: values that the session reads from memory.
        results: values that it writes there.
        tolerance: largest difference of results at any address, as a fraction of the largest number of each; above 0
            if any value in the model is of a type in `ROUNDING`.
    """

    model: ModelProto
    session: onnxruntime.InferenceSession | None
    operands: tuple[Port, ...]
    results: tuple[Port, ...]
    tolerance: float = 0.0

    def bound(self, address: Callable[[int], int]) -> Callable[[], None]:
        """Return what runs the session on addresses of this machine, given by tensor."""
        if self.session is None:
            return lambda: None
        binding = self.session.io_binding()
        for port in self.operands:
            binding.bind_input(port.name, "cpu", 0, port.element_type, port.shape, address(port.tensor))
        for port in self.results:
            binding.bind_output(port.name, "cpu", 0, port.element_type, port.shape, address(port.tensor))
        return partial(self.session.run_with_iobinding, binding)


def op_model(source: Source, op: int, constants: Constants) -> OpModel:
    """Return the model of one op.

    Raises:
        ExecutionError: ONNX Runtime lacks an operator, or the nodes do not compute the op.
    """
    program = source.program
    operands, results = program.operands(op).tolist(), program.results(op).tolist()
    if op not in range(program.num_ops)[inner_ops(program)]:
        return OpModel(ModelProto(), None, _ports(source, operands), _ports(source, results))
    tensors = {program.tensor_value[tensor]: tensor for tensor in (*operands, *results)}
    for tensor in operands:
        if program.tensor_value[tensor] not in source.values:
            tensors[folded_shift(source, op)] = tensor
    outputs = [program.tensor_value[tensor] for tensor in results]
    carved = carve(source, outputs, frozenset(tensors), constants.__getitem__)
    _check_nodes(source, op, carved)
    what = f"op {op} of {program.name!r} ({program.op_type[op]}, nodes {', '.join(program.op_nodes[op])})"
    return OpModel(
        carved.model,
        session_of(carved.model, what),
        tuple(_port(source, name, tensors[name]) for name in carved.inputs),
        tuple(_port(source, name, tensors[name]) for name in outputs),
        _tolerance(source, carved),
    )


def folded_shift(source: Source, op: int) -> str:
    """Return the value that represents the bias into which a normalisation after a convolution is folded.

    Raises:
        ExecutionError: the file has no such value.
    """
    covered = set(source.program.op_nodes[op])
    for first, name in source.node_names.items():
        node = source.nodes.get(first)
        if name in covered and node is not None and node.op_type == "BatchNormalization":
            return str(node.input[2])
    raise ExecutionError(
        f"Op {op} of {source.program.name!r} ({source.program.op_name[op]}) cannot be executed: its bias arises by "
        "fusion and is not a value of the file; pass --fusion none."
    )


def tail_model(source: Source, constants: Constants) -> OpModel | None:
    """Return the model of those graph outputs that are views of tensors in memory; None if there are none.

    Left out are outputs that are inputs, and views of inputs that no op reads or that are blocks, as none of them is in
    any memory at the end, and outputs without any element, whose operands need not be in the backing memory.
    """
    program, outside = source.program, _inputs(source)
    holding = (*source.tensors(TensorKind.INPUT), *outputs_of(source))
    tensors = {program.tensor_value[tensor]: tensor for tensor in holding}
    inside = {program.tensor_value[tensor] for tensor in source.tensors(TensorKind.ACTIVATION)} - tensors.keys()

    def carved(*views: str) -> Carved:
        return carve(source, views, frozenset(tensors) | inside | outside, constants.__getitem__)

    views = [
        name
        for name in dict.fromkeys(source.outputs)
        if name not in tensors.keys() | outside
        and not source.value(name).constant
        and tensors.keys() >= set(carved(name).inputs)
    ]
    if not views:
        return None
    tail = carved(*views)
    ports = tuple(_port(source, name, tensors[name]) for name in tail.inputs)
    results = tuple(_port(source, view, -1) for view in views)
    return OpModel(tail.model, session_of(tail.model, "the graph's outputs"), ports, results, _tolerance(source, tail))


def plain_model(source: Source, wanted: Sequence[str], constants: Constants) -> Carved:
    """Return the whole model, which computes the wanted values from inputs and weights."""
    program = source.program
    weights = {program.tensor_value[tensor] for tensor in source.tensors(TensorKind.WEIGHT)}
    return carve(source, wanted, weights | _inputs(source), constants.__getitem__)


def outputs_of(source: Source) -> list[int]:
    """Return the tensors of graph outputs: those in the backing memory, and those that the caller takes from blocks."""
    program = source.program
    taken = range(inner_ops(program).stop, program.num_ops)
    return [*source.tensors(TensorKind.OUTPUT), *(tensor for op in taken for tensor in program.operands(op).tolist())]


def _inputs(source: Source) -> frozenset[str]:
    """Return the names of the values that come from outside."""
    inner = source.nodes.keys() | source.stored.keys()
    return frozenset(name for name, value in source.values.items() if name not in inner and not value.constant)


def _port(source: Source, name: str, tensor: int) -> Port:
    value = source.value(name)
    source.dtype(name)
    return Port(name, tensor, value.element_type, value.shape)


def _ports(source: Source, tensors: Iterable[int]) -> tuple[Port, ...]:
    return tuple(_port(source, source.program.tensor_value[tensor], tensor) for tensor in tensors)


def _tolerance(source: Source, carved: Carved) -> float:
    names = {name for node in carved.model.graph.node for name in (*node.input, *node.output)}
    types = {source.values[name].element_type for name in names & source.values.keys()}
    return max((share for kind, share in ROUNDING.items() if kind in types), default=0.0)


def _check_nodes(source: Source, op: int, carved: Carved) -> None:
    """Require that the part covers all of the op's nodes."""
    covered = set(source.program.op_nodes[op])
    names = {source.node_names[name] for name in carved.nodes if name in source.node_names}
    if not covered <= names:
        missing = ", ".join(sorted(covered - names))
        raise ExecutionError(f"Op {op} of {source.program.name!r} covers the nodes {missing}, which it does not need.")
