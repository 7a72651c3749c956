"""Results of ONNX Runtime's own operators, for which ONNX has no shape inference, by output position."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from onnx import TensorProto, TypeProto, defs, helper, shape_inference

from memplace_env.program.lowering.graph_values import Value
from memplace_env.program.lowering.node_graph import Site

Shapes = Callable[[Site], Sequence[Value | None]]


def standard(op_type: str, positions: Sequence[int], opset: int) -> Shapes:
    """Return the rule of an operator whose result is that of an ONNX operator on the inputs at these positions.

    The type is that of the first of them, which the ONNX operator may not take.
    """
    schema = defs.get_schema(op_type, opset, "")

    def rule(site: Site) -> Sequence[Value | None]:
        given = {f"i{p}": value for p in positions if (value := site.input(p)) is not None}
        known = {name: value for name, value in site.node.attributes.items() if name in schema.attributes}
        node = helper.make_node(op_type, list(given), ["o"], **known)
        types = {name: helper.make_tensor_type_proto(TensorProto.FLOAT, v.shape) for name, v in given.items()}
        inferred: TypeProto = shape_inference.infer_node_outputs(
            schema, node, types, {}, opset_imports=[helper.make_opsetid("", opset)]
        )["o"]
        dims = [dim.dim_value for dim in inferred.tensor_type.shape.dim]
        return (Value(tuple(dims), site.needed(positions[0]).element_type),)

    return rule


def broadcast(*positions: int) -> Shapes:
    """Return the rule of an element-wise operator on the inputs at these positions, with the last one's type."""

    def rule(site: Site) -> Sequence[Value | None]:
        values = [site.needed(position) for position in positions]
        return (Value(np.broadcast_shapes(*(value.shape for value in values)), values[-1].element_type),)

    return rule


def typed(shapes: Shapes, position: int, default: int) -> Shapes:
    """Return the rule with the type of the input at a position, or the default type if that is absent."""

    def rule(site: Site) -> Sequence[Value | None]:
        like = site.input(position)
        first, *others = shapes(site)
        assert first is not None
        return (Value(first.shape, default if like is None else like.element_type), *others)

    return rule


