"""In which order ops run: one that keeps few bytes alive at once."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from memplace_env.errors import WorkloadError
from memplace_env.workload.lowered.fusion.groups import Links
from memplace_env.workload.lowered.ops import OpGraph

_LITTLE: Final = 1000
"""An op that makes no more than this share of the largest tensor makes next to nothing."""


def scheduled(graph: OpGraph) -> OpGraph:
    """The ops in the best of three orders, by the bytes of results alive at once, the most and the mean added.

    - as they stand, as far as operands are ready;
    - as they stand, but an op that frees at least what it makes, or makes next to nothing, runs as soon as it is ready,
      as updates do;
    - of those ready the op that makes least more than it frees.

    In all of them what works on weights and inputs alone, as a narrowed copy of a weight does, waits for its reader.

    Readers of a tensor whose place an output takes run before the op that makes the output; where that cannot be, the
    output gets a place of its own.

    Raises:
        WorkloadError: ops wait for each other.
    """
    graph = replace(graph, alias_of=_possible_aliases(graph))
    places = _places(graph)
    little = max((buffer.bytes for buffer in graph.buffers.values()), default=0) // _LITTLE
    ranks: tuple[Callable[[int, int], tuple[int, int]], ...] = (
        lambda index, growth: (0, places[index]),
        lambda index, growth: (int(growth > little), places[index]),
        lambda index, growth: (growth, places[index]),
    )
    orders = [_Schedule(graph).ordered(rank) for rank in ranks]
    best, _ = min(orders, key=lambda each: max(each[1], default=0) + sum(each[1]) / max(1, len(each[1])))
    return replace(graph, ops=tuple(graph.ops[index] for index in best))


def _places(graph: OpGraph) -> list[int]:
    """Where each op stands; for those that read nothing that is made, where the first of their readers does."""
    links = Links(graph)
    places = list(range(len(graph.ops)))
    for index in reversed(places):
        op = graph.ops[index]
        readers = {reader for name in op.outputs for reader in links.readers.get(name, ())}
        if readers and not any(name in links.producer for name in op.reads):
            places[index] = min(places[reader] for reader in readers)
    return places


def _possible_aliases(graph: OpGraph) -> Mapping[str, str]:
    """Those of the graph's aliases that let all ops run."""
    links = Links(graph)
    follows = [{reader for name in op.outputs for reader in links.readers.get(name, ())} for op in graph.ops]
    kept = {}
    for name, source in graph.alias_of.items():
        maker = links.producer[name]
        earlier = links.readers.get(source, set()) - {maker}
        if earlier and _reachable(follows, maker) & earlier:
            continue
        kept[name] = source
        for reader in earlier:
            follows[reader].add(maker)
    return kept


def _reachable(follows: list[set[int]], start: int) -> set[int]:
    seen, waiting = {start}, [start]
    while waiting:
        more = follows[waiting.pop()] - seen
        seen |= more
        waiting.extend(more)
    return seen


class _Schedule:
    def __init__(self, graph: OpGraph) -> None:
        self._graph = graph
        links = Links(graph)
        makers = {name: links.producer[name] for name in graph.alias_of}
        self._readers = {name: set(links.readers.get(name, ())) for op in graph.ops for name in op.outputs}
        self._waits: list[set[int]] = [set() for _ in graph.ops]
        for index, op in enumerate(graph.ops):
            self._waits[index] |= {links.producer[name] for name in op.reads if name in links.producer}
        for name, source in graph.alias_of.items():
            self._waits[makers[name]] |= links.readers.get(source, set()) - {makers[name]}
        self._follows: list[list[int]] = [[] for _ in graph.ops]
        for index, earlier in enumerate(self._waits):
            for each in earlier:
                self._follows[each].append(index)

    def ordered(self, rank: Callable[[int, int], tuple[int, int]]) -> tuple[list[int], list[int]]:
        """Ops by index, and the bytes alive during each."""
        order: list[int] = []
        alive, held = [], 0
        ready = [(rank(index, self._growth(index)), index) for index, earlier in enumerate(self._waits) if not earlier]
        heapq.heapify(ready)
        done: set[int] = set()
        while ready:
            _, index = heapq.heappop(ready)
            if index in done:
                continue
            done.add(index)
            order.append(index)
            held += self._made(index)
            alive.append(held)
            again = set()
            for name in self._graph.ops[index].reads:
                if name in self._readers:
                    left = self._readers[name]
                    left.discard(index)
                    if not left and name not in self._graph.outputs:
                        held -= self._graph.buffers[name].bytes
                    elif len(left) == 1:
                        again |= left
            for follower in self._follows[index]:
                self._waits[follower].discard(index)
                again.add(follower)
            for each in again:
                if not self._waits[each]:
                    heapq.heappush(ready, (rank(each, self._growth(each)), each))
        if len(order) < len(self._graph.ops):
            raise WorkloadError("Operations of the module wait for each other, which cannot be scheduled.")
        return order, alive

    def _made(self, index: int) -> int:
        own = (name for name in self._graph.ops[index].outputs if name not in self._graph.alias_of)
        return sum(self._graph.buffers[name].bytes for name in own)

    def _growth(self, index: int) -> int:
        """Bytes that the op makes, less those of the operands that nothing else waits for."""
        graph = self._graph
        last = (name for name in graph.ops[index].reads if self._readers.get(name) == {index})
        return self._made(index) - sum(graph.buffers[name].bytes for name in last if name not in graph.outputs)
