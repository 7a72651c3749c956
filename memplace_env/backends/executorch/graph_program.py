"""`from_executorch`: the graph that ExecuTorch's runtime executes, as a Program."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator
from math import prod
from typing import Any, Final, NamedTuple

from memplace_env._lib.errors import WorkloadError
from memplace_env._lib.foreign import described
from memplace_env.backends.executorch.aten_work import work_of
from memplace_env.program.blocks import ARRIVAL, DEPARTURE
from memplace_env.program.builder import ProgramBuilder
from memplace_env.program.program import FLOAT_BYTES, Program, TensorKind

_NO_OPS: Final = {"alloc", "free", "view"}
"""Functions of ExecuTorch's module `memory`, which the runtime does not execute."""
_SOURCES: Final = ("placeholder", "get_attr")
"""Kinds of nodes whose tensors no op makes."""


class GraphProgram(NamedTuple):
    """A graph as a Program.

    Attributes:
        program: the program.
        specs: the `TensorSpec` of each tensor, one for all that share bytes.
        strays: numbers of tensors that ExecuTorch keeps alive at other ops than the program does.
    """

    program: Program
    specs: list[Any]
    strays: list[int]


def from_executorch(program: Any, method: str = "forward") -> Program:
    """Return a graph of ExecuTorch as a Program: the ops, lives and bytes that its runtime has.

    Tensors that share bytes are one, so views cost nothing; ops are not fused, sizes that vary have their upper bounds.
    A write into a tensor that exists already, as into a cache, counts as a read. Of a delegate only operands and
    results are known: it is one op without work.

    Args:
        program: an `EdgeProgramManager`, an `ExecutorchProgramManager` or a `GraphModule` after memory planning.
        method: the method's name, for programs of several.

    Raises:
        WorkloadError: for another object, control flow, a tensor whose size has no bound, or a graph without any op.
    """
    if hasattr(program, "to_executorch"):
        program = program.to_executorch()
    if hasattr(program, "exported_program"):
        program = program.exported_program(method)
    graph_module = getattr(program, "graph_module", program)
    if not hasattr(graph_module, "graph"):
        raise WorkloadError(
            "from_executorch takes an EdgeProgramManager, an ExecutorchProgramManager or a GraphModule, not "
            f"{described(program)}."
        )
    refuse_control_flow(graph_module)
    return graph_program(graph_module, method).program


def refuse_control_flow(graph_module: Any) -> None:
    """Raise a WorkloadError if the graph calls another graph."""
    from torch.fx import GraphModule

    for node in graph_module.graph.nodes:
        if node.op == "get_attr" and isinstance(getattr(graph_module, node.target, None), GraphModule):
            raise WorkloadError(
                f"The graph has control flow ({node.name}), which is not planned; use ExecuTorch's own planner for it."
            )


def root_of(spec: Any) -> tuple[Any, int]:
    """Return the spec whose bytes a spec lies in, and the offset there."""
    offset = 0
    while True:
        # A view's own spec forwards all but its shape to its base.
        while (base := getattr(spec, "_base", None)) is not None:
            spec = base
        base = getattr(spec, "storage_base", None)
        if base is not None:
            offset += spec.storage_base_offset
        elif (base := getattr(spec, "inplace_base", None)) is None:  # as ExecuTorch 1.4 says it
            return spec, offset
        spec = base


def bytes_of(spec: Any) -> int:
    """Return the bytes of a tensor, at most if they vary.

    Raises:
        WorkloadError: they have no bound.
    """
    try:
        return int(spec.nbytes())
    except Exception as error:  # what PyTorch raises for a size that depends on data
        raise WorkloadError(f"A tensor of shape {list(spec.shape)} has a size without a bound: {error}") from None


