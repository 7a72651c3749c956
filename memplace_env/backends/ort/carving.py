"""Parts of a model as models of their own."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence, Set
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray
from onnx import GraphProto, ModelProto, NodeProto, helper, numpy_helper

from memplace_env._lib.errors import ExecutionError
from memplace_env.backends.ort.source import Source


@dataclass(frozen=True)
class Carved:
    """A part of a model.

    Attributes:
        model: computes the part's outputs from its inputs.
        inputs: names of the given values that it reads.
        nodes: the first output of each of its nodes.
    """

    model: ModelProto
    inputs: tuple[str, ...]
    nodes: tuple[str, ...]


def carve(source: Source, outputs: Sequence[str], given: Set[str], contents: Callable[[str], NDArray[Any]]) -> Carved:
    """Return the part of a model that computes some values from others.

    Constants that depend on no given value become initialisers, as do inputs without any element.

    Args:
        source: the whole model.
        outputs: values to compute.
        given: values that come from outside; those that are outputs too are computed.
        contents: returns the contents of a constant.

    Raises:
        ExecutionError: a value has no source.
    """
    return _Carving(source, outputs, given, contents).run()


class _Carving:
    def __init__(
        self, source: Source, outputs: Sequence[str], given: Set[str], contents: Callable[[str], NDArray[Any]]
    ) -> None:
        self._source = source
        self._outputs = outputs
        self._given = given
        self._contents = contents
        self._inputs: dict[str, None] = {}
        self._baked: dict[str, None] = {}
        self._nodes: dict[str, NodeProto] = {}
        self._dependent: dict[str, bool] = {}

    def run(self) -> Carved:
        done: set[str] = set()
        waiting = [(name, False) for name in reversed(self._outputs)]
        while waiting:  # depth first: a node is added after all nodes that it reads from
            name, ready = waiting.pop()
            if ready:
                node = self._source.nodes[name]
                self._nodes.setdefault(next(filter(None, node.output)), node)
                continue
            if name in done:
                continue
            done.add(name)
            wanted = name in self._outputs
            if name in self._given and not wanted:
                self._inputs[name] = None
            elif self._is_constant(name) and not wanted and not self._depends_on_given(name):
                self._baked[name] = None
            else:
                waiting.append((name, True))
                waiting.extend((operand, False) for operand in self._operands(name))
        return Carved(self._model(), tuple(self._inputs), tuple(self._nodes))

    def _operands(self, name: str) -> Collection[str]:
        node = self._source.nodes.get(name)
        if node is None:
            raise ExecutionError(f"{self._source.file.name} cannot be executed: no node computes the value {name!r}.")
        return [operand for operand in node.input if operand]

    def _is_constant(self, name: str) -> bool:
        value = self._source.value(name)
        return value.constant or (value.elements == 0 and name not in self._source.nodes)

    def _depends_on_given(self, name: str) -> bool:
        """Return whether a constant is computed from given values."""
        if name not in self._dependent:
            node = self._source.nodes.get(name)
            operands = (
                () if node is None or name in self._source.stored else [operand for operand in node.input if operand]
            )
            self._dependent[name] = any(
                operand in self._given or (self._is_constant(operand) and self._depends_on_given(operand))
                for operand in operands
            )
        return self._dependent[name]

    def _model(self) -> ModelProto:
        graph = GraphProto(name="part", node=self._nodes.values())
        graph.input.extend(map(self._declared, self._inputs))
        graph.output.extend(map(self._declared, self._outputs))
        graph.initializer.extend(numpy_helper.from_array(self._contents(name), name) for name in self._baked)
        return helper.make_model(graph, opset_imports=self._source.opsets, ir_version=self._source.ir_version)

    def _declared(self, name: str) -> Any:
        value = self._source.value(name)
        return helper.make_tensor_value_info(name, value.element_type, value.shape)
