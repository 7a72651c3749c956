"""The ONNX model behind a task: its nodes by what they make, its shapes, its stored constants."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import NodeProto, OperatorSetIdProto, TensorProto, helper, inliner

from memplace_env.errors import ExecutionError, WorkloadError
from memplace_env.task import Task
from memplace_env.workload.lowered.values import Value, deployed_bits, type_name
from memplace_env.workload.onnx import inferred_graph
from memplace_env.workload.program import Program, TensorKind
from memplace_env.workload.resolve import named_file, onnx_dims, resolve_workload


@dataclass(frozen=True)
class Source:
    """A model as the file has it, with all dims bound.

    Attributes:
        file: where it is.
        program: what became of it.
        values: shapes, types and small constants by name.
        nodes: by each value that they make.
        stored: the initialisers by name, those outside of the file still without their bytes.
        node_names: for each node that works or is a view, by its first output, what the Program calls it.
        outputs: names of the graph's outputs.
        opsets: versions of the operator sets.
        ir_version: of the file's format.
    """

    file: Path
    program: Program
    values: Mapping[str, Value]
    nodes: Mapping[str, NodeProto]
    stored: Mapping[str, TensorProto]
    node_names: Mapping[str, str]
    outputs: tuple[str, ...]
    opsets: tuple[OperatorSetIdProto, ...]
    ir_version: int

    def value(self, name: str) -> Value:
        """Shape and type of a value.

        Raises:
            ExecutionError: nothing is known of it.
        """
        if name not in self.values:
            node = self.nodes.get(name)
            made = "" if node is None else f", which a {node.op_type} makes"
            raise ExecutionError(f"{self.file.name} cannot be executed: nothing is known of the value {name!r}{made}.")
        return self.values[name]

    def tensors(self, kind: TensorKind) -> list[int]:
        """The program's tensors of one kind."""
        found: list[int] = np.flatnonzero(self.program.tensor_kind == kind).tolist()
        return found

    def bytes_of(self, name: str) -> int:
        """What a value takes in the file's own type."""
        return self.value(name).elements * self.dtype(name).itemsize

    def dtype(self, name: str) -> np.dtype[Any]:
        """The type of a value's elements.

        Raises:
            ExecutionError: they are smaller than a byte, or no numbers.
        """
        element_type = self.value(name).element_type
        bits = deployed_bits(element_type, None) or 0
        if bits < 8:
            raise ExecutionError(
                f"{self.file.name} cannot be executed: {name!r} holds {type_name(element_type)} elements, which have "
                "no address of their own."
            )
        return np.dtype(helper.tensor_dtype_to_np_dtype(element_type))


def source_of(task: Task) -> Source:
    """The model that a task's program was made of.

    Raises:
        ExecutionError: it was made of no ONNX file, of one that gives another program by now, or of nodes that stand in
            no graph of their own.
        WorkloadError: the file cannot be read any more.
    """
    program, settings = task.program, task.settings
    workload = settings.get("workload")
    if not program.op_nodes or workload is None or named_file(workload).suffix.lower() != ".onnx":
        raise ExecutionError(
            f"{program.name!r} cannot be executed, as it does not come from an ONNX file; only those say what each op "
            "computes. Training steps from JAX, .tflite and .program files and synthetic programs are simulated only."
        )
    file = named_file(workload)
    named: dict[str, Any] = {key: settings.get(key) for key in ("batch", "dims", "dtype", "fusion")}
    if resolve_workload(workload, **named).sha256 != program.sha256:
        raise ExecutionError(
            f"{file} cannot be executed: its ops or sizes are not those any more of which {program.name!r} was made; "
            "make the task and the plan anew."
        )
    batch = settings.get("batch")
    graph = inferred_graph(file, batch=batch, dims=onnx_dims(workload, batch, settings.get("dims")))
    model = _model(file)
    nodes = {name: node for node in model.graph.node for name in node.output if name}
    names = {}
    for node in graph.nodes:
        first = next(filter(None, node.outputs))
        names[first] = node.name
        if first not in nodes and not graph.values[first].constant:
            raise ExecutionError(
                f"{file.name} cannot be executed: node {node.name!r} ({node.operator.name}) comes from the branch of "
                "an If or from a sequence; export the model without them."
            )
        if node.operator.random:
            raise ExecutionError(
                f"{file.name} cannot be executed: node {node.name!r} ({node.operator.name}) draws random numbers, so "
                "no two runs agree; export the model without it."
            )
    stored = {tensor.name: tensor for tensor in model.graph.initializer}
    return Source(
        file, program, graph.values, nodes, stored, names, graph.outputs, tuple(model.opset_import), model.ir_version
    )


def _model(file: str | os.PathLike[str]) -> onnx.ModelProto:
    """The model with the weights that are inside of the file."""
    try:
        model = onnx.load(file, load_external_data=False)
        return inliner.inline_local_functions(model) if model.functions else model
    except Exception as error:  # protobuf's back ends raise different types
        raise WorkloadError(f"{file} cannot be read any more: {error}.") from error
