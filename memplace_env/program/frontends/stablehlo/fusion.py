"""Fusion "epilogue" as in XLA: loops with their readers, updates of one tensor, sums of one tensor."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

from memplace_env._lib.units import ceil_div
from memplace_env.program.lowering.buffer_ops import Op, OpGraph
from memplace_env.program.lowering.fusion.groups import Group, Links, aligned_together, regrouped
from memplace_env.program.lowering.node_graph import Operator

_SMALL: Final = 16
"""Least ratio of each reader's elements to a result's for which the readers recompute it."""

_MOST_VISITED: Final = 1000
"""Most groups visited in search of a path; where the search ends early, nothing is joined."""

_MOST_WORK: Final = 10_000_000
"""Most groups and members visited in all, about ten seconds; what is left then is joined only where that is plain to
see. Our choice."""

_MOST_DYING: Final = 2
"""Most results as large as a sum of which a group may be the last reader after the sum joins it."""

_SCATTERS: Final = frozenset({"ScatterND", "TensorScatter"})


def fuse_loops(graph: OpGraph) -> OpGraph:
    """Fuse ops; the result is not in execution order.

    0. An element-wise result that only gathers read is computed inside them, for the elements that they read.
    1. An element-wise result at most 1/16 the size of all its readers is computed inside each of them, unless one is a
       product.
    2. From the last op to the first, an op joins its readers if they are one op: element-wise ops and moves join
       element-wise ops, reductions and scatters, a product joins element-wise ops of its result's size.
    3. Element-wise ops with several results of one size join, so that an update of a parameter is one op; then products
       join as in 2.
    4. Reductions of as many elements of one tensor join.

    A value that is read outside of its op, or is a graph output, is still written.
    """

    def gathered(reader: Op, result: str) -> int | None:
        elements = reader.reads[result]
        return elements if reader.operator.name == "Gather" and elements < graph.buffers[result].elements else None

    def small(reader: Op, result: str) -> int | None:
        elements = graph.buffers[result].elements
        largest = max([*reader.reads.values(), *(graph.buffers[name].elements for name in reader.outputs)])
        return elements if largest >= _SMALL * elements and not reader.operator.epilogue_head else None

    fusion = _Fusion(_recomputed(_recomputed(graph, gathered), small))
    fusion.join_readers()
    fusion.join_loops()
    fusion.join_readers()
    fusion.join_reductions()
    return regrouped(fusion.graph, fusion.groups())


def _recomputed(graph: OpGraph, computed_in: Callable[[Op, str], int | None]) -> OpGraph:
    """Move each element-wise op into its readers if all of them can compute its result themselves.

    Args:
        graph: ops that may have been moved already.
        computed_in: the number of elements of a result that a reader would compute, None if it cannot.
    """
    links, ops = Links(graph), dict(enumerate(graph.ops))
    for index in reversed(range(len(graph.ops))):
        op = ops[index]
        if not op.operator.elementwise or len(op.outputs) != 1 or op.outputs[0] in graph.outputs:
            continue
        (result,) = op.outputs
        readers, size = links.readers.get(result, set()), graph.buffers[result].elements
        parts = [(reader, computed_in(ops[reader], result)) for reader in readers]
        if not parts or any(elements is None for _, elements in parts):
            continue
        for reader, elements in parts:
            assert elements is not None
            reads = {name: count for name, count in ops[reader].reads.items() if name != result}
            for name, count in op.reads.items():
                read = count if elements == size else min(count, elements)
                reads[name] = min(graph.buffers[name].elements, reads.get(name, 0) + read)
            work = ops[reader].vector_ops + ceil_div(op.vector_ops * elements, size)
            together = aligned_together((op, ops[reader]), ops[reader].outputs)
            ops[reader] = replace(ops[reader], reads=reads, vector_ops=work, aligned=together)
        for name in op.reads:
            links.readers[name] = (links.readers[name] - {index}) | readers
        del ops[index]
    return replace(graph, ops=tuple(ops.values()))


class _Fusion:
    """Groups of ops.

    `_members` and `_loop_size` of each group by its number, `_group` of each op, `_next` its readers in order. The loop
    size is the elements of the largest result of a group of element-wise ops, None for other groups.
    """

    def __init__(self, graph: OpGraph) -> None:
        self.graph = graph
        self._visited = 0
        self._links = Links(graph)
        self._members = {index: [index] for index in range(len(graph.ops))}
        self._group = list(range(len(graph.ops)))
        self._loop_size = {
            index: self._elements(op) if op.operator.elementwise else None for index, op in enumerate(graph.ops)
        }
        self._next = [
            sorted({reader for name in op.outputs for reader in self._links.readers.get(name, ())}) for op in graph.ops
        ]

    def groups(self) -> Iterable[Group]:
        """Yield the groups of several ops."""
        for members in self._members.values():
            if len(members) > 1:
                heads = [index for index in members if not self.graph.ops[index].operator.elementwise]
                yield Group(members, min(heads or members))

    def join_readers(self) -> None:
        """Join each op that is alone with the one group that reads it: a loop, or a product with its epilogue."""
        # From the last op on, a reader has already joined its own readers.
        for index in reversed(range(len(self.graph.ops))):
            op, group = self.graph.ops[index], self._group[index]
            if len(self._members[group]) > 1 or any(name in self.graph.outputs for name in op.outputs):
                continue
            readers = {self._group[reader] for reader in self._next[index]}
            if len(readers) != 1:
                continue
            (reader,) = readers
            if self._hoards(index, reader):
                continue
            if op.operator.elementwise:
                fits = all(self._takes_loops(at) for at in self._next[index])
            else:
                fits = op.operator.epilogue_head and self._loop_size[reader] == self._elements(op)
            if fits:
                self._join(group, reader)

    def join_loops(self) -> None:
        """Join element-wise groups of one size along each edge, unless that makes a cycle."""
        for index in reversed(range(len(self.graph.ops))):
            size = self._loop_size[self._group[index]]
            for reader in self._next[index]:
                group, other = self._group[index], self._group[reader]
                if (
                    group != other
                    and size is not None
                    and self._loop_size[other] == size
                    and not self._hoards(index, other)
                    and not self._path(group, other)
                ):
                    self._join(group, other)

    def join_reductions(self) -> None:
        """Join groups that reduce one whole tensor and have results of one size, unless that makes a cycle."""
        for name, readers in self._links.readers.items():
            # By size of the largest result, the first reduction of the tensor with it.
            alike: dict[int, int] = {}
            for reader in sorted(readers):
                if not self._reduces(reader) or self.graph.ops[reader].reads[name] < self.graph.buffers[name].elements:
                    continue
                group = self._group[reader]
                size = max(self._elements(self.graph.ops[index]) for index in self._members[group])
                first = self._group[alike.setdefault(size, reader)]
                if first != group and not self._path(first, group) and not self._path(group, first):
                    self._join(group, first)

    def _hoards(self, index: int, reader: int) -> bool:
        """Return whether a sum would, inside its readers' group, keep several terms alive instead of itself."""
        op, members = self.graph.ops[index], self._members[self._group[index]]
        if op.operator.name != "Add" or len(self._dying(op, members)) < 2:
            return False
        self._visited += len(self._members[reader])
        if self._visited > _MOST_WORK:
            return True
        return len(self._dying(op, [*members, *self._members[reader]])) > _MOST_DYING

    def _is_term(self, operator: Operator) -> bool:
        return operator.name == "Add" or not operator.elementwise

    def _dying(self, op: Op, members: list[int]) -> set[str]:
        """Return the sums and products, at least as large as the result of `op`, that only the members read."""
        inside, size = set(members), self._elements(op)
        return {
            name
            for index in members
            for name in self.graph.ops[index].reads
            if self._links.producer.get(name, index) not in inside
            and self._is_term(self.graph.ops[self._links.producer[name]].operator)
            and self.graph.buffers[name].elements >= size
            and name not in self.graph.outputs
            and self._links.readers[name] <= inside
        }

    def _takes_loops(self, index: int) -> bool:
        operator = self.graph.ops[index].operator
        return operator.elementwise or operator.name in _SCATTERS or self._reduces(index)

    def _reduces(self, index: int) -> bool:
        return self.graph.ops[index].operator.name.startswith("Reduce")

    def _elements(self, op: Op) -> int:
        return max((self.graph.buffers[name].elements for name in op.outputs), default=0)

    def _join(self, group: int, other: int) -> None:
        for index in self._members[group]:
            self._group[index] = other
        size, larger = self._loop_size.pop(group), self._loop_size[other]
        self._loop_size[other] = None if size is None or larger is None else max(size, larger)
        self._members[other].extend(self._members.pop(group))

    def _path(self, start: int, end: int) -> bool:
        """Return whether data may flow from one group to another through a third; joining them would make a cycle."""
        seen = {start}
        waiting = [group for group in self._readers(start) if group != end]
        while waiting:
            group = waiting.pop()
            self._visited += len(self._members[group])
            if group == end or len(seen) > _MOST_VISITED or self._visited > _MOST_WORK:
                return True
            if group not in seen:
                seen.add(group)
                waiting.extend(self._readers(group))
        return False

    def _readers(self, group: int) -> set[int]:
        return {self._group[reader] for index in self._members[group] for reader in self._next[index]} - {group}
