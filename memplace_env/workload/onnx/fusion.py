"""Fusion: which ops a compiler runs as one. Work is conserved; only traffic between the fused ops disappears."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from memplace_env.errors import WorkloadError
from memplace_env.workload.onnx.ops import Buffer, Op, OpGraph

FUSIONS: Final = ("none", "conv", "epilogue")

CONVOLUTIONS: Final = frozenset(("Conv", "ConvTranspose", "QLinearConv"))

ACTIVATIONS: Final = frozenset(
    """
    Cast Celu Clip Elu Gelu HardSigmoid HardSwish LeakyRelu Mish PRelu QuantizeLinear Relu Selu Sigmoid Softplus
    Softsign Swish Tanh ThresholdedRelu
    """.split()
)
"""What "conv" fuses behind a convolution, besides scales, shifts and one residual."""

PRODUCTS: Final = CONVOLUTIONS | {
    "ConvInteger", "DeformConv", "Einsum", "Gemm", "MatMul", "MatMulInteger", "QLinearMatMul",
}  # fmt: skip
"""What "epilogue" fuses element-wise ops behind."""

_ARITHMETIC: Final = frozenset(("Add", "Div", "Mul", "Sub"))
_SUMS: Final = frozenset(("Add", "Sum"))
_GEOMETRY_CHANNELS: Final = 6


def fuse(graph: OpGraph, fusion: str) -> OpGraph:
    """Fuses ops.

    - "none": nothing.
    - "conv": a convolution takes in the BatchNormalization, constant scales and shifts (these fold into its weights and
      bias), activations and one residual Add behind it. The Add goes to the convolution whose result is the later of
      its operands.
    - "epilogue": also element-wise ops into the element-wise ops and into the one matrix product whose result, of the
      same size, only they read.

    A value fused away is no graph output and nothing outside the fused op reads it. A fused op runs when its last
    member would have run, so its operands are ready.

    Raises:
        WorkloadError: an unknown setting.
    """
    try:
        passes = _PASSES[fusion]
    except KeyError:
        raise WorkloadError(f"fusion is {fusion!r}; it must be one of {', '.join(FUSIONS)}.") from None
    for one_pass in passes:
        graph = one_pass(graph)
    return graph


class _Links:
    """Who makes and who reads each buffer, by op index."""

    def __init__(self, graph: OpGraph) -> None:
        self.producer = {name: index for index, op in enumerate(graph.ops) for name in op.outputs}
        self.readers: dict[str, set[int]] = {}
        for index, op in enumerate(graph.ops):
            for name in op.reads:
                self.readers.setdefault(name, set()).add(index)


@dataclass(slots=True)
class _Group:
    """Ops to be run as one: indices in execution order, the main one, operands that fold away or come in."""

    members: list[int]
    main: int
    folded: set[str] = field(default_factory=set)
    bias: tuple[str, Buffer] | None = None


def _regrouped(graph: OpGraph, groups: Iterable[_Group]) -> OpGraph:
    """The graph with each group as one op at the place of its last member."""
    fused: dict[int, Op | None] = {}
    buffers = dict(graph.buffers)
    for group in groups:
        fused |= dict.fromkeys(group.members)
        fused[max(group.members)] = _merged(graph, group)
        if group.bias is not None:
            buffers[group.bias[0]] = group.bias[1]
    ops = (fused.get(index, op) for index, op in enumerate(graph.ops))
    return OpGraph(tuple(op for op in ops if op is not None), buffers, graph.outputs)


def _merged(graph: OpGraph, group: _Group) -> Op:
    main = graph.ops[group.main]
    members = [graph.ops[index] for index in sorted(group.members)]
    inside = {name for op in members[:-1] for name in op.outputs} | group.folded
    reads: dict[str, int] = {}
    for op in (main, *members):
        for name, elements in op.reads.items():
            if name not in inside:
                reads[name] = max(elements, reads.get(name, 0))
    if group.bias is not None:
        reads[group.bias[0]] = group.bias[1].elements
    return Op(
        op_type=main.op_type,
        name=main.name,
        inputs=tuple(reads),
        outputs=members[-1].outputs,
        reads=reads,
        gemm=main.gemm,
        vector_ops=sum(op.vector_ops for op in members),
        geometry=main.geometry,
        elementwise=main.elementwise,
    )


def _fuse_convolutions(graph: OpGraph) -> OpGraph:
    links = _Links(graph)
    chains = (_ConvChain(graph, links, index) for index, op in enumerate(graph.ops) if op.op_type in CONVOLUTIONS)
    groups = [chain.grown() for chain in chains]
    return _regrouped(graph, (group for group in groups if len(group.members) > 1))


class _ConvChain:
    """Grows a group forwards from one convolution."""

    def __init__(self, graph: OpGraph, links: _Links, index: int) -> None:
        self._graph = graph
        self._links = links
        self._conv = graph.ops[index]
        self._group = _Group([index], index)
        self._result = self._conv.outputs[0]
        self._elements = graph.buffers[self._result].elements
        bias = 8 if self._conv.op_type == "QLinearConv" else 2
        self._has_bias = len(self._conv.inputs) > bias and self._conv.inputs[bias] is not None
        self._linear = True
        self._residual = False

    def grown(self) -> _Group:
        steps: tuple[Callable[[set[int]], bool], ...] = (self._scale, self._activate, self._gate, self._add_residual)
        while self._result not in self._graph.outputs:
            readers = self._links.readers[self._result]
            if not any(step(readers) for step in steps):
                break
        return self._group

    def _take(self, *indices: int) -> bool:
        self._group.members.extend(indices)
        self._result = self._graph.ops[indices[-1]].outputs[0]
        return True

    def _only_reader(self, readers: set[int]) -> tuple[int, Op] | None:
        """The one op that reads the result, if it keeps its size."""
        if len(readers) != 1:
            return None
        (index,) = readers
        op = self._graph.ops[index]
        fits = len(op.outputs) == 1 and self._graph.buffers[op.outputs[0]].elements == self._elements
        return (index, op) if fits else None

    def _scale(self, readers: set[int]) -> bool:
        """Folds a BatchNormalization, or a constant scale or shift per channel, into weights and bias."""
        reader = self._only_reader(readers)
        if not self._linear or reader is None:
            return False
        index, op = reader
        others = [name for name in op.reads if name != self._result]
        if not (self._is_normalisation(op, others) or self._is_scale(op, others)):
            return False
        if op.op_type in ("Add", "Sub") and others and not self._has_bias:
            self._has_bias = True  # the shift itself becomes the bias
        else:
            self._group.folded.update(others)
            if op.op_type != "Mul" and op.op_type != "Div":
                self._add_bias()
        return self._take(index)

    def _is_normalisation(self, op: Op, others: list[str]) -> bool:
        return op.op_type == "BatchNormalization" and op.inputs[0] == self._result and self._constant(others)

    def _is_scale(self, op: Op, others: list[str]) -> bool:
        divides = op.op_type == "Div" and op.inputs[0] != self._result
        small = all(self._graph.buffers[name].elements == self._channels for name in others)
        known = op.op_type in _ARITHMETIC and not divides and op.inputs.count(self._result) == 1
        return known and small and self._constant(others)

    def _constant(self, names: Iterable[str]) -> bool:
        return all(self._graph.buffers[name].constant for name in names)

    @property
    def _channels(self) -> int:
        return self._conv.geometry[_GEOMETRY_CHANNELS]

    def _add_bias(self) -> None:
        if self._has_bias:
            return
        self._has_bias = True
        weight = next(self._graph.buffers[name] for name in self._conv.reads if self._graph.buffers[name].constant)
        self._group.bias = (
            f"{self._conv.name}/folded_bias",
            Buffer(self._channels, weight.element_type, weight.bits, constant=True),
        )

    def _is_unary(self, op: Op, operand: str) -> bool:
        """Whether the op works on `operand` alone, apart from single numbers and an activation's constants."""
        others = [name for name in op.reads if name != operand]
        if op.op_type in _ARITHMETIC:
            return not others
        return op.op_type in ACTIVATIONS and op.inputs[0] == operand and self._constant(others)

    def _activate(self, readers: set[int]) -> bool:
        reader = self._only_reader(readers)
        if reader is None or not self._is_unary(reader[1], self._result):
            return False
        self._linear = False
        return self._take(reader[0])

    def _gate(self, readers: set[int]) -> bool:
        """A result times a function of itself, as in SiLU or a spelled-out hard swish or Mish."""
        if len(readers) != 2:
            return False
        first, last = sorted(readers)
        product = self._graph.ops[last]
        path = self._unary_path(first, last)
        if product.op_type != "Mul" or not path or set(product.reads) != {self._result, path[-1][1]}:
            return False
        self._linear = False
        return self._take(*(index for index, _ in path), last)

    def _unary_path(self, start: int, end: int) -> list[tuple[int, str]]:
        """The ops, each with its result, that lead from the chain's result to op `end`; empty if none do."""
        path: list[tuple[int, str]] = []
        index, operand = start, self._result
        while index != end:
            op = self._graph.ops[index]
            if len(op.outputs) != 1 or not self._is_unary(op, operand) or op.outputs[0] in self._graph.outputs:
                return []
            operand = op.outputs[0]
            path.append((index, operand))
            readers = self._links.readers[operand]
            if len(readers) != 1:
                return []
            (index,) = readers
        return path

    def _add_residual(self, readers: set[int]) -> bool:
        reader = self._only_reader(readers)
        if self._residual or reader is None or reader[1].op_type not in _SUMS or len(reader[1].reads) != 2:
            return False
        (other,) = reader[1].reads.keys() - {self._result}
        if self._links.producer.get(other, -1) > self._links.producer[self._result]:
            return False
        self._linear, self._residual = False, True
        return self._take(reader[0])


