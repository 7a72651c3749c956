"""Translation of TFLite's operators to the graph in ONNX's terms."""

from __future__ import annotations

import math
from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from memplace_env._lib.errors import WorkloadError
from memplace_env._lib.hints import nearest
from memplace_env.program.frontends.onnx.onnx_operators import OPERATORS
from memplace_env.program.frontends.tflite.tflite_model import Call, Tensor, TfliteModel
from memplace_env.program.frontends.tflite.tflite_operators import ROWS, TfliteOperator
from memplace_env.program.lowering.graph_values import Shape, Value, as_bool, checked_value
from memplace_env.program.lowering.lower_graph import work_of
from memplace_env.program.lowering.node_graph import ErrorsOfRules, Node, NodeGraph, Operator
from memplace_env.program.lowering.rules import vector_ops, views
from memplace_env.program.model_file import Meter, stem

_MAX_DEPTH: Final = 100
"""Deepest chain of graphs that call each other, which are followed by recursion."""

_IDENTITY: Final = OPERATORS["Identity"]
_RESHAPE: Final = OPERATORS["Reshape"]

_TRANSPOSE: Final = replace(OPERATORS["Transpose"], view=views.always)
"""An operand that its reader takes in another order, so that nothing is moved."""


def to_graph(model: TfliteModel, trips: int | None = None) -> NodeGraph:
    """Return the graph of a model. A tensor is constant if no operator writes it, or if it follows from constants.

    A variable tensor, which keeps its contents from one inference to the next, is like an input of the graph: every
    reader reads it; writing it back is not counted (our choice). A resource variable is such an input too, and what is
    assigned to it last an output. WHILE is unrolled to `trips` rounds; of the branches of an IF the one with most work
    is taken. An op reads the condition of either.

    Raises:
        WorkloadError: an operator has no row, or the model contradicts itself.
    """
    return _Translation(model, trips).graph()


def up_to(model: TfliteModel, cut: str) -> TfliteModel:
    """Return the model with a tensor as its only output, and only the operators that this needs.

    Raises:
        WorkloadError: no operator of the first graph makes the tensor.
    """
    made = {tensor.name: tensor for call in model.calls for tensor in call.outputs if tensor is not None}
    if cut not in made:
        close = nearest(cut, list(made))
        hint = f"did you mean {close!r}?" if close else "pass the name of an operator's result in its first graph."
        raise WorkloadError(f"The model makes no tensor {cut!r} to cut at; {hint}")
    needed, kept = {cut}, []
    for call in reversed(model.calls):
        if needed.intersection(tensor.name for tensor in call.outputs if tensor is not None):
            needed.update(tensor.name for tensor in call.inputs if tensor is not None)
            kept.append(call)
    return replace(model, calls=tuple(reversed(kept)), outputs=(made[cut],))


@dataclass(frozen=True, slots=True)
class _Tried:
    """A branch that was translated: its work, nodes, results, values, and the resource variables after it."""

    work: int
    nodes: Sequence[Node]
    results: Sequence[str]
    values: Mapping[str, Value]
    variables: Mapping[str, str]


