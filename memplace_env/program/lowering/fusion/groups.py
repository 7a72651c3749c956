"""Groups of ops that run as one."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace

from memplace_env.program.lowering.buffer_ops import Buffer, Op, OpGraph
from memplace_env.program.lowering.independence import WHOLE, Independent, meet


class Links:
    """The producer and the readers of each buffer, by op index.

    Attributes:
        producer: index of the op that writes a buffer; weights and graph inputs have none.
        readers: indices of the ops that read a buffer.
    """

    def __init__(self, graph: OpGraph) -> None:
        self.producer = {name: index for index, op in enumerate(graph.ops) for name in op.outputs}
        self.readers: dict[str, set[int]] = {}
        for index, op in enumerate(graph.ops):
            for name in op.reads:
                self.readers.setdefault(name, set()).add(index)


@dataclass(slots=True)
class Group:
    """Ops to be run as one.

    Attributes:
        members: indices of the ops.
        main: the member that gives the fused op its operator, name and matrix product.
        folded: names of constant operands that disappear into the main op's weights and bias.
        bias: name and buffer of a bias that this adds to the main op, None if none.
    """

    members: list[int]
    main: int
    folded: set[str] = field(default_factory=set)
    bias: tuple[str, Buffer] | None = None


def regrouped(graph: OpGraph, groups: Iterable[Group]) -> OpGraph:
    """Return the graph with each group as one op at the position of its last member.

    Results that are read outside their group or nowhere, or are graph outputs, are still written. The parts of a tensor
    that several members read add up, at most to the whole tensor.
    """
    links = Links(graph)
    fused: dict[int, Op | None] = {}
    buffers = dict(graph.buffers)
    for group in groups:
        fused |= dict.fromkeys(group.members)
        fused[max(group.members)] = _merged(graph, links, group)
        if group.bias is not None:
            buffers[group.bias[0]] = group.bias[1]
    ops = (fused.get(index, op) for index, op in enumerate(graph.ops))
    return replace(graph, ops=tuple(op for op in ops if op is not None), buffers=buffers)


def _merged(graph: OpGraph, links: Links, group: Group) -> Op:
    main = graph.ops[group.main]
    members = [graph.ops[index] for index in sorted(group.members)]
    results = [name for op in members for name in op.outputs]
    inside, within = {*results, *group.folded}, set(group.members)
    reads: dict[str, int] = {}
    for op in (main, *(member for member in members if member is not main)):
        for name, elements in op.reads.items():
            if name not in inside:
                whole = graph.buffers[name].elements
                reads[name] = min(whole, reads.get(name, 0) + elements)
    if group.bias is not None:
        reads[group.bias[0]] = group.bias[1].elements
    outputs = tuple(name for name in results if name in graph.outputs or links.readers.get(name, {-1}) - within)
    independent: dict[str, list[Independent]] = {}
    for op in members:
        for name in (*op.reads, *op.outputs):
            independent.setdefault(name, []).append(op.independent.get(name, WHOLE))
    return Op(
        operator=main.operator,
        name=main.name,
        inputs=tuple(reads),
        outputs=outputs,
        reads=reads,
        gemm=main.gemm,
        vector_ops=sum(op.vector_ops for op in members),
        geometry=main.geometry,
        nodes=tuple(name for op in members for name in op.nodes),
        independent={name: meet(cuts) for name, cuts in independent.items()},
        aligned=aligned_together(members, outputs),
    )


def aligned_together(members: Sequence[Op], outputs: Collection[str]) -> frozenset[tuple[str, str]]:
    """Return the pairs `Op.aligned` of ops, in order, that run as one and write these outputs.

    An operand is aligned with a result if every member that depends on the operand does so element by element: any
    other would need elements of it that are overwritten already.
    """
    # By buffer, the outputs that depend on it, itself included; None if anything does otherwise.
    below: dict[str, set[str] | None] = {}
    for op in reversed(members):
        after = {name: below.get(name, set()) for name in op.outputs}
        for name in op.reads:
            found = below.get(name, set())
            for result, further in after.items():
                fits = (name, result) in op.aligned and not op.operator.rowwise
                if not fits or found is None or further is None:
                    found = None
                else:
                    found = found | further | ({result} & set(outputs))
            below[name] = found
    return frozenset((name, result) for name, found in below.items() for result in found or ())