def graph_program(graph_module: Any, name: str, *, ends: bool = False) -> GraphProgram:
    """Return the program of a graph whose tensors have specs.

    Args:
        graph_module: the graph.
        name: the program's name.
        ends: whether inputs and outputs are blocks, as those of `blocks.with_ends`; then all that ExecuTorch keeps
            alive to its end is an output, even an input.

    Raises:
        WorkloadError: a tensor's size has no bound, or there is no op.
    """
    nodes = list(graph_module.graph.nodes)
    builder, numbers, specs = ProgramBuilder(name, _dtype(nodes)), dict[int, int](), list[Any]()
    ending = {id(root) for node in nodes if node.op == "output" for root in _roots(node.all_input_nodes)}
    computing = [(index, node) for index, node in enumerate(nodes) if _computes(node)]
    sources = {id(root): (node, root) for node in nodes if node.op in _SOURCES for root in _roots([node])}
    spans = list[int]()  # the node of each op

    def numbered(labels: dict[Any, str], kind: TensorKind) -> list[int]:
        for root, label in labels.items():
            if id(root) not in numbers:
                numbers[id(root)] = builder.tensor(label, bytes_of(root), TensorKind.WEIGHT if root.const else kind)
                specs.append(root)
        return [numbers[id(root)] for root in labels]

    if ends:
        used = {id(root) for _, node in computing for root in _roots(node.all_input_nodes)} | ending
        labels = {root: node.name for key, (node, root) in sources.items() if key in used and not root.const}
        if arriving := numbered(labels, TensorKind.ACTIVATION):
            builder.op(ARRIVAL, [], arriving, name=ARRIVAL, bytes_read=dict.fromkeys(arriving, 1))
            spans.append(-1)
    for index, node in computing:
        made = [root for root in dict.fromkeys(_roots([node])) if id(root) not in numbers | sources]
        read = {root: sources.get(id(root), (node,))[0].name for root in _roots([*node.all_input_nodes, node])}
        operands = numbered({root: label for root, label in read.items() if root not in made}, TensorKind.INPUT)
        results = list[int]()
        for place, root in enumerate(made):
            kind = TensorKind.OUTPUT if id(root) in ending and not ends else TensorKind.ACTIVATION
            results += numbered({root: node.name if len(made) == 1 else f"{node.name}.{place}"}, kind)
        if operands or results:
            operator, gathered = _operator(node), dict[int, int]()
            if operator == "embedding" and made:  # it reads the rows that it returns
                gathered[operands[0]] = min(sum(map(bytes_of, made)), bytes_of(specs[operands[0]]))
            taken = [each for each in node.args if hasattr(each, "meta") and _specs(each)]
            options = [value for value in node.args if not hasattr(value, "meta")]
            work = work_of(operator, list(map(_shape, taken)), [_shape(node)] if made else [], options)
            builder.op(operator, operands, results, name=node.name, bytes_read=gathered, **work._asdict())
            spans.append(index)
    if ends:
        spans.append(len(nodes) - 1)
        leaving = [tensor for tensor, root in enumerate(specs) if not root.const and root.lifetime[1] == spans[-1]]
        builder.op(DEPARTURE, leaving, [], name=DEPARTURE, bytes_read=dict.fromkeys(leaving, 1))
    program = builder.build()
    return GraphProgram(program, specs, list(_strays(program, specs, spans)) if ends else [])


def _strays(program: Program, specs: list[Any], spans: list[int]) -> Iterator[int]:
    """Yield the tensors that live at other ops than their specs say; `spans` are the nodes of ops, rising."""
    for tensor, spec in enumerate(specs):
        if not spec.const:
            first, last = spec.lifetime
            lives = bisect_left(spans, first or -1), bisect_right(spans, last) - 1
            if lives != (program.live_start[tensor], program.live_end[tensor]):
                yield tensor


def _is_memory(node: Any, names: set[str]) -> bool:
    """Return whether a node calls one of ExecuTorch's functions about memory."""
    module = getattr(node.target, "__module__", None) or ""
    return node.op == "call_function" and module.endswith("exir.memory") and node.target.__name__ in names


def _computes(node: Any) -> bool:
    """Return whether the runtime executes a node."""
    picks = getattr(node.target, "__name__", "") == "getitem"
    return node.op == "call_function" and not picks and not _is_memory(node, _NO_OPS)


def _specs(node: Any) -> list[Any]:
    """Return the specs of a node's tensors; of a view, its base's."""
    while _is_memory(node, {"view"}):
        node = node.args[0]
    specs = node.meta.get("spec")
    return [spec for spec in (specs if isinstance(specs, list | tuple) else [specs]) if hasattr(spec, "lifetime")]


def _roots(nodes: Any) -> Iterator[Any]:
    """Yield the specs whose bytes the tensors of nodes lie in, without those that have none."""
    return (root for node in nodes for root, _ in map(root_of, _specs(node)) if bytes_of(root))


def _shape(node: Any) -> tuple[int, ...]:
    """Return the shape of a node's first tensor; a size that varies counts as 1."""
    own = node.meta.get("spec")
    spec = own if hasattr(own, "shape") else _specs(node)[0]
    return tuple(size if isinstance(size, int) else 1 for size in spec.shape)


def _operator(node: Any) -> str:
    """Return an operator's name without namespace and overload: that of "aten.mm.out" is "mm"."""
    text = str(node.target)
    parts = text.split(".")
    return parts[1] if len(parts) == 3 and " " not in text else getattr(node.target, "__name__", "op")


def _dtype(nodes: list[Any]) -> str:
    """Return the dtype of most elements, of those that a Program may have; float32 if there are none."""
    total = Counter[str]()
    for root in dict.fromkeys(_roots(nodes)):
        name = str(getattr(root, "dtype", "")).removeprefix("torch.").replace("uint8", "int8")
        if name in FLOAT_BYTES and all(isinstance(size, int) for size in root.shape):
            total[name] += prod(root.shape)
    return total.most_common(1)[0][0] if total else "float32"