def halved(site: Site) -> Sequence[Value | None]:
    """Return half of the last axis, of which one half is a gate."""
    first = site.needed(0)
    return (Value((*first.shape[:-1], first.shape[-1] // 2), first.element_type),)


def concatenated(site: Site) -> Sequence[Value | None]:
    """Return the concatenation of quantised tensors: each comes with its scale and zero point, behind the result's."""
    parts = [value for value in site.inputs[2::3] if value is not None]
    axis = site.attribute("axis", 0)
    shape = list(parts[0].shape)
    shape[axis] = sum(part.shape[axis] for part in parts)
    return (Value(tuple(shape), parts[0].element_type),)


def product(right: int) -> Shapes:
    """Return the rule of a matrix product with the operand at a position; attributes may transpose both."""

    def rule(site: Site) -> Sequence[Value | None]:
        a, b = factors(site, right)
        batch = np.broadcast_shapes(a[:-2], b[:-2])
        return (Value((*batch, a[-2], b[-1]), site.needed(0).element_type),)

    return rule


def factors(site: Site, right: int = 1) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the shapes of a product's operands once they are transposed; at least two axes each.

    Raises:
        ValueError: they do not fit together.
    """

    def turned(shape: tuple[int, ...], name: str) -> tuple[int, ...]:
        shape = shape if len(shape) > 1 else (1, *shape)
        if site.attribute(f"transBatch{name}", 0):
            shape = (*shape[1:-1], shape[0], shape[-1])
        return (*shape[:-2], shape[-1], shape[-2]) if site.attribute(f"trans{name}", 0) else shape

    a, b = turned(site.needed(0).shape, "A"), turned(site.needed(right).shape, "B")
    if a[-1] != b[-2]:
        raise ValueError(f"a product of {list(a)} and {list(b)}")
    return a, b


def packed_product(site: Site) -> Sequence[Value | None]:
    """Return the product with a matrix whose numbers of few bits are packed; attributes give its size."""
    a = site.needed(0)
    if a.shape[-1] != site.attribute("K", 0):
        raise ValueError(f"a product of {list(a.shape)} and a matrix of {site.attribute('K', 0)} rows")
    return (Value((*a.shape[:-1], site.attribute("N", 0)), a.element_type),)


def gathered(site: Site) -> Sequence[Value | None]:
    """Return rows of a table of few bits as floats; bytes hold several numbers of the last axis each."""
    table, indices, scales = (site.needed(position) for position in range(3))
    axis = site.attribute("gather_axis", 0) % len(table.shape)
    packed = 8 // site.attribute("bits", 4) if table.element_type == TensorProto.UINT8 else 1
    shape = (*table.shape[:-1], table.shape[-1] * packed)
    return (Value((*shape[:axis], *indices.shape, *shape[axis + 1 :]), scales.element_type),)


def lstm(site: Site) -> Sequence[Value | None]:
    """Return the outputs of all steps, and output and cells of the last; matrices are [directions, depth, columns]."""
    data, directions, cells = site.needed(0), site.needed(1).shape[0], site.needed(2).shape[1]
    steps, batch, features = data.shape
    if site.needed(1).shape[1:] != (features, 4 * cells) or site.needed(2).shape != (directions, cells, 4 * cells):
        raise ValueError(f"an input {list(data.shape)} with matrices {list(site.needed(1).shape)}")
    last = Value((directions, batch, cells), data.element_type)
    return Value((steps, directions, batch, cells), data.element_type), last, last


def normalised(statistics: int) -> Shapes:
    """Return the rule of a normalisation: the result, that many statistics of each row, the sum that is normalised."""

    def rule(site: Site) -> Sequence[Value | None]:
        first = site.needed(0)
        rows = Value((*first.shape[:-1], 1), TensorProto.FLOAT)
        return (Value(first.shape, first.element_type), *[rows] * statistics, Value(first.shape, first.element_type))

    return rule


def embedded(site: Site) -> Sequence[Value | None]:
    """Return the rows of a table for each index, the lengths of the sequences, and the sum that is normalised."""
    indices, table = site.needed(0), site.needed(2)
    rows = Value((*indices.shape, table.shape[-1]), table.element_type)
    return rows, Value(indices.shape[:1], TensorProto.INT32), rows


def projected_attention(past: int) -> Shapes:
    """Return the rule of attention that projects its input; the cache of keys and values is the input at `past`."""

    def rule(site: Site) -> Sequence[Value | None]:
        data, sizes = site.needed(0), projections(site)
        batch, length, _ = data.shape
        cache, heads = site.input(past), site.attribute("num_heads", 1)
        cached = 0 if cache is None else cache.shape[-2]
        present = Value((2, batch, heads, cached + length, sizes[1] // heads), data.element_type)
        return Value((batch, length, sizes[2]), data.element_type), present

    return rule


def projections(site: Site) -> tuple[int, int, int]:
    """Return the sizes of query, key and value of all heads, which the columns of one matrix make.

    Raises:
        ValueError: they do not fit together.
    """
    depth, columns = site.needed(1).shape
    sizes = tuple(site.attribute("qkv_hidden_sizes", ())) or (columns // 3,) * 3
    if site.needed(0).shape[-1] != depth or len(sizes) != 3 or sum(sizes) != columns or min(sizes) < 1:
        raise ValueError(f"an input {list(site.needed(0).shape)} with projections {[depth, columns]}")
    return sizes[0], sizes[1], sizes[2]


def attention(site: Site) -> Sequence[Value | None]:
    """Return the result of attention and its cache of keys and of values."""
    sizes, first = attention_sizes(site), site.needed(0)
    kept = [(sizes.batch, sizes.kept_heads, sizes.keys, depth) for depth in (sizes.depth, sizes.value_depth)]
    result = Value((sizes.batch, sizes.rows, sizes.heads * sizes.value_depth), first.element_type)
    return result, *(Value(shape, first.element_type) for shape in kept)


class AttentionSizes:
    """Sizes of attention between tensors that are projected already, with or without a cache.

    Query, key and value are [batch, length, features] each; or all three are packed as [batch, length, heads, 3,
    depth], the last two as [batch, length, heads, 2, depth], or one after the other as one tensor's features; or keys
    and values are [batch, heads, length, depth], as from an encoder.

    Attributes:
        batch, heads, rows: of the queries.
        keys: length of the keys with the cache.
        kept_heads: number of heads of keys and values.
        depth, value_depth: features of a head.
    """

    def __init__(self, site: Site, past: int) -> None:
        query, key, value = site.needed(0).shape, site.input(1), site.input(2)
        self.heads = site.attribute("num_heads", 1)
        self.kept_heads = site.attribute("kv_num_heads", self.heads)
        self.batch, self.rows, *features = query
        if key is None and len(features) == 1:  # query, key and value one after the other
            self.depth = features[0] // (self.heads + 2 * self.kept_heads)
        else:
            self.depth = features[-1] if len(features) > 1 else features[0] // self.heads
        self.value_depth, self.keys = self.depth, self.rows
        if key is not None:
            per_head = len(key.shape) == 4
            self.keys = key.shape[2 if per_head else 1]
            if value is not None:
                self.value_depth = value.shape[-1] if per_head else value.shape[-1] // self.kept_heads
        cache = site.input(past)
        self.keys += 0 if cache is None else cache.shape[2]
        if min(self.depth, self.value_depth, self.kept_heads) < 1:
            raise ValueError(f"{self.heads} heads of {list(query)}")


def attention_sizes(site: Site) -> AttentionSizes:
    """Return the sizes at a node of attention, by the position that its operator has for a cache of keys."""
    grouped = "kv_num_heads" in site.node.attributes
    return AttentionSizes(site, 3 if grouped else 6)


def elements(site: Site, positions: Sequence[int]) -> int:
    """Return the elements of the inputs at these positions that are there."""
    return sum(math.prod(value.shape) for position in positions if (value := site.input(position)) is not None)
