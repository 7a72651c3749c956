"""Several inferences in the memory of one plan, compared step by step with the plain run."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial

import numpy as np
from onnx import TensorProto, helper

from memplace_env._lib.units import round_up
from memplace_env.backends.ort.arena_layout import (
    POISON,
    ArenaLayout,
    Arenas,
    Bytes,
    ByteSpan,
    Places,
    aligned,
    raw,
)
from memplace_env.backends.ort.execution_result import (
    EXACT_ALIGNMENT,
    TOLERANCE,
    Execution,
    ResultDifference,
    nearly_same,
    same_bits,
)
from memplace_env.backends.ort.model_constants import Array
from memplace_env.backends.ort.network import Network, Progress
from memplace_env.backends.ort.plan_steps import CopyMoment, CopyTensor, Poison, steps_of
from memplace_env.backends.ort.submodels import Port, outputs_of
from memplace_env.placement.backing_memory import ALIGNMENT
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.task import Task
from memplace_env.program.frontends.onnx.operator_lookup import operator_of
from memplace_env.program.program import Program, TensorKind

MOST_CHUNKS = 3
"""Chunks in which an op with a result in an operand's place runs: few axes are cut by a third. Our choice."""


class Course:
    """One plan, executed once.

    Args:
        task: the plan's task.
        network: the task's network.
        layout: the task's layout.
        memory: arenas of that layout, with any contents.
        plan: valid or not.
    """

    def __init__(self, task: Task, network: Network, layout: ArenaLayout, memory: Arenas, plan: MemoryPlan) -> None:
        self._task = task
        self._network = network
        self._layout = layout
        self._memory = memory
        self._plan = plan
        self._places = Places(task, plan, layout)
        self._staging = Staging(task.program, network, memory, self._places, _in_place(task, plan))
        self._sessions = [model.bound(partial(self._address, op)) for op, model in enumerate(network.ops)]
        self._delivered: dict[int, Bytes] = {}
        self._computed = task.program.producer >= 0
        replaced = task.program.alias_of.tolist()
        self._constant = [one for one in self._places.behind if not self._computed[one] and one not in replaced]
        self._computed_behind = _computed_behind(task, plan)
        self._resident = np.flatnonzero(task.resident_blocks(plan)).tolist()
        self._equal = self._near = self._ran = 0
        self._comparing = 0.0
        self._first: ResultDifference | None = None
        self._wrong: dict[str, int] = {}

    def run(self, inferences: int, copies: CopyMoment, seed: int, progress: Progress) -> Execution:
        """Run inferences; one in which an op fails is the last."""
        self._load()
        rng = np.random.default_rng(seed)
        seconds = []
        for number in range(inferences):
            self._begin()
            taken = self._infer(number, copies, rng, progress)
            if taken is None:
                break
            seconds.append(taken)
            self._compare_constants(number)
            self._compare_outputs(number)
        return Execution(
            copies, inferences, self._ran, self._equal, self._near, self._first, self._wrong, tuple(seconds)
        )

    def _load(self) -> None:
        """Write the state before the first inference."""
        for span in self._layout.reached(self._plan):
            self._memory.at(span)[:] = POISON
        self._write_behind(self._network.weights)
        for row in self._resident:
            tensor, block = self._block(row)
            self._memory.at(block)[:] = self._staging.content(tensor)
            self._mark(tensor, block)

    def _begin(self) -> None:
        """Write the state before each inference: the inputs, and poison in place of earlier results."""
        for tensor in self._computed_behind.intersection(self._places.behind):
            self._backing(tensor)[:] = POISON
        self._write_behind(self._network.inputs)

    def _write_behind(self, tensors: Iterable[int]) -> None:
        """Write tensors of the network to the backing memory, those that are ever there."""
        slices = {number for tensor in tensors for number in self._staging.slices(tensor)}
        for number in slices.intersection(self._places.behind):
            self._backing(number)[:] = self._staging.content(number)

    def _infer(self, number: int, copies: CopyMoment, rng: np.random.Generator, progress: Progress) -> float | None:
        """Return the seconds of one inference without the comparisons; None if an op failed."""
        began, self._comparing = time.perf_counter(), 0.0
        for step in steps_of(self._task, self._plan, copies, rng):
            if isinstance(step, Poison):
                self._memory.at(self._layout.whole_block(self._plan, step.row))[:] = POISON
            elif isinstance(step, CopyTensor):
                source, target = self._places.ends(step.row)
                self._memory.at(target)[:] = self._memory.at(source)
                with self._off_the_clock():
                    self._compare_copy(number, step.row)
            else:
                with self._off_the_clock():
                    lost = self._compare_operands(number, step.op)
                failure = self._failure(step.op) if not lost else f"the indices {lost!r} are lost"
                if failure is not None:
                    self._differs(number, step.op, self._task.program.op_name[step.op], f"the op failed: {failure}")
                    self._wrong = dict.fromkeys(self._network.source.outputs, number) | self._wrong
                    return None
                with self._off_the_clock():
                    self._compare(number, step.op)
                    progress()
        return time.perf_counter() - began - self._comparing

    @contextmanager
    def _off_the_clock(self) -> Iterator[None]:
        paused = time.perf_counter()
        yield
        self._comparing += time.perf_counter() - paused

    def _failure(self, op: int) -> str | None:
        """Run an op and return the message of a failure, which wrong data may cause.

        An op with a result in an operand's place runs once for each chunk of that result, on what the chunks before
        have left of the operand. Inputs that are blocks are filled, outputs that are blocks taken.
        """
        model = self._network.ops[op]
        if model.session is None:
            for _, tensor in self._tensors(model.results):
                self._memory.at(self._places.of_op(op)[tensor])[:] = self._staging.content(tensor)
            self._delivered = {port.tensor: self._used(op, port).copy() for port in model.operands}
        for chunk in range(self._staging.chunks(op)):
            self._staging.gather(op, model.operands)
            try:
                self._sessions[op]()
            except Exception as error:  # the package's own exceptions have no base in common but this
                return str(error)
            self._staging.scatter(op, model.results, chunk)
        return None

    def _compare_operands(self, number: int, op: int) -> str | None:
        """Compare operands bit for bit: tolerated differences were corrected, and wrong bytes may not show in a result.

        Weights and inputs in the backing memory are not compared: nothing is written to their places but an output that
        takes it when no op reads them any more.

        Returns:
            the name of a wrong operand that may be indices, with which a kernel could crash this process; else None.
        """
        model, lost = self._network.ops[op], None
        selects = any(node.op_type.startswith(("Gather", "Scatter")) for node in model.model.graph.node)
        for port, tensor in self._tensors(model.operands):
            span = self._places.of_op(op)[tensor]
            constant = span.level == self._task.backing and not self._computed[tensor]
            if not constant and not self._is_whole(tensor, span):
                cut = len(self._staging.slices(port.tensor)) > 1
                name = self._task.program.tensor_name[tensor] if cut else port.name
                self._differs(number, op, name, "the op reads other bytes than the tensor's")
                if selects and port.element_type in (TensorProto.INT32, TensorProto.INT64):
                    lost = port.name
        return lost

    def _compare(self, number: int, op: int) -> None:
        self._ran += 1
        results = self._network.ops[op].results
        for _, tensor in self._tensors(results):
            self._mark(tensor, self._places.of_op(op)[tensor])
        self._staging.gather(op, results)
        wrong = [port for port in results if not self._is_right(self._used(op, port), port)]
        if not wrong:
            self._equal += 1
        elif self._must_be_exact(op) or not all(self._is_near(op, port) for port in wrong):
            self._differs(number, op, wrong[0].name, "it differs from the plain run")
        else:
            self._near += 1
            for port in wrong:
                self._used(op, port)[:] = raw(self._network.expected[port.name])
            self._staging.scatter(op, wrong)

    def _compare_copy(self, number: int, row: int) -> None:
        tensor, _, _, start, _ = self._plan.transfers[row].tolist()
        source, target = self._places.ends(row)
        self._mark(tensor, target)
        if not self._is_whole(tensor, source):
            name = self._task.program.tensor_name[tensor]
            self._differs(number, start, name, f"transfer {row} copies other bytes than the tensor's")

    def _compare_constants(self, number: int) -> None:
        """Require that resident weights, and weights and inputs in the backing memory, are intact afterwards."""
        kept = [(*self._block(row), "resident weight") for row in self._resident]
        kept += [(tensor, self._places.backing(tensor), "weight or input") for tensor in self._constant]
        for tensor, span, what in kept:
            if not self._is_whole(tensor, span):
                name = self._task.program.tensor_name[tensor]
                self._differs(number, self._task.program.num_ops, name, f"the {what} was overwritten")

    def _compare_outputs(self, number: int) -> None:
        for port, content, tolerance in self._outputs():
            if not self._is_right(content, port) and not (tolerance and self._is_within(content, port, tolerance)):
                self._wrong.setdefault(port.name, number)
                self._differs(
                    number, self._task.program.num_ops, port.name, "it differs from the plain run's graph output"
                )

    def _outputs(self) -> Iterator[tuple[Port, Bytes, float]]:
        """Yield the graph outputs where they are at the end, then those that are views, each with its tolerance."""
        outputs = set(outputs_of(self._network.source))
        for port in (port for model in self._network.ops for port in model.results if port.tensor in outputs):
            yield port, self._behind(port), 0.0
        tail = self._network.tail
        if tail is None or tail.session is None:
            return
        feeds = {port.name: _typed(self._behind(port), port) for port in tail.operands}
        arrays = tail.session.run([port.name for port in tail.results], feeds)
        for port, array in zip(tail.results, arrays, strict=True):
            yield port, raw(array), tail.tolerance

    def _block(self, row: int) -> tuple[int, ByteSpan]:
        """Return the tensor of a block, and the tensor's bytes."""
        return int(self._plan.allocations[row, 0]), self._layout.block(self._plan, row)

    def _mark(self, tensor: int, span: ByteSpan) -> None:
        """Fill the bytes after a tensor in its block, so that a write to them is noticed."""
        self._memory.at(self._layout.rest(tensor, span))[:] = _own_byte(tensor)

    def _is_whole(self, tensor: int, span: ByteSpan) -> bool:
        """Return whether a tensor's bytes are intact, those after it in its block included."""
        rest = self._memory.at(self._layout.rest(tensor, span))
        intact = same_bits(self._memory.at(span), self._staging.content(tensor))
        return intact and bool((rest == _own_byte(tensor)).all())

    def _used(self, op: int, port: Port) -> Bytes:
        return self._staging.used(op, port.tensor)

    def _tensors(self, ports: Iterable[Port]) -> Iterator[tuple[Port, int]]:
        """Yield for each port the task's tensors that hold it: slices, or one tensor."""
        return ((port, tensor) for port in ports for tensor in self._staging.slices(port.tensor))

    def _behind(self, port: Port) -> Bytes:
        """Return the bytes of an input or output of the network at the end, which is never cut."""
        taken = self._delivered.get(port.tensor)
        return self._backing(self._staging.slices(port.tensor)[0]) if taken is None else taken

    def _backing(self, tensor: int) -> Bytes:
        return self._memory.at(self._places.backing(tensor))

    def _address(self, op: int, tensor: int) -> int:
        return int(self._staging.used(op, tensor).ctypes.data)

    def _must_be_exact(self, op: int) -> bool:
        """Return whether kernels compute the same bits as in the plain run at the op's addresses."""
        model = self._network.ops[op]
        return not model.tolerance and all(
            self._address(op, port.tensor) % EXACT_ALIGNMENT == 0 for port in (*model.operands, *model.results)
        )

    def _is_right(self, computed: Bytes, port: Port) -> bool:
        return same_bits(computed, raw(self._network.expected[port.name]))

    def _is_near(self, op: int, port: Port) -> bool:
        return self._is_within(self._used(op, port), port, self._network.ops[op].tolerance or TOLERANCE)

    def _is_within(self, computed: Bytes, port: Port, tolerance: float) -> bool:
        return nearly_same(_typed(computed, port), self._network.expected[port.name], tolerance)

    def _differs(self, number: int, op: int, value: str, why: str) -> None:
        if self._first is None:
            self._first = ResultDifference(number, op, value, why)


