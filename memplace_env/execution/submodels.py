"""The ops of a program as models of their own, and the whole model beside them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from onnx import ModelProto

from memplace_env.errors import ExecutionError
from memplace_env.execution.carving import Carved, carve
from memplace_env.execution.constants import Constants
from memplace_env.execution.result import ROUNDING
from memplace_env.execution.sessions import session_of
from memplace_env.execution.source import Source
from memplace_env.workload.program import TensorKind

if TYPE_CHECKING:
    import onnxruntime


@dataclass(frozen=True)
class Port:
    """A value that a model of one op reads or makes.

    Attributes:
        name: in that model.
        tensor: of the program.
        element_type: an ONNX `TensorProto.DataType`.
        shape: of the value.
    """

    name: str
    tensor: int
    element_type: int
    shape: tuple[int, ...]


@dataclass(frozen=True)
class OpModel:
    """An op that can run.

    Attributes:
        model: that computes it, with its constants but without its weights.
        session: of the model.
        operands: what the session reads from memory.
        results: what it writes there.
        tolerance: how far results may be off wherever data lie, as a share of the largest number of each; above 0 if
            any value in it is of a type in `ROUNDING`.
    """

    model: ModelProto
    session: onnxruntime.InferenceSession
    operands: tuple[Port, ...]
    results: tuple[Port, ...]
    tolerance: float = 0.0

    def bound(self, address: Callable[[int], int]) -> onnxruntime.IOBinding:
        """The session's inputs and outputs at addresses of this machine, by tensor; results last."""
        binding = self.session.io_binding()
        for port in self.operands:
            binding.bind_input(port.name, "cpu", 0, port.element_type, port.shape, address(port.tensor))
        for port in self.results:
            binding.bind_output(port.name, "cpu", 0, port.element_type, port.shape, address(port.tensor))
        return binding


def op_model(source: Source, op: int, constants: Constants) -> OpModel:
    """The model of one op.

    Raises:
        ExecutionError: ONNX Runtime lacks an operator, or the nodes do not make up the op.
    """
    program = source.program
    operands, results = program.operands(op).tolist(), program.results(op).tolist()
    tensors = {program.tensor_value[tensor]: tensor for tensor in (*operands, *results)}
    for tensor in operands:
        if program.tensor_value[tensor] not in source.values:
            tensors[folded_shift(source, op)] = tensor
    made = [program.tensor_value[tensor] for tensor in results]
    carved = carve(source, made, frozenset(tensors), constants.__getitem__)
    _check_nodes(source, op, carved)
    what = f"op {op} of {program.name!r} ({program.op_type[op]}, nodes {', '.join(program.op_nodes[op])})"
    return OpModel(
        carved.model,
        session_of(carved.model, what),
        tuple(_port(source, name, tensors[name]) for name in carved.inputs),
        tuple(_port(source, name, tensors[name]) for name in made),
        _tolerance(source, carved),
    )


def folded_shift(source: Source, op: int) -> str:
    """The value that stands for the bias that a normalisation behind a convolution becomes.

    Raises:
        ExecutionError: there is no such value of the file.
    """
    covered = set(source.program.op_nodes[op])
    for first, name in source.node_names.items():
        node = source.nodes.get(first)
        if name in covered and node is not None and node.op_type == "BatchNormalization":
            return str(node.input[2])
    raise ExecutionError(
        f"Op {op} of {source.program.name!r} ({source.program.op_name[op]}) cannot be executed: its bias arises by "
        "fusion and is no value of the file; pass --fusion none."
    )


def tail_model(source: Source, constants: Constants) -> OpModel | None:
    """What makes the graph's outputs of the tensors that hold them, where they are views; None if none are.

    Left out are inputs that are outputs as they are, and views of inputs that no op reads: no memory has to do with
    either. So are outputs without any element, of which no backing memory has to hold what they rest on.
    """
    program, outside = source.program, _inputs(source)
    holding = (*source.tensors(TensorKind.INPUT), *source.tensors(TensorKind.OUTPUT))
    tensors = {program.tensor_value[tensor]: tensor for tensor in holding}
    inside = {program.tensor_value[tensor] for tensor in source.tensors(TensorKind.ACTIVATION)}

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
    """The whole model, which reads inputs and weights and makes all values that are wanted."""
    program = source.program
    weights = {program.tensor_value[tensor] for tensor in source.tensors(TensorKind.WEIGHT)}
    return carve(source, wanted, weights | _inputs(source), constants.__getitem__)


def _inputs(source: Source) -> frozenset[str]:
    """Names of the values that come from outside."""
    made = source.nodes.keys() | source.stored.keys()
    return frozenset(name for name, value in source.values.items() if name not in made and not value.constant)


def _port(source: Source, name: str, tensor: int) -> Port:
    value = source.value(name)
    source.dtype(name)
    return Port(name, tensor, value.element_type, value.shape)


def _tolerance(source: Source, carved: Carved) -> float:
    names = {name for node in carved.model.graph.node for name in (*node.input, *node.output)}
    types = {source.values[name].element_type for name in names & source.values.keys()}
    return max((share for kind, share in ROUNDING.items() if kind in types), default=0.0)


def _check_nodes(source: Source, op: int, carved: Carved) -> None:
    """The part covers the nodes that the Program says, and of others only views."""
    covered = set(source.program.op_nodes[op])
    names = {source.node_names[name] for name in carved.nodes if name in source.node_names}
    if not covered <= names:
        missing = ", ".join(sorted(covered - names))
        raise ExecutionError(f"Op {op} of {source.program.name!r} covers the nodes {missing}, which it does not need.")
