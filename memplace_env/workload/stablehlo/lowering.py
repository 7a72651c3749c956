"""From straight-line code to ops over buffers: views disappear, what readers can make themselves goes into them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Set
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from memplace_env.errors import WorkloadError
from memplace_env.workload.lowered.geometry import geometry_columns
from memplace_env.workload.lowered.graph import Node as OnnxNode
from memplace_env.workload.lowered.graph import Site
from memplace_env.workload.lowered.lowering import MAX_WORK
from memplace_env.workload.lowered.ops import Buffer, Op, OpGraph
from memplace_env.workload.lowered.values import FLOAT_BITS, Value, deployed_bits
from memplace_env.workload.stablehlo.aliases import InPlace
from memplace_env.workload.stablehlo.operators import (
    MIRRORS,
    VIEWS,
    gemm,
    is_elementwise,
    is_move,
    operator,
    vector_ops,
)
from memplace_env.workload.stablehlo.tracer import Node, Trace
from memplace_env.workload.stablehlo.windows import in_onnx_order


@dataclass(frozen=True, slots=True)
class _Source:
    """Where the elements of a value come from.

    Attributes:
        reads: elements read of each buffer.
        buffer: the buffer that the value is, None if readers make it themselves or it is constant.
        widened: copies of other types that readers make on the way, by name.
        aligned: whether each element is that of the buffer at the same place.
    """

    reads: Mapping[str, int] = field(default_factory=dict)
    buffer: str | None = None
    widened: tuple[str, ...] = ()
    aligned: bool = True


def lower(
    trace: Trace, dtype: str | None, weights: Set[str], aliases: Mapping[str, str], dissolve: bool
) -> tuple[OpGraph, Mapping[str, InPlace]]:
    """The ops of a trace and the buffers they use, and how ops can work in place, by name.

    Args:
        trace: straight-line code.
        dtype: the deployment dtype of all floating-point tensors, None to keep the module's.
        weights: names of the arguments that are weights.
        aliases: by name of an output, the argument whose place it takes.
        dissolve: whether readers make slices and widened copies themselves, as they always make broadcasts.

    Raises:
        WorkloadError: an operation without a row, or one that contradicts itself.
    """
    return _Lowering(trace, dtype, weights, dissolve).run(aliases)


class _Lowering:
    def __init__(self, trace: Trace, dtype: str | None, weights: Set[str], dissolve: bool) -> None:
        self._trace = trace
        self._dtype = dtype
        self._weights = weights
        self._dissolve = dissolve
        self._buffers: dict[str, Buffer] = {}
        self._sources: dict[str, _Source] = {}
        self._outputs = set(trace.outputs)
        self._counted: set[str] = set()
        self._in_place: dict[str, InPlace] = {}

    def run(self, aliases: Mapping[str, str]) -> tuple[OpGraph, Mapping[str, InPlace]]:
        for name in (*self._trace.arguments, *self._trace.literals):
            self._own(name)
        ops = []
        for node in self._trace.nodes:
            with _blaming(node):
                source = self._without_op(node)
                if source is None:
                    ops.append(self._op(node))
                else:
                    self._sources[node.outputs[0]] = source
        made = {name for op in ops for name in op.outputs}
        roots = {name: self._sources[name].buffer for name in self._trace.outputs if name in self._sources}
        outputs = frozenset(root for root in roots.values() if root is not None and root in made)
        places: dict[str, str] = {}
        for name, argument in aliases.items():
            root = roots.get(name)
            fits = root in outputs and argument in self._buffers and argument not in places.values()
            fits = fits and self._sources[name].aligned
            if root is not None and fits and self._buffers[root].bytes == self._buffers[argument].bytes:
                places.setdefault(root, argument)
        return OpGraph(tuple(ops), self._buffers, outputs, places), self._in_place

    def _own(self, name: str) -> None:
        """Enters a value that is a buffer of its own."""
        value = self._value(name)
        if not value.elements:
            self._sources[name] = _Source()
            return
        bits = deployed_bits(value.element_type, self._dtype)
        assert bits is not None  # the reader refuses types without a size
        constant = name in self._weights or name in self._trace.literals
        self._buffers[name] = Buffer(value.elements, value.element_type, bits, constant)
        self._sources[name] = _Source({name: value.elements}, name)

    def _value(self, name: str) -> Value:
        return self._trace.values[name]

    def _source(self, name: str) -> _Source:
        return self._sources.get(name, _Source())

    def _without_op(self, node: Node) -> _Source | None:
        """Where the result comes from if the node is no op."""
        if len(node.outputs) != 1 or not node.inputs:
            return None
        value, operand = self._value(node.outputs[0]), self._value(node.inputs[0])
        source, same = self._source(node.inputs[0]), operand.elements == value.elements
        delivered = node.outputs[0] in self._outputs
        if delivered and source.buffer is None:
            return None
        if node.name in VIEWS or (same and self._is_view(node)):
            return replace(source, aligned=source.aligned and node.name not in MIRRORS)
        if delivered:
            return None
        if node.name == "broadcast_in_dim":
            return replace(source, buffer=None, aligned=False)
        if not self._dissolve:
            return None
        if node.name in ("slice", "dynamic_slice"):
            share = value.elements / max(1, operand.elements)
            reads = {name: max(1, math.ceil(elements * share)) for name, elements in source.reads.items()}
            return _Source(reads, None, source.widened, False)
        if node.name == "convert" and self._widens(operand, value):
            return _Source(source.reads, None, (*source.widened, node.outputs[0]), source.aligned)
        return None

    def _is_view(self, node: Node) -> bool:
        if node.name in (
            "broadcast_in_dim",
            "slice",
            "dynamic_slice",
            "concatenate",
            "pad",
            "reduce",
            "bitcast_convert",
        ):
            return node.name != "pad" or not any(
                map(any, (node.attributes.get(f"edge_padding_{side}", ()) for side in ("low", "high")))
            )
        if node.name != "convert":
            return False
        before, after = self._value(node.inputs[0]), self._value(node.outputs[0])
        both_float = before.element_type in FLOAT_BITS and after.element_type in FLOAT_BITS
        return before.element_type == after.element_type or (both_float and self._bits(before) == self._bits(after))

    def _bits(self, value: Value) -> int:
        return deployed_bits(value.element_type, self._dtype) or 0

    def _widens(self, before: Value, after: Value) -> bool:
        return self._bits(before) < self._bits(after)

    def _op(self, node: Node) -> Op:
        product, work = gemm(node, self._trace.values), vector_ops(node, self._trace.values)
        reads: dict[str, int] = {}
        for name in dict.fromkeys(node.inputs):
            source = self._source(name)
            work += sum(self._value(each).elements for each in source.widened if each not in self._counted)
            self._counted.update(source.widened)
            for buffer, elements in source.reads.items():
                reads[buffer] = min(self._buffers[buffer].elements, reads.get(buffer, 0) + elements)
        if node.name in ("gather", "dynamic_slice", "slice"):
            self._read_in_part(node, reads)
        if max(math.prod(product), work) > MAX_WORK:
            raise WorkloadError(f"A {node.name} does an absurd amount of work; check the shapes.")
        for name in node.outputs:
            self._own(name)
        row = operator(node)
        inputs = tuple(self._input(name) for name in node.inputs)
        outputs = tuple(name for name in node.outputs if name in self._buffers)
        if is_move(node):
            row = replace(row, elementwise=True)
        self._in_place[node.outputs[0]] = self._works_in_place(node)
        return Op(row, node.outputs[0], inputs, outputs, reads, product, work, self._geometry(node))

    def _works_in_place(self, node: Node) -> InPlace:
        sources = [self._source(name) for name in node.inputs]
        if node.name in ("dynamic_update_slice", "scatter") and len(node.outputs) == 1:
            update = self._value(node.inputs[1] if node.name != "scatter" else node.inputs[-1]).elements
            kept, written, reads_old = sources[:1], update, bool(node.body)
        else:
            kept, written, reads_old = sources if is_elementwise(node) else [], None, False
        size = self._value(node.outputs[0]).elements
        aligned = [
            source.aligned and sum(source.reads.values()) == size and len(source.reads) == 1 for source in kept
        ] + [False] * (len(sources) - len(kept))
        chosen = [{*source.reads} for source, fits in zip(sources, aligned, strict=True) if fits]
        others = [{*source.reads} for source, fits in zip(sources, aligned, strict=True) if not fits]
        return InPlace(frozenset(set().union(*chosen) - set().union(*others)), written, reads_old)

    def _input(self, name: str) -> str | None:
        """The one buffer that an operand comes from."""
        source = self._source(name)
        return next(iter(source.reads)) if len(source.reads) == 1 else None

    def _read_in_part(self, node: Node, reads: dict[str, int]) -> None:
        """Of the table only what ends up in the result is read."""
        table = self._source(node.inputs[0])
        others = {name for other in node.inputs[1:] for name in self._source(other).reads}
        for name in table.reads.keys() - others:
            reads[name] = min(reads[name], max(1, self._value(node.outputs[0]).elements))

    def _geometry(self, node: Node) -> tuple[int, ...]:
        """As of the ONNX node that does the same."""
        values = [self._value(name) for name in node.inputs]
        result, attributes = self._value(node.outputs[0]), {}
        if node.name == "convolution":
            dims, about = node.attributes["dimension_numbers"], node.attributes
            rank = len(dims["input_spatial"])
            sides = (
                (values[0], "input_batch", "input_feature", "input_spatial"),
                (values[1], "kernel_output_feature", "kernel_input_feature", "kernel_spatial"),
                (result, "output_batch", "output_feature", "output_spatial"),
            )
            shaped = [replace(v, shape=in_onnx_order(v.shape, *(dims[each] for each in names))) for v, *names in sides]
            values, result = shaped[:2], shaped[2]
            padding = about.get("padding", [[0, 0]] * rank)
            attributes = {
                "group": about.get("feature_group_count", 1),
                "strides": about.get("window_strides", (1,) * rank),
                "dilations": about.get("rhs_dilation", (1,) * rank),
                "pads": (*(low for low, _ in padding), *(high for _, high in padding)),
            }
        names = (node.inputs, node.outputs)
        onnx = OnnxNode(operator(node), node.name, *names, attributes)
        return geometry_columns(Site(onnx, tuple(values), (result,), self._dtype, False), node.name != "convolution")


@contextmanager
def _blaming(node: Node) -> Iterator[None]:
    """Turns what a rule trips over in a damaged operation into a WorkloadError."""
    try:
        yield
    except WorkloadError:
        raise
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        raise WorkloadError(f"Attributes and operands of a {node.name} do not fit together: {error}.") from error