def _fuse_elementwise(graph: OpGraph) -> OpGraph:
    links = _Links(graph)
    groups: dict[int, _Group] = {}
    for index, op in enumerate(graph.ops):
        groups[index] = _Group([index], index)
        if op.elementwise and len(op.outputs) == 1:
            _absorb_producers(graph, links, groups, index)
    return _regrouped(graph, (group for group in groups.values() if len(group.members) > 1))


def _absorb_producers(graph: OpGraph, links: _Links, groups: dict[int, _Group], index: int) -> None:
    """Merges into the group of an element-wise op, the latest first, every group that it alone reads.

    `groups` maps the last member of each group, which makes its only result, to the group.
    """
    group, elements = groups[index], graph.buffers[graph.ops[index].outputs[0]].elements
    grew = True
    while grew:
        grew = False
        for producer, name in _operands(graph, links, group):
            made = groups[producer]
            main = graph.ops[made.main]
            matrix = main.op_type in PRODUCTS
            if (
                (matrix or main.elementwise)
                and not (matrix and graph.ops[group.main].op_type in PRODUCTS)
                and graph.ops[producer].outputs == (name,)
                and name not in graph.outputs
                and graph.buffers[name].elements == elements
                and links.readers[name] <= set(group.members)
            ):
                del groups[producer]
                group.members.extend(made.members)
                group.main = made.main if matrix else group.main
                grew = True
                break
    if graph.ops[group.main].elementwise:
        group.main = min(group.members)


def _operands(graph: OpGraph, links: _Links, group: _Group) -> list[tuple[int, str]]:
    """Buffers that come into a group from other ops, with their producers, the latest first."""
    inside = set(group.members)
    names = {name for member in group.members for name in graph.ops[member].reads}
    made = ((links.producer[name], name) for name in names if name in links.producer)
    return sorted(((producer, name) for producer, name in made if producer not in inside), reverse=True)


_PASSES: Final[Mapping[str, tuple[Callable[[OpGraph], OpGraph], ...]]] = {
    "none": (),
    "conv": (_fuse_convolutions,),
    "epilogue": (_fuse_convolutions, _fuse_elementwise),
}
