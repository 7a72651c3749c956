"""The ONNX model of a task: its nodes by their outputs, its shapes, its stored constants."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import GraphProto, NodeProto, OperatorSetIdProto, TensorProto, helper, inliner, numpy_helper

from memplace_env._lib.errors import ExecutionError, WorkloadError
from memplace_env.placement.task import Task
from memplace_env.placement.workloads import named_file, onnx_dims, resolve_workload
from memplace_env.program.blocks import aligned, with_ends
from memplace_env.program.frontends.onnx import inferred_graph
from memplace_env.program.frontends.onnx.control_flow import inlined_branch
from memplace_env.program.lowering.graph_values import Value, as_bool, deployed_bits, type_name
from memplace_env.program.lowering.node_graph import BehindConv, Node
from memplace_env.program.model_file import Meter, as_written, format_of, read_bytes
from memplace_env.program.program import Program, TensorKind
from memplace_env.program.reordering import reordered


@dataclass(frozen=True)
class Source:
    """A model as the file has it, with all dims bound.

    Attributes:
        file: path of the file.
        program: the program loaded from it, with no tensor cut into slices.
        values: shapes, types and small constants by name.
        nodes: nodes by each of their outputs.
        stored: initialisers by name, external ones still without their bytes.
        node_names: the program's name of each node that computes or is a view, by its first output.
        outputs: names of the graph's outputs.
        opsets: versions of the operator sets.
        ir_version: version of the file's format.
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

    @property
    def distinct_nodes(self) -> Collection[NodeProto]:
        """Each node once, in the file's order."""
        return {id(node): node for node in self.nodes.values()}.values()

    def value(self, name: str) -> Value:
        """Return shape and type of a value.

        Raises:
            ExecutionError: they are unknown.
        """
        if name not in self.values:
            node = self.nodes.get(name)
            origin = "" if node is None else f", the output of a {node.op_type}"
            raise ExecutionError(f"{self.file.name} cannot be executed: the value {name!r}{origin} has no known shape.")
        return self.values[name]

    def tensors(self, kind: TensorKind) -> list[int]:
        """Return the program's tensors of one kind."""
        tensors: list[int] = np.flatnonzero(self.program.tensor_kind == kind).tolist()
        return tensors

    def dtype(self, name: str) -> np.dtype[Any]:
        """Return the type of a value's elements.

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
    """Return the model that a task's program was loaded from.

    Raises:
        ExecutionError: it does not come from an ONNX file, the file gives another program now, or it has nodes that are
            in no graph of their own or draw random numbers.
        WorkloadError: the file can no longer be read.
    """
    program, settings = task.program, task.settings
    workload = settings.get("workload")
    if not program.op_nodes or workload is None or format_of(named_file(workload)) != ".onnx":
        raise ExecutionError(
            f"{program.name!r} cannot be executed, as it does not come from an ONNX file; only those define what "
            "each op computes. Training steps from JAX, .program files and synthetic programs are only simulated; "
            ".tflite files run in TensorFlow Lite Micro alone, by memplace execute."
        )
    file, program = loaded_again(task)
    given = {name: settings.get(name) for name in ("batch", "trips", "values", "cut")}
    dims = onnx_dims(workload, given["batch"], settings.get("dims"))
    graph = inferred_graph(file, dims=dims, **given)
    model = _model(file)
    nodes, initializers = _settled(model.graph, graph.values)
    names = {}
    for node in graph.nodes:
        first = next(filter(None, node.outputs), "")
        names[first] = node.name
        if not first or (first not in nodes and not graph.values[first].constant):
            raise ExecutionError(
                f"{file.name} cannot be executed: node {node.name!r} ({node.operator.name}) belongs to an If that "
                "the data decide, to a loop or to a sequence; settle it with --value, or export the model without it."
            )
        if node.operator.random:
            raise ExecutionError(
                f"{file.name} cannot be executed: node {node.name!r} ({node.operator.name}) draws random numbers, so "
                "no two runs agree; export the model without it."
            )
    stored = {tensor.name: tensor for tensor in initializers}
    stored |= {
        name: numpy_helper.from_array(np.asarray(graph.values[name].data), name) for name in given["values"] or {}
    }
    opsets = tuple(model.opset_import)
    values = dict(graph.values)
    _add_biases(program, graph.nodes, values, nodes)
    return Source(file, program, values, nodes, stored, names, graph.outputs, opsets, model.ir_version)


def loaded_again(task: Task) -> tuple[Path, Program]:
    """Return the file that a task's program was loaded from, and the program, with no tensor cut into slices.

    Raises:
        ExecutionError: the file gives another program now.
        WorkloadError: it can no longer be read.
    """
    program, settings = task.program, task.settings
    workload = settings["workload"]
    file = named_file(workload)
    named: dict[str, Any] = {
        key: settings.get(key) for key in ("batch", "dims", "dtype", "fusion", "trips", "values", "cut", "aliases")
    }
    unsaid = as_written(task.accelerator.name)
    named |= {key: settings.get(key, unsaid.get(key)) for key in ("fusion", "in_place", "patterns")}
    loaded = resolve_workload(workload, **named)
    loaded = reordered(loaded, settings.get("order", range(loaded.num_ops)))
    loaded = with_ends(loaded) if "io_level" in settings else loaded
    loaded = aligned(loaded, program.alignment) if program.slices is None else loaded
    if loaded.sha256 != program.whole.sha256:
        raise ExecutionError(
            f"{file} cannot be executed: its ops or sizes are no longer those of {program.name!r}; make the task "
            "and the plan anew."
        )
    return file, program.whole


def _settled(graph: GraphProto, values: Mapping[str, Value]) -> tuple[dict[str, NodeProto], list[TensorProto]]:
    """Return the nodes by their outputs, and the initialisers, with the branches of settled `If` nodes in their place.

    Args:
        graph: the model's graph, in which no value has two nodes.
        values: what is known of its values.
    """
    nodes: dict[str, NodeProto] = {}
    initializers, meter = list(graph.initializer), Meter()
    waiting = list(reversed(graph.node))
    while waiting:
        node = waiting.pop()
        condition = values.get(node.input[0]) if node.op_type == "If" else None
        taken = None if condition is None else as_bool(condition.data)
        if taken is None:
            nodes |= {name: node for name in node.output if name}
        else:
            stored, inner = inlined_branch(node, taken, meter)
            initializers += stored
            waiting += reversed(inner)
    return nodes, initializers


def _add_biases(program: Program, order: Iterable[Node], values: dict[str, Value], nodes: dict[str, NodeProto]) -> None:
    """Add the biases that fusion made of single numbers: a value per channel, which the node reads in their place.

    Args:
        program: the program.
        order: the nodes in execution order.
        values: what is known of the file's values; gets the biases.
        nodes: nodes by their outputs; gets copies of those that read a bias.
    """
    shifts = BehindConv.SHIFT | BehindConv.NORMALISATION
    shifting = [node for node in order if node.operator.behind_conv & shifts]
    reads = ((op, program.tensor_value[tensor]) for op in range(program.num_ops) for tensor in program.operands(op))
    for op, bias in ((op, name) for op, name in reads if name not in values):
        node = next((node for node in shifting if node.name in program.op_nodes[op]), None)
        name = next((name for name in node.inputs if name and _is_number(values[name])), None) if node else None
        if node is None or name is None:  # a normalisation has its shift in the file
            continue
        (result,) = node.outputs
        shape = (values[result].shape[1], *(1 for _ in values[result].shape[2:]))
        values[bias] = replace(values[name], shape=shape, data=np.full(shape, values[name].data))
        nodes[result] = helper.make_node(
            node.operator.name, [{name: bias}.get(each, each) for each in node.inputs], [result]
        )


def _is_number(value: Value) -> bool:
    return value.constant and value.elements == 1 and value.data is not None


def _model(file: str | os.PathLike[str]) -> onnx.ModelProto:
    """Return the model with the weights that are stored in the file itself."""
    try:
        model = onnx.load_model_from_string(read_bytes(Path(file), ".onnx"))
        return inliner.inline_local_functions(model) if model.functions else model
    except Exception as error:  # protobuf's back ends raise different types
        raise WorkloadError(f"{file} can no longer be read: {error}.") from error
