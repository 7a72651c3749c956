"""Assembly of a Program's arrays from ops over buffers, and the work of branches that it leaves out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from itertools import islice
from typing import Final, TypeVar

from memplace_env._lib.errors import WorkloadError
from memplace_env.program.builder import ProgramBuilder
from memplace_env.program.lowering.buffer_ops import Op, OpGraph
from memplace_env.program.lowering.independence import (
    WHOLE,
    Independent,
    Span,
    best_span,
    meet,
    rows_of,
)
from memplace_env.program.model_file import MAX_WORK
from memplace_env.program.program import GEOMETRY, Program, TensorKind


def assemble(graph: OpGraph, *, name: str, dtype: str, in_place: str = "none") -> Program:
    """Return the Program of an op graph, with tensors numbered in the order of their first use.

    Args:
        graph: ops after fusion.
        name: name of the program.
        dtype: the deployment dtype of its floating-point tensors.
        in_place: one of `model_file.IN_PLACE`.

    Raises:
        WorkloadError: there are no ops, or no tensors, or an op does more than `MAX_WORK`.
    """
    if not graph.ops:
        raise WorkloadError("The model does no work: each of its outputs is a constant, an input or a view of one.")
    written = {buffer for op in graph.ops for buffer in op.outputs}
    pairs = [list(_pairs(graph, op, written)) if _does(op, in_place) else [] for op in graph.ops]
    spans = _spans(graph, [pair for each in pairs for pair in each])
    builder = ProgramBuilder(name, dtype)
    tensors: dict[str, int] = {}

    def tensor(buffer: str) -> int:
        if buffer not in tensors:
            # The place's owner has a number already: operands come before results, and its readers before the output.
            alias_of = tensors.get(graph.alias_of.get(buffer, ""), -1)
            kind = _kind(graph, buffer, buffer in written)
            stored = graph.buffers[buffer]
            rows = rows_of(stored.elements, spans[buffer]) if buffer in spans else (1, 1)
            tensors[buffer] = builder.tensor(buffer, stored.bytes, kind, alias_of=alias_of, rows=rows)
        return tensors[buffer]

    for op, replacing in zip(graph.ops, pairs, strict=True):
        if op.vector_ops > MAX_WORK:
            raise WorkloadError(f"The op {op.name!r:.80} does an absurd amount of work; check the shapes.")
        elements = {**op.reads, **{name: op.writes.get(name, graph.buffers[name].elements) for name in op.outputs}}
        builder.op(
            op.operator.name,
            list(map(tensor, op.reads)),
            list(map(tensor, op.outputs)),
            name=op.name,
            gemm=op.gemm,
            vector_ops=op.vector_ops,
            geometry=dict(zip(GEOMETRY, op.geometry, strict=True)),
            bytes_read={tensors[name]: max(1, graph.buffers[name].bytes_of(n)) for name, n in elements.items()},
            halo={tensors[name]: op.independent[name].halo(spans[name]) or 0 for name in elements if name in spans},
            inplace=[(tensors[operand], tensors[result]) for operand, result in replacing],
        )
    if not tensors:
        raise WorkloadError("The model's ops touch no tensor: all their operands and results are constant or empty.")
    return builder.build(op_nodes=[op.nodes for op in graph.ops], tensor_value=list(tensors))


def _does(op: Op, in_place: str) -> bool:
    return in_place == "rows" or (in_place == "elementwise" and not op.operator.rowwise)


def _pairs(graph: OpGraph, op: Op, written: Set[str]) -> Iterator[tuple[str, str]]:
    """Yield the pairs (operand, result) of inner results, moved whole, that may be the same bytes."""
    for pair in ((name, result) for name in op.reads for result in op.outputs):
        first, second = (graph.buffers[name] for name in pair)
        inner = all(_kind(graph, name, name in written) is TensorKind.ACTIVATION for name in pair)
        alike = (first.elements, first.bits) == (second.elements, second.bits)
        if pair in op.aligned and inner and alike and op.reads[pair[0]] == first.elements and pair[1] not in op.writes:
            yield pair


def _spans(graph: OpGraph, pairs: Iterable[tuple[str, str]]) -> dict[str, Span]:
    """Return by buffer the span that all ops allow it to be cut along: one for both of a pair, if there is such."""
    allowed: dict[str, list[Independent]] = {}
    for op in graph.ops:
        for name in dict.fromkeys((*op.reads, *op.outputs)):
            allowed.setdefault(name, []).append(op.independent.get(name, WHOLE))
    free = {name: meet(parts) for name, parts in allowed.items()}
    like = {name: [name] for name in free}
    for operand, result in pairs:
        together = meet([free[operand], free[result]])
        if like[operand] is not like[result] and best_span(graph.buffers[operand].elements, together) is not None:
            like[operand] += like[result]
            for name in like[result]:
                like[name] = like[operand]
            free.update(dict.fromkeys(like[operand], together))
    best = ((name, best_span(graph.buffers[name].elements, both)) for name, both in free.items())
    return {name: span for name, span in best if span is not None}


def _kind(graph: OpGraph, buffer: str, written: bool) -> TensorKind:
    if graph.buffers[buffer].constant:
        return TensorKind.WEIGHT
    if buffer in graph.outputs:
        return TensorKind.OUTPUT
    return TensorKind.ACTIVATION if written else TensorKind.INPUT


NAMED: Final = 3
"""Most nodes that a warning names."""

_Branch = TypeVar("_Branch")


def choices_note(choices: Mapping[str, Mapping[str, _Branch]], lowered: Callable[[_Branch], OpGraph]) -> str:
    """Return what was assumed where the data choose a branch; the arguments are as in `branch_costs`."""
    taken = [f"{next(iter(branches))} of {node}" for node, branches in choices.items()]
    more = f" and {len(taken) - NAMED} more" if len(taken) > NAMED else ""
    said = f"Where the data choose a branch, the one with most work is taken: {', '.join(taken[:NAMED])}{more}."
    return f"{said} {branch_costs(choices.items(), lowered)}"


def branch_costs(choices: Iterable[tuple[str, Mapping[str, _Branch]]], lowered: Callable[[_Branch], OpGraph]) -> str:
    """Return a sentence on what the branches of the first nodes cost.

    Args:
        choices: nodes, each with its branches by name, first the one taken.
        lowered: returns the ops of a branch after fusion.
    """

    def cost(branch: _Branch) -> str:
        try:
            graph = lowered(branch)
            program = assemble(graph, name="branch", dtype="float32") if graph.ops else None
        except WorkloadError:
            return "(unknown work)"
        macs, peak = (0, 0) if program is None else (int(program.macs.sum()), int(program.live_bytes.max()))
        return f"({macs:,} MACs, peak of {peak:,} bytes)"

    costs = (
        f"{node} has " + ", ".join(f"{name} {cost(branch)}" for name, branch in branches.items())
        for node, branches in islice(choices, NAMED)
    )
    return f"The plan does not cover the others: {'; '.join(costs)}."
