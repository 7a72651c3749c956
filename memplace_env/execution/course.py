"""The course of several inferences in the memory of one plan."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import numpy as np
from onnx import TensorProto, helper

from memplace_env.execution.constants import Array
from memplace_env.execution.layout import Layout, Span
from memplace_env.execution.memory import POISON, Bytes, Memory, raw
from memplace_env.execution.network import Network, Progress
from memplace_env.execution.places import Places
from memplace_env.execution.result import EXACT_ALIGNMENT, TOLERANCE, Difference, Execution, nearly_same, same_bits
from memplace_env.execution.schedule import Copies, Copy, Poison, resident_rows, steps_of
from memplace_env.execution.submodels import Port
from memplace_env.plan import MemoryPlan
from memplace_env.task import Task
from memplace_env.workload.program import TensorKind


class Course:
    """One plan, executed once.

    Args:
        task: what the plan is for.
        network: the task's.
        layout: the task's.
        memory: of that layout, whose contents do not matter.
        plan: valid or not.
    """

    def __init__(self, task: Task, network: Network, layout: Layout, memory: Memory, plan: MemoryPlan) -> None:
        self._task = task
        self._network = network
        self._layout = layout
        self._memory = memory
        self._plan = plan
        self._places = Places(task, plan, layout)
        self._bindings = [model.bound(partial(self._address, op)) for op, model in enumerate(network.ops)]
        made = {port.tensor: network.expected[port.name] for model in network.ops for port in model.results}
        self._contents = {**network.weights, **network.inputs, **made}
        self._made = made.keys()
        self._made_behind = _made_behind(task, plan)
        self._resident = np.flatnonzero(resident_rows(task, plan)).tolist()
        self._equal = self._near = self._ran = 0
        self._comparing = 0.0
        self._first: Difference | None = None
        self._wrong: dict[str, int] = {}

    def run(self, inferences: int, copies: Copies, seed: int, progress: Progress) -> Execution:
        """Run so many inferences; one in which an op fails is the last."""
        self._load()
        rng = np.random.default_rng(seed)
        seconds = []
        for number in range(inferences):
            self._begin()
            taken = self._infer(number, copies, rng, progress)
            if taken is None:
                break
            seconds.append(taken)
            self._compare_residents(number)
            self._compare_outputs(number)
        return Execution(
            copies, inferences, self._ran, self._equal, self._near, self._first, self._wrong, tuple(seconds)
        )

    def _load(self) -> None:
        """What is there before the first inference."""
        for span in self._layout.reached(self._plan):
            self._memory.at(span)[:] = POISON
        for tensor, content in self._network.weights.items():
            self._backing(tensor)[:] = raw(content)
        for row in self._resident:
            tensor, block = self._block(row)
            self._memory.at(block)[:] = raw(self._contents[tensor])
            self._mark(tensor, block)

    def _begin(self) -> None:
        """What is there before each inference: the inputs, and nothing of what the last one made."""
        for tensor in self._made_behind:
            self._backing(tensor)[:] = POISON
        for tensor, content in self._network.inputs.items():
            self._backing(tensor)[:] = raw(content)

    def _infer(self, number: int, copies: Copies, rng: np.random.Generator, progress: Progress) -> float | None:
        """Seconds that one inference took, without comparing; None if an op failed."""
        began, self._comparing = time.perf_counter(), 0.0
        for step in steps_of(self._task, self._plan, copies, rng):
            if isinstance(step, Poison):
                self._memory.at(self._layout.whole_block(self._plan, step.row))[:] = POISON
            elif isinstance(step, Copy):
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
        """Run an op; what its kernels tripped over, as they may in wrong data."""
        try:
            self._network.ops[op].session.run_with_iobinding(self._bindings[op])
        except Exception as error:  # the package's own exceptions have no base in common but this
            return str(error)
        return None

    def _compare_operands(self, number: int, op: int) -> str | None:
        """Bit for bit: what results may be off was put right, and wrong bytes need not show in a result.

        Weights and inputs in the backing memory are there from the start, and nobody else has a place there.

        Returns:
            the name of wrong numbers that may be indices, with which a kernel could end this process; None without.
        """
        model, lost = self._network.ops[op], None
        selects = any(node.op_type.startswith(("Gather", "Scatter")) for node in model.model.graph.node)
        for port in model.operands:
            tensor, span = port.tensor, self._places.of_op(op)[port.tensor]
            stays = span.level == self._task.backing and tensor not in self._made
            if not stays and not self._is_whole(tensor, span):
                self._differs(number, op, port.name, "the op reads other bytes than it has")
                if selects and port.element_type in (TensorProto.INT32, TensorProto.INT64):
                    lost = port.name
        return lost

    def _compare(self, number: int, op: int) -> None:
        self._ran += 1
        for port in self._network.ops[op].results:
            self._mark(port.tensor, self._places.of_op(op)[port.tensor])
        wrong = [port for port in self._network.ops[op].results if not self._is_right(self._used(op, port), port)]
        if not wrong:
            self._equal += 1
        elif self._must_be_exact(op) or not all(self._is_near(op, port) for port in wrong):
            self._differs(number, op, wrong[0].name, "it is not what the plain run makes")
        else:
            self._near += 1
            for port in wrong:
                self._used(op, port)[:] = raw(self._network.expected[port.name])

    def _compare_copy(self, number: int, row: int) -> None:
        tensor, _, _, start, _ = self._plan.transfers[row].tolist()
        source, target = self._places.ends(row)
        self._mark(tensor, target)
        if not self._is_whole(tensor, source):
            name = self._task.program.tensor_name[tensor]
            self._differs(number, start, name, f"transfer {row} copies other bytes than it has")

    def _compare_residents(self, number: int) -> None:
        """Weights that stay must still be there for the next inference."""
        for row in self._resident:
            tensor, block = self._block(row)
            if not self._is_whole(tensor, block):
                name = self._task.program.tensor_name[tensor]
                self._differs(number, self._task.program.num_ops, name, "the weight does not stay what it is")

    def _compare_outputs(self, number: int) -> None:
        for port, content, tolerance in self._outputs():
            if not self._is_right(content, port) and not (tolerance and self._is_within(content, port, tolerance)):
                self._wrong.setdefault(port.name, number)
                self._differs(number, self._task.program.num_ops, port.name, "it is not the plain run's graph output")

    def _outputs(self) -> Iterator[tuple[Port, Bytes, float]]:
        """The graph outputs as the backing memory holds them, then those that are views; what each may be off."""
        outputs = set(self._network.source.tensors(TensorKind.OUTPUT))
        for port in (port for model in self._network.ops for port in model.results if port.tensor in outputs):
            yield port, self._backing(port.tensor), 0.0
        tail = self._network.tail
        if tail is None:
            return
        held = {port.name: _typed(self._backing(port.tensor), port) for port in tail.operands}
        made = tail.session.run([port.name for port in tail.results], held)
        for port, array in zip(tail.results, made, strict=True):
            yield port, raw(array), tail.tolerance

    def _block(self, row: int) -> tuple[int, Span]:
        """The tensor of a block, and where its bytes are."""
        return int(self._plan.allocations[row, 0]), self._layout.block(self._plan, row)

    def _mark(self, tensor: int, span: Span) -> None:
        """Fill what a tensor leaves of its block, so that it is seen who writes there."""
        self._memory.at(self._layout.rest(tensor, span))[:] = _own_byte(tensor)

    def _is_whole(self, tensor: int, span: Span) -> bool:
        """Whether a tensor's bytes are its own, those that it leaves of its block too."""
        rest = self._memory.at(self._layout.rest(tensor, span))
        return same_bits(self._memory.at(span), raw(self._contents[tensor])) and bool((rest == _own_byte(tensor)).all())

    def _used(self, op: int, port: Port) -> Bytes:
        return self._memory.at(self._places.of_op(op)[port.tensor])

    def _backing(self, tensor: int) -> Bytes:
        return self._memory.at(self._layout.backing(tensor))

    def _address(self, op: int, tensor: int) -> int:
        return int(self._memory.at(self._places.of_op(op)[tensor]).ctypes.data)

    def _must_be_exact(self, op: int) -> bool:
        """Whether kernels compute the same bits there as in the plain run."""
        return not self._network.ops[op].tolerance and all(
            self._address(op, tensor) % EXACT_ALIGNMENT == 0 for tensor in self._places.of_op(op)
        )

    def _is_right(self, found: Bytes, port: Port) -> bool:
        return same_bits(found, raw(self._network.expected[port.name]))

    def _is_near(self, op: int, port: Port) -> bool:
        return self._is_within(self._used(op, port), port, self._network.ops[op].tolerance or TOLERANCE)

    def _is_within(self, found: Bytes, port: Port, tolerance: float) -> bool:
        return nearly_same(_typed(found, port), self._network.expected[port.name], tolerance)

    def _differs(self, number: int, op: int, value: str, why: str) -> None:
        if self._first is None:
            self._first = Difference(number, op, value, why)


def _made_behind(task: Task, plan: MemoryPlan) -> list[int]:
    """The results that the plan ever looks for in the backing memory, outputs included."""
    program = task.program
    there = program.tensor_kind == TensorKind.OUTPUT
    there[program.use_tensor[plan.use_level == task.backing]] = True
    there[plan.transfers[:, 0]] = True
    found: list[int] = np.flatnonzero(there & (program.producer >= 0)).tolist()
    return found


def _own_byte(tensor: int) -> int:
    """Hardly another tensor's, and never poison."""
    return tensor % POISON


def _typed(content: Bytes, port: Port) -> Array:
    array: Array = content.view(helper.tensor_dtype_to_np_dtype(port.element_type)).reshape(port.shape)
    return array
