"""Execution order of ops that keeps few bytes alive at once."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from memplace_env._lib.errors import WorkloadError
from memplace_env.program.lowering.buffer_ops import OpGraph
from memplace_env.program.lowering.fusion.groups import Links

_LITTLE: Final = 1000
"""Bytes of the largest tensor over the most bytes that an op may add and count as adding nothing; our choice."""


def scheduled(graph: OpGraph) -> OpGraph:
    """Return the ops in the best of three orders, by the largest plus the mean number of bytes of results alive.

    - as in the graph, as far as operands are ready;
    - as in the graph, but an op that frees at least as many bytes as it adds, or adds next to nothing, runs as soon as
      it is ready, as updates do;
    - of the ready ops the one that adds fewest bytes more than it frees.

    In all of them ops on weights and inputs alone, such as a narrowing copy of a weight, run just before their reader.

    Readers of a tensor whose place an output takes run before the op that writes the output; where that is impossible,
    the output gets a place of its own.

    Raises:
        WorkloadError: ops wait for each other.
    """
    graph = replace(graph, alias_of=_possible_aliases(graph))
    positions = _positions(graph)
    little = max((buffer.bytes for buffer in graph.buffers.values()), default=0) // _LITTLE
    ranks: tuple[Callable[[int, int], tuple[int, int]], ...] = (
        lambda index, growth: (0, positions[index]),
        lambda index, growth: (int(growth > little), positions[index]),
        lambda index, growth: (growth, positions[index]),
    )
    orders = [_Schedule(graph).ordered(rank) for rank in ranks]
    best, _ = min(orders, key=lambda order: max(order[1], default=0) + sum(order[1]) / max(1, len(order[1])))
    return replace(graph, ops=tuple(graph.ops[index] for index in best))


def _positions(graph: OpGraph) -> list[int]:
    """Return each op's position in the graph; for ops on weights and inputs alone that of their first reader."""
    links = Links(graph)
    positions = list(range(len(graph.ops)))
    for index in reversed(range(len(graph.ops))):
        op = graph.ops[index]
        readers = {reader for name in op.outputs for reader in links.readers.get(name, ())}
        if readers and not any(name in links.producer for name in op.reads):
            positions[index] = min(positions[reader] for reader in readers)
    return positions


def _possible_aliases(graph: OpGraph) -> Mapping[str, str]:
    """Return the graph's aliases that leave an order in which all ops can run."""
    links = Links(graph)
    follows = [{reader for name in op.outputs for reader in links.readers.get(name, ())} for op in graph.ops]
    kept = {}
    for name, source in graph.alias_of.items():
        producer = links.producer[name]
        earlier = links.readers.get(source, set()) - {producer}
        # A reader that depends on the output cannot run before it.
        if earlier and _reachable(follows, producer) & earlier:
            continue
        kept[name] = source
        for reader in earlier:
            follows[reader].add(producer)
    return kept


def _reachable(follows: list[set[int]], start: int) -> set[int]:
    seen, waiting = {start}, [start]
    while waiting:
        more = follows[waiting.pop()] - seen
        seen |= more
        waiting.extend(more)
    return seen


class _Schedule:
    """List scheduling: `_waits` are the ops that an op waits for, `_readers` those that still have to read a result."""

    def __init__(self, graph: OpGraph) -> None:
        self._graph = graph
        links = Links(graph)
        self._readers = {name: set(links.readers.get(name, ())) for op in graph.ops for name in op.outputs}
        self._waits: list[set[int]] = [set() for _ in graph.ops]
        for index, op in enumerate(graph.ops):
            self._waits[index] |= {links.producer[name] for name in op.reads if name in links.producer}
        for name, source in graph.alias_of.items():
            producer = links.producer[name]
            self._waits[producer] |= links.readers.get(source, set()) - {producer}
        self._follows: list[list[int]] = [[] for _ in graph.ops]
        for index, earlier in enumerate(self._waits):
            for source_op in earlier:
                self._follows[source_op].append(index)

    def ordered(self, rank: Callable[[int, int], tuple[int, int]]) -> tuple[list[int], list[int]]:
        """Return the ops by index, lowest rank of the ready ones first, and the bytes alive during each."""
        order: list[int] = []
        alive, live_bytes = [], 0
        ready = [(rank(index, self._growth(index)), index) for index, earlier in enumerate(self._waits) if not earlier]
        heapq.heapify(ready)
        done: set[int] = set()
        while ready:
            _, index = heapq.heappop(ready)
            if index in done:
                continue
            done.add(index)
            order.append(index)
            live_bytes += self._written(index)
            alive.append(live_bytes)
            # Ops whose rank falls: those that get ready, and the last readers of a tensor, which will free it. They
            # are pushed again; `done` skips the outdated entries, which come later as ranks only fall.
            changed = set()
            for name in self._graph.ops[index].reads:
                if name in self._readers:
                    left = self._readers[name]
                    left.discard(index)
                    if not left and name not in self._graph.outputs:
                        live_bytes -= self._graph.buffers[name].bytes
                    elif len(left) == 1:
                        changed |= left
            for follower in self._follows[index]:
                self._waits[follower].discard(index)
                changed.add(follower)
            for op in changed:
                if not self._waits[op]:
                    heapq.heappush(ready, (rank(op, self._growth(op)), op))
        if len(order) < len(self._graph.ops):
            raise WorkloadError("Operations of the module wait for each other, which cannot be scheduled.")
        return order, alive

    def _written(self, index: int) -> int:
        """Return the bytes of the op's results that take no other tensor's place."""
        own = (name for name in self._graph.ops[index].outputs if name not in self._graph.alias_of)
        return sum(self._graph.buffers[name].bytes for name in own)

    def _growth(self, index: int) -> int:
        """Return the bytes that the op adds, less those of the operands that it alone still has to read."""
        graph = self._graph
        last = (name for name in graph.ops[index].reads if self._readers.get(name) == {index})
        return self._written(index) - sum(graph.buffers[name].bytes for name in last if name not in graph.outputs)
