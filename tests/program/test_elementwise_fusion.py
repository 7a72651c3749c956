"""Element-wise fusion, which looks at each candidate once, against a plain one that looks at all again and again."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto

from memplace_env.program.frontends.onnx.onnx_operators import OPERATORS
from memplace_env.program.lowering.buffer_ops import Buffer, Op, OpGraph
from memplace_env.program.lowering.fusion.elementwise_chains import fuse_elementwise
from memplace_env.program.lowering.fusion.groups import Group, Links, regrouped


def plainly_fused(graph: OpGraph, into_products: bool) -> OpGraph:
    """Reference for `fuse_elementwise`: each op takes in every candidate, the latest first, and then begins anew."""
    links, groups = Links(graph), {}
    for index, op in enumerate(graph.ops):
        group = groups[index] = Group([index], index)
        while op.operator.elementwise and len(op.outputs) == 1:
            made = next(
                filter(
                    lambda index: _may_join(graph, links, groups, group, index, into_products),
                    _makers(graph, links, group),
                ),
                None,
            )
            if made is None:
                break
            joined = groups.pop(made)
            group.members += joined.members
            group.main = joined.main if graph.ops[joined.main].operator.epilogue_head else group.main
        if graph.ops[group.main].operator.elementwise:
            group.main = min(group.members)
    return regrouped(graph, (group for group in groups.values() if len(group.members) > 1))


def _makers(graph: OpGraph, links: Links, group: Group) -> list[int]:
    """Ops outside the group whose results come into it, the latest first."""
    names = {name for member in group.members for name in graph.ops[member].reads}
    return sorted({links.producer[name] for name in names if name in links.producer} - {*group.members}, reverse=True)


def _may_join(
    graph: OpGraph, links: Links, groups: dict[int, Group], group: Group, maker: int, into_products: bool
) -> bool:
    op = graph.ops[maker]
    if maker not in groups or len(op.outputs) != 1 or op.outputs[0] in graph.outputs:
        return False
    operator = graph.ops[groups[maker].main].operator
    closed = not into_products or graph.ops[group.main].operator.epilogue_head
    result, last = graph.buffers[op.outputs[0]], graph.buffers[graph.ops[max(group.members)].outputs[0]]
    kind_fits = operator.elementwise or (operator.epilogue_head and not closed)
    return kind_fits and result.elements == last.elements and links.readers[op.outputs[0]] <= {*group.members}


@st.composite
def graphs(draw: st.DrawFn) -> OpGraph:
    """Small graphs of element-wise ops, products and others, of one or two results, mostly read soon."""
    names, ops = ["x", "w"], []
    buffers = {name: Buffer(4, TensorProto.FLOAT, 8, name == "w") for name in names}
    for index in range(draw(st.integers(1, 14))):
        kind = draw(st.sampled_from(["Relu", "Add", "Mul", "Add", "MatMul", "Transpose", "Split"]))
        inputs = tuple(draw(st.sampled_from(names[-4:])) for _ in range(2 if kind in ("Add", "Mul", "MatMul") else 1))
        outputs = tuple(f"v{index}{part}" for part in ("ab" if kind == "Split" else "a"))
        for name in outputs:
            buffers[name] = Buffer(draw(st.sampled_from([4, 4, 4, 4, 5])), TensorProto.FLOAT, 8, False)
        names += outputs
        reads = {name: buffers[name].elements for name in inputs}
        ops.append(Op(OPERATORS[kind], f"n{index}", inputs, outputs, reads, (0, 0, 0, 0), 1, (0,) * 14))
    outputs = draw(st.sets(st.sampled_from(names[2:]), max_size=2)) | {names[-1]}
    read = {name for op in ops for name in op.reads}
    return OpGraph(tuple(ops), buffers, frozenset(outputs | {name for name in names[2:] if name not in read}))


@given(graphs(), st.booleans())
def test_fusion_is_the_plain_one(graph, into_products):
    fused, expected = fuse_elementwise(graph, into_products), plainly_fused(graph, into_products)
    assert fused.ops == expected.ops
    assert [list(op.reads) for op in fused.ops] == [list(op.reads) for op in expected.ops]