def _computed_behind(task: Task, plan: MemoryPlan) -> set[int]:
    """Return the results that the plan ever reads from the backing memory, outputs included."""
    program = task.program
    behind = program.tensor_kind == TensorKind.OUTPUT
    behind[program.use_tensor[plan.use_level == task.backing]] = True
    behind[plan.transfers[(plan.transfers[:, 1:3] == task.backing).any(axis=1), 0]] = True
    return set(np.flatnonzero(behind & (program.producer >= 0)).tolist())


def _in_place(task: Task, plan: MemoryPlan) -> dict[int, dict[int, int]]:
    """Return by op the results of which any bytes lie in an operand's place, each with it, as the whole's tensors."""
    results: dict[int, dict[int, int]] = {}
    for rows in plan.handed_over(task.program):
        operand, result = task.program.whole_tensor[plan.allocations[[*rows], 0]].tolist()
        results.setdefault(int(plan.allocations[rows[1], 3]), {})[result] = operand
    return results


def _own_byte(tensor: int) -> int:
    """Return a fill byte that few other tensors have, and never poison."""
    return tensor % POISON


def _typed(content: Bytes, port: Port) -> Array:
    array: Array = content.view(helper.tensor_dtype_to_np_dtype(port.element_type)).reshape(port.shape)
    return array


