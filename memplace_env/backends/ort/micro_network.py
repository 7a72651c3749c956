"""Networks of .tflite files: each op runs in TensorFlow Lite Micro's interpreter as a model of its own."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any

import flatbuffers
import numpy as np
from onnx import helper

from memplace_env._lib.errors import ExecutionError
from memplace_env.backends.export.micro_runtime import require_micro, run_in_micro
from memplace_env.backends.export.tflite_offsets import lives_of
from memplace_env.backends.ort.inputs import Inputs, given_inputs
from memplace_env.backends.ort.micro_op import MicroOp, ran
from memplace_env.backends.ort.model_constants import Array
from memplace_env.backends.ort.network import Network, Progress
from memplace_env.backends.ort.source import Source, loaded_again
from memplace_env.backends.ort.submodels import Port
from memplace_env.placement.task import Task
from memplace_env.program.blocks import inner_ops
from memplace_env.program.frontends.tflite.tflite_reader import parse
from memplace_env.program.lowering.graph_values import Value
from memplace_env.program.model_file import read_bytes
from memplace_env.program.program import TensorKind


def micro_network_of(task: Task, seed: int, inputs: Inputs, progress: Progress) -> Network:
    """Return the network of a task whose program comes from a .tflite file; arguments as for `network_of`.

    Raises:
        ExecutionError: naming what cannot be executed.
    """
    require_micro()
    file, program = loaded_again(task)
    parts, names = _Parts(read_bytes(file, ".tflite"), file.name), program.tensor_value
    if lost := [name for name in names if name not in parts.index]:
        raise ExecutionError(f"{file.name} cannot be executed: {lost[0]!r} is no tensor of its first graph.")
    source = Source(file, program, parts.values, {}, {}, {}, parts.outputs, (), 0)

    def ports(tensors: Iterable[int]) -> tuple[Port, ...]:
        each = [(tensor, source.value(names[tensor])) for tensor in tensors]
        return tuple(Port(names[tensor], tensor, value.element_type, value.shape) for tensor, value in each)

    weights = {tensor: parts.content(names[tensor], source) for tensor in source.tensors(TensorKind.WEIGHT)}
    ops = []
    for op in range(program.num_ops):
        operands, results = ports(program.operands(op).tolist()), ports(program.results(op).tolist())
        content, places = None, {}
        if op in range(program.num_ops)[inner_ops(program)]:
            read = [port.name for port in operands if port.tensor not in weights]
            content = parts.file(read, [port.name for port in results])
            places = {port.tensor: parts.place(content, port.name) for port in operands if port.tensor in weights}
        nodes = [helper.make_node(program.op_type[op], [], [])]
        model = helper.make_model(helper.make_graph(nodes, "op", [], []))
        ops.append(MicroOp(model, content, operands, results, weights=places))
        progress()
    wanted = [port for op in ops if op.session is not None for port in op.results]
    plain = bytes(parts.file(parts.inputs, [port.name for port in wanted]))
    run_in_micro(plain)  # in a process of its own, so that what crashes there is refused
    given = given_inputs(source, parts.inputs, seed, inputs)
    began = time.perf_counter()
    arrays = ran(plain, [given[name] for name in parts.inputs], wanted)
    seconds = time.perf_counter() - began
    expected = {port.name: array.astype(source.dtype(port.name)) for port, array in zip(wanted, arrays, strict=True)}
    expected |= {port.name: given[port.name] for op in ops if op.session is None for port in op.results}
    own = {tensor: given[names[tensor]] for tensor in source.tensors(TensorKind.INPUT)}
    return Network(source, tuple(ops), None, weights, own, expected, 0, seconds)


class _Parts:
    """Parts of a .tflite file as files of their own; tensors are named as the program names them."""

    def __init__(self, data: bytes, file: str) -> None:
        from tflite_micro.tensorflow.lite.micro.python import schema_py_generated

        self._schema, model = schema_py_generated, parse(data)
        self._whole = self._schema.ModelT.InitFromObj(self._schema.Model.GetRootAs(data, 0))
        self._graph = self._whole.subgraphs[0]
        lives = lives_of(model, data)
        if len(self._whole.subgraphs) > 1 or any(life.tensor.variable for life in lives.values()):
            raise ExecutionError(
                f"{file} cannot be executed: it has several graphs or variables, which outlive an inference, and an "
                "op of those is no model of its own."
            )
        self.index = {life.tensor.name: index for index, life in lives.items()}
        self.inputs, self.outputs = (tuple(one.name for one in end) for end in (model.inputs, model.outputs))
        self._maker = {index: number for number, call in enumerate(self._graph.operators) for index in call.outputs}
        each = [(life.tensor, not life.changes) for life in lives.values()]
        self.values = {tensor.name: Value(tensor.shape, tensor.element_type, constant) for tensor, constant in each}

    def content(self, name: str, source: Source) -> Array:
        """Return the contents of a constant.

        Raises:
            ExecutionError: the file lacks them.
        """
        shape, dtype = source.value(name).shape, source.dtype(name)
        stored = self._whole.buffers[self._graph.tensors[self.index[name]].buffer].data
        if stored is None or len(stored) != int(np.prod(shape)) * dtype.itemsize:
            raise ExecutionError(f"{source.file.name} cannot be executed: it lacks the contents of {name!r}.")
        return np.frombuffer(bytes(stored), dtype).reshape(shape)

    def file(self, read: Sequence[str], wanted: Sequence[str]) -> bytearray:
        """Return a file that computes tensors from others."""
        given, needed, open_ones = {self.index[name] for name in read}, set[int](), [self.index[one] for one in wanted]
        while open_ones:
            number = self._maker.get(open_ones.pop())
            if number is not None and number not in needed:
                needed.add(number)
                open_ones += [one for one in self._graph.operators[number].inputs if one >= 0 and one not in given]
        calls = [self._graph.operators[number] for number in sorted(needed)]
        tensors = sorted(given.union(*(map(int, (*call.inputs, *call.outputs)) for call in calls)) - {-1})
        place = {-1: -1} | {index: number for number, index in enumerate(tensors)}
        graph, model = self._schema.SubGraphT(), self._schema.ModelT()
        graph.tensors = [_changed(self._graph.tensors[index], buffer=place[index] + 1) for index in tensors]
        graph.inputs, graph.outputs = ([place[self.index[name]] for name in names] for names in (read, wanted))
        graph.operators = [
            _changed(call, inputs=[place[one] for one in call.inputs], outputs=[place[one] for one in call.outputs])
            for call in calls
        ]
        buffers = [self._whole.buffers[self._graph.tensors[index].buffer] for index in tensors]
        model.version, model.operatorCodes = self._whole.version, self._whole.operatorCodes
        model.subgraphs, model.buffers = [graph], [self._schema.BufferT(), *buffers]
        builder = flatbuffers.Builder(1024)
        builder.Finish(model.Pack(builder), b"TFL3")
        return bytearray(builder.Output())

    def place(self, content: bytearray, name: str) -> Array:
        """Return the bytes of a constant in a file, as a view."""
        root, wanted = self._schema.Model.GetRootAs(content, 0), self._graph.tensors[self.index[name]].name
        each = map(root.Subgraphs(0).Tensors, range(root.Subgraphs(0).TensorsLength()))
        array: Array = next(root.Buffers(one.Buffer()).DataAsNumpy() for one in each if one.Name() == wanted)
        return array


def _changed(table: Any, **fields: Any) -> Any:
    """Return a copy of a table with other fields."""
    copy = type(table)()
    copy.__dict__.update(table.__dict__ | fields)
    return copy