class _Translation:
    """The graphs of a model as one. Names of the file become names of values in the scope of the open call."""

    def __init__(self, model: TfliteModel, trips: int | None) -> None:
        self._model = model
        self._trips, self._trips_needed = trips, False
        self._values: dict[str, Value] = {}
        self._nodes: list[Node] = []
        self._choices: dict[str, Mapping[str, NodeGraph]] = {}
        self._meter = Meter()
        self._handles: dict[str, str] = {}
        self._variables: dict[str, str] = {}
        self._scope: dict[str, str] = {}
        self._made: set[str] = set()
        self._prefix = ""
        self._open: list[int] = []

    def graph(self) -> NodeGraph:
        for tensor in self._model.inputs:
            self._values[tensor.name] = _value(tensor, constant=False)
        outputs = self._run(self._model)
        if self._trips is not None and not self._trips_needed:
            raise WorkloadError("No loop of the model needs a number of rounds, so trips cannot apply; leave it out.")
        outputs += [value for variable, value in self._variables.items() if value != variable]
        unused = self._model.unused
        notes = (f"The first of its graphs is loaded; nothing in it calls {unused} of the others.",) if unused else ()
        nodes, choices = tuple(self._nodes), self._choices
        return NodeGraph(nodes, self._values, tuple(outputs), channels_last=True, choices=choices, notes=notes)

    def _run(self, graph: TfliteModel) -> list[str]:
        """Translate the calls of a graph, and return the names of its results."""
        self._made = {tensor.name for call in graph.calls for tensor in call.outputs if tensor is not None}
        for call in graph.calls:
            self._meter.add("nodes", 1)
            with ErrorsOfRules(f"Options and operands of {call}"):
                special = _SPECIAL.get(call.op_type)
                if special is None:
                    self._translate(call, _row(call))
                else:
                    special(self, call)
        return [self._operand(tensor) for tensor in graph.outputs]

    def _called(self, number: int, given: Sequence[str], prefix: str) -> list[str]:
        """Translate a graph that control flow calls with these values, and return the names of its results."""
        graph = self._model.graphs.get(number)
        if graph is None or len(graph.inputs) != len(given):
            raise ValueError(f"graph {number} of the file is missing or has other inputs")
        if number in self._open or len(self._open) >= _MAX_DEPTH:
            raise ValueError(f"graph {number} of the file calls itself, or calls are over {_MAX_DEPTH} deep")
        outer = self._scope, self._made, self._prefix
        made = (tensor.name for call in graph.calls for tensor in call.outputs if tensor is not None)
        self._scope = {tensor.name: name for tensor, name in zip(graph.inputs, given, strict=True)}
        self._scope |= {name: f"{prefix}/{name}" for name in made}
        self._prefix = f"{prefix}/"
        self._open.append(number)
        results = self._run(graph)
        self._open.pop()
        self._scope, self._made, self._prefix = outer
        return results

    def _return(self, call: Call, results: Sequence[str]) -> None:
        """Give the results of a called graph the names that the caller has for them."""
        for tensor, name in zip(call.outputs, results, strict=True):
            if tensor is not None:
                self._scope[tensor.name] = name

    def _if(self, call: Call) -> None:
        condition, *given = (self._operand(tensor) for tensor in call.inputs if tensor is not None)
        self._decide(call, "If", condition, given)
        holds = as_bool(self._values[condition].data)
        graphs = {"then_branch": call.option("ThenSubgraphIndex"), "else_branch": call.option("ElseSubgraphIndex")}
        prefix = stem(f"{self._prefix}{call.index}")
        if holds is not None:
            taken = "then_branch" if holds else "else_branch"
            self._return(call, self._called(graphs[taken], given, f"{prefix}/{taken}"))
            return
        tried = {name: self._tried(graph, given, f"{prefix}/{name}") for name, graph in graphs.items()}
        taken, left = sorted(tried, key=lambda name: -tried[name].work)
        kept = tried[taken]
        self._nodes += kept.nodes
        self._values |= kept.values
        self._variables = dict(kept.variables)
        self._return(call, kept.results)
        self._choices[f"{self._prefix}{call}"] = {
            name: NodeGraph(
                tuple(tried[name].nodes), ChainMap(dict(tried[name].values), self._values), tuple(tried[name].results),
                channels_last=True,
            )
            for name in (taken, left)
        }  # fmt: skip

    def _tried(self, number: int, given: Sequence[str], prefix: str) -> _Tried:
        """Translate a branch, and undo it."""
        nodes, values, variables = len(self._nodes), len(self._values), dict(self._variables)
        results = self._called(number, given, prefix)
        run, after = self._nodes[nodes:], self._variables
        work = sum(work_of(node, self._values) for node in run)
        del self._nodes[nodes:]
        self._variables = variables
        added = dict(self._values.popitem() for _ in range(len(self._values) - values))
        return _Tried(work, run, results, added, after)

    def _while(self, call: Call) -> None:
        self._trips_needed = True
        if self._trips is None:
            raise WorkloadError(
                f"The data determine how often {call} runs; pass its number of rounds as trips= (--trips)."
            )
        state = [self._operand(tensor) for tensor in call.inputs if tensor is not None]
        prefix = stem(f"{self._prefix}{call.index}")
        for number in range(self._trips + 1):
            (goes_on,) = self._called(call.option("CondSubgraphIndex"), state, f"{prefix}/{number}/condition")
            self._decide(call, "Loop", goes_on, state)
            if number < self._trips:
                state = self._called(call.option("BodySubgraphIndex"), state, f"{prefix}/{number}")
        self._return(call, state)

    def _decide(self, call: Call, name: str, condition: str, given: Sequence[str]) -> None:
        """Add the op that reads what decides over a branch or a round, unless that is a constant."""
        if not self._values[condition].constant:
            operator = Operator(name, vector_ops=vector_ops.nothing)
            known = tuple(value for value in given if value in self._values)
            self._nodes.append(Node(operator, f"{condition}/{name}", (condition,), (), {}, known))

    def _handle(self, call: Call) -> None:
        """Remember which resource variable a tensor stands for."""
        name = f"variable {call.text('Container')}{call.text('SharedName')}"
        self._handles[self._named(call.result)] = name

    def _read(self, call: Call) -> None:
        """Make the result a view of what a variable holds."""
        variable = self._handles[self._named(call.needed(0))]
        held = self._variables.setdefault(variable, variable)
        if held == variable:
            self._values.setdefault(held, _value(call.result, constant=False))
        result = self._make(call.result, constant=False)
        self._check_elements(held, call.result.shape)
        self._nodes.append(Node(_IDENTITY, result, (held,), (result,), {}))

    def _assign(self, call: Call) -> None:
        self._variables[self._handles[self._named(call.needed(0))]] = self._operand(call.needed(1))

    def _nothing(self, call: Call) -> None:
        """CALL_ONCE: what it runs is over before the first inference."""

    def _make(self, tensor: Tensor, *, constant: bool) -> str:
        """Enter what an operator writes, and return its name."""
        name = self._named(tensor)
        if name in self._values:
            raise ValueError(f"{name!r} is made although it exists already")
        self._values[name] = _value(tensor, constant=constant)
        return name

    def _named(self, tensor: Tensor) -> str:
        return self._scope.get(tensor.name, tensor.name)

    def _translate(self, call: Call, row: TfliteOperator) -> None:
        positions = range(len(call.inputs)) if row.inputs is None else row.inputs
        given = [call.inputs[i] if i is not None and i < len(call.inputs) else None for i in positions]
        names = ["" if tensor is None else self._operand(tensor) for tensor in given]
        constant = row.of_shapes or all(self._values[name].constant for name in names if name)
        results = [tensor for tensor in call.outputs if tensor is not None]
        for tensor in results:
            self._make(tensor, constant=constant)
        if row.of_shapes or not results:
            return
        if row.operator.view is views.always:
            self._check_elements(names[0], call.result.shape)
        for position, shape in row.shapes(call).items():
            names[position] = self._viewed(
                _RESHAPE, names[position], shape, {}, f"{self._prefix}{call.index}.{position}"
            )
        for position, order in row.orders(call).items():
            own = self._values[names[position]].shape
            shape, perm = tuple(own[axis] for axis in order), {"perm": order}
            names[position] = self._viewed(
                _TRANSPOSE, names[position], shape, perm, f"{self._prefix}{call.index}.{position}"
            )
        activation = call.option("FusedActivationFunction") if row.activates else 0
        operator = _activated(row.operator) if activation else row.operator
        outputs = tuple("" if tensor is None else self._named(tensor) for tensor in call.outputs)
        self._nodes.append(Node(operator, self._named(results[0]), tuple(names), outputs, row.attributes(call)))

    def _operand(self, tensor: Tensor) -> str:
        """Return the name of an operand, after entering its value if no operator writes it."""
        name = self._named(tensor)
        if name not in self._values and name not in self._handles:
            if tensor.name in self._made:
                raise ValueError(f"{tensor.name!r} is read before it is made")
            if tensor.sparse:
                raise WorkloadError(f"Tensor {name!r} is sparse, which only DENSIFY may read; convert the model anew.")
            self._values[name] = _value(tensor, constant=not tensor.variable)
        return name

    def _viewed(self, operator: Operator, name: str, shape: Shape, attributes: Mapping[str, Any], suffix: str) -> str:
        """Return a view of an operand in another shape; no tensor of the file has a zero byte in its name."""
        self._check_elements(name, shape)
        view = f"{stem(name)}\0{suffix}"
        self._values[view] = replace(self._values[name], shape=shape, data=None)
        self._nodes.append(Node(operator, view, (name,), (view,), attributes))
        return view

    def _check_elements(self, name: str, shape: Shape) -> None:
        if self._values[name].elements != math.prod(shape):
            raise ValueError(f"{name!r} of shape {list(self._values[name].shape)} cannot be {list(shape)}")


_SPECIAL: Final[Mapping[str, Callable[[_Translation, Call], None]]] = {
    "ASSIGN_VARIABLE": _Translation._assign,
    "CALL_ONCE": _Translation._nothing,
    "IF": _Translation._if,
    "READ_VARIABLE": _Translation._read,
    "VAR_HANDLE": _Translation._handle,
    "WHILE": _Translation._while,
}
"""Operators that are no nodes of the graph, or several."""


def _row(call: Call) -> TfliteOperator:
    row = ROWS.get(call.op_type)
    if row is None:
        raise WorkloadError(
            f"No cost is known for {call}; convert the model without it, or load it up to a tensor before, whose name "
            "cut= (--cut) takes."
        )
    return row


def _activated(operator: Operator) -> Operator:
    """Return the operator with an activation inside: one operation more per element of its result, as ONNX's take."""
    own = operator.vector_ops
    return replace(
        operator,
        activated=True,
        vector_ops=lambda site: (0 if own is None else own(site)) + site.result.elements,
    )


def _value(tensor: Tensor, *, constant: bool) -> Value:
    subject = f"Tensor {tensor.name!r}"
    return checked_value(subject, tensor.shape, tensor.element_type, constant=constant, data=tensor.data)