class Staging:
    """The bytes that each op's session reads and writes.

    A tensor that is not cut is used in its place. One that is cut has a place of its own outside the arenas while an op
    runs: its slices are gathered there before the op reads it, and scattered from there after the op has written it. So
    have the results of an op that writes one over an operand: it goes to the arena chunk by chunk, each computed from
    what the chunks before have left of the operand, as by a kernel that goes through the result in order. Chunks end at
    any element, those of row-wise ops between rows. An element of the operand that is of another width in the file,
    though not in the plan, lies elsewhere than the result's, so that such an op runs whole, or slice by slice.

    Ports name tensors of the whole program, plans and places those of the task's, which are slices. Both are the same
    if the task's program is not sliced.

    Args:
        program: the task's program.
        network: its network.
        memory: the arenas.
        places: the bytes that the plan's uses and copies have there.
        in_place: by op the results that lie in an operand's place, each with it.
    """

    def __init__(
        self, program: Program, network: Network, memory: Arenas, places: Places, in_place: dict[int, dict[int, int]]
    ) -> None:
        self._network, self._memory, self._places, self._in_place = network, memory, places, in_place
        count = program.whole.num_tensors
        slice_of = np.arange(count) if program.slices is None else program.slices.slice_of
        self._tensor: list[int] = slice_of.tolist()
        self._first: list[int] = np.searchsorted(slice_of, np.arange(count + 1)).tolist()
        self._tensor_rows = program.whole.tensor_rows.tolist()
        self._rows = [] if program.slices is None else program.slices.rows.tolist()
        self._spans = [self._laid_out(op) for op in range(len(network.ops))]
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

    def chunks(self, op: int) -> int:
        """Return the chunks in which an op runs: one, or several if a result lies in place."""
        inside, contents = self._in_place.get(op, {}), self._network.contents
        whole = {result: operand for result, operand in inside.items() if len(self.slices(result)) == 1}
        if any(contents[result].itemsize != contents[operand].itemsize for result, operand in whole.items()):
            return 1
        lengths = [self._length(op, port) for port in self._network.ops[op].results if port.tensor in inside]
        return min([MOST_CHUNKS, *lengths]) if lengths else 1

    def _length(self, op: int, port: Port) -> int:
        """Return the number of parts of a result that may follow each other: elements, or rows of the first axis."""
        axes = [length for length in port.shape if length > 1]
        rowwise = any(operator_of(node).rowwise for node in self._network.ops[op].model.graph.node)
        return math.prod(axes[:1] if rowwise else axes)

    def scatter(self, op: int, ports: Iterable[Port], chunk: int | None = None) -> None:
        """Copy what is cut to its slices, and results of an op that has one in place to theirs.

        Of those in place only a chunk, the others with the first chunk; everything if `chunk` is None.
        """
        for port in ports:
            inside = chunk is not None and port.tensor in self._in_place.get(op, ())
            parts = [(staged, placed.reshape(staged.shape)) for staged, placed in self._parts(op, [port])]
            if chunk is not None and inside:
                if len(parts) == 1:  # not cut
                    staged, placed = (side.reshape(self._length(op, port), -1) for side in parts[0])
                    first, last = (len(staged) * end // self.chunks(op) for end in (chunk, chunk + 1))
                    parts = [(staged[first:last], placed[first:last])]
                else:
                    parts = parts[len(parts) * chunk // self.chunks(op) : len(parts) * (chunk + 1) // self.chunks(op)]
            elif chunk:
                continue
            for source, target in parts:
                target[...] = source

    def _laid_out(self, op: int) -> dict[int, slice]:
        """Return the places outside the arenas of an op's cut tensors, and of all results if one lies in place."""
        spans: dict[int, slice] = {}
        start, model = 0, self._network.ops[op]
        ports = (*model.operands, *model.results)
        staged = [port.tensor for port in (model.results if op in self._in_place else ())]
        for tensor in {*staged, *(port.tensor for port in ports if len(self.slices(port.tensor)) > 1)}:
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
