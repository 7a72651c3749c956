"""Tensors in one piece for the ops that use them, as kernels cannot read slices."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from memplace_env._lib.units import round_up
from memplace_env.backends.ort.arena_layout import ALIGNMENT
from memplace_env.backends.ort.memory import Arenas, Bytes, aligned, raw
from memplace_env.backends.ort.network import Network
from memplace_env.backends.ort.places import Places
from memplace_env.backends.ort.submodels import Port
from memplace_env.program.program import Program


class Staging:
    """The bytes that each op's session reads and writes.

    A tensor that is not cut is used in its place. One that is cut has a place of its own outside the arenas while an op
    runs: its slices are gathered there before the op reads it, and scattered from there after the op has written it.

    Ports name tensors of the whole program, plans and places those of the task's, which are slices. Both are the same
    if the task's program is not sliced.

    Args:
        program: the task's program.
        network: its network.
        memory: the arenas.
        places: the bytes that the plan's uses and copies have there.
    """

    def __init__(self, program: Program, network: Network, memory: Arenas, places: Places) -> None:
        self._network, self._memory, self._places = network, memory, places
        count = program.whole.num_tensors
        slice_of = np.arange(count) if program.slices is None else program.slices.slice_of
        self._tensor: list[int] = slice_of.tolist()
        self._first: list[int] = np.searchsorted(slice_of, np.arange(count + 1)).tolist()
        self._tensor_rows = program.whole.tensor_rows.tolist()
        self._rows = [] if program.slices is None else program.slices.rows.tolist()
        self._spans = [self._laid_out((*model.operands, *model.results)) for model in network.ops]
        self._staged = aligned(max((span.stop for spans in self._spans for span in spans.values()), default=0))

    def slices(self, tensor: int) -> range:
        """Return the numbers of a tensor's slices; one if it is not cut."""
        return range(self._first[tensor], self._first[tensor + 1])

    def content(self, number: int) -> Bytes:
        """Return the bytes of a tensor of the task in the plain run."""
        return self._part(number, raw(self._network.contents[self._tensor[number]])).reshape(-1)

    def used(self, op: int, tensor: int) -> Bytes:
        """Return the bytes that an op's session reads or writes as a tensor."""
        span = self._spans[op].get(tensor)
        if span is None:
            return self._at(op, self._first[tensor])
        return self._staged[span]

    def gather(self, op: int, ports: Iterable[Port]) -> None:
        """Copy what is cut from its slices."""
        for staged, placed in self._parts(op, ports):
            staged[...] = placed.reshape(staged.shape)

    def scatter(self, op: int, ports: Iterable[Port]) -> None:
        """Copy what is cut to its slices."""
        for staged, placed in self._parts(op, ports):
            placed.reshape(staged.shape)[...] = staged

    def _laid_out(self, ports: Iterable[Port]) -> dict[int, slice]:
        """Return the places of an op's cut tensors outside the arenas."""
        spans: dict[int, slice] = {}
        start = 0
        for tensor in {port.tensor for port in ports if len(self.slices(port.tensor)) > 1}:
            spans[tensor] = slice(start, start + raw(self._network.contents[tensor]).size)
            start = round_up(spans[tensor].stop, ALIGNMENT)
        return spans

    def _parts(self, op: int, ports: Iterable[Port]) -> Iterator[tuple[Bytes, Bytes]]:
        """Yield for each slice its bytes in the tensor's place outside the arenas, and those in the arenas."""
        for tensor in (port.tensor for port in ports if port.tensor in self._spans[op]):
            for number in self.slices(tensor):
                yield self._part(number, self._staged[self._spans[op][tensor]]), self._at(op, number)

    def _at(self, op: int, number: int) -> Bytes:
        return self._memory.at(self._places.of_op(op)[number])

    def _part(self, number: int, whole: Bytes) -> Bytes:
        """Return a slice's bytes of its whole tensor's, as blocks."""
        tensor = self._tensor[number]
        if len(self.slices(tensor)) == 1:
            return whole
        first, last = self._rows[number]
        return whole.reshape(*self._tensor_rows[tensor], -1)[:, first:last]
