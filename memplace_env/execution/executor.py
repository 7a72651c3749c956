"""Runs the network of a task in the memory of a plan."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from memplace_env.errors import ExecutionError
from memplace_env.execution.constants import Constants
from memplace_env.execution.inputs import Arrays, checked_inputs, drawn_inputs
from memplace_env.execution.memory import POISON, Bytes, Memory
from memplace_env.execution.result import EXACT_ALIGNMENT, Difference, Execution, nearly_same, same_bits
from memplace_env.execution.schedule import Copies, Copy, Poison, Run, Step, resident_rows, steps_of
from memplace_env.execution.sessions import session_of
from memplace_env.execution.source import source_of
from memplace_env.execution.submodels import OpModel, Port, op_model, plain_model, tail_model
from memplace_env.plan import MemoryPlan, require_valid
from memplace_env.task import Task
from memplace_env.workload.program import TensorKind

if TYPE_CHECKING:
    import onnxruntime

Progress = Callable[[], None]
"""Called each time an op was prepared or has run."""


class Executor:
    """A task's network, ready to run in the memory of any plan for that task.

    It is made of the ONNX file anew: one session of ONNX Runtime for each op, which reads and writes at addresses of
    the arenas alone, and one of the whole model, whose results are what every op's must equal.

    Args:
        task: its program comes from an ONNX file.
        seed: of weights that the file lacks, and of the inputs.
        inputs: by name; drawn from the seed if None.
        progress: called for each op that is prepared.

    Attributes:
        plain_seconds: of the run of the whole model.
        setup_seconds: of everything before the first plan.
        drawn: how many constants are from the seed.

    Raises:
        ExecutionError: naming what cannot be executed.
    """

    def __init__(
        self,
        task: Task,
        *,
        seed: int = 0,
        inputs: Mapping[str, NDArray[Any]] | None = None,
        progress: Progress | None = None,
    ) -> None:
        began = time.perf_counter()
        self.task = task
        self._source = source = source_of(task)
        constants = Constants(source, seed)
        self._ops: list[OpModel] = []
        for op in range(task.program.num_ops):
            self._ops.append(op_model(source, op, constants))
            if progress is not None:
                progress()
        self._tail = tail_model(source, constants)
        self._memory = Memory(task, source)
        self._weights = {tensor: constants[self._stored_as(tensor)] for tensor in _of_kind(task, TensorKind.WEIGHT)}
        self._run_plainly(constants, seed, inputs)
        self.drawn = constants.drawn
        self.setup_seconds = time.perf_counter() - began - self.plain_seconds

    @property
    def arena_bytes(self) -> int:
        """Of all arenas together."""
        return self._memory.total_bytes

    @property
    def scale(self) -> int:
        """Bytes of the arenas for each byte of the plan, see `Memory`."""
        return self._memory.scale

    def run(
        self,
        plan: MemoryPlan,
        *,
        inferences: int = 3,
        copies: Copies | str = Copies.LATEST,
        seed: int = 0,
        progress: Progress | None = None,
        even_if_invalid: bool = False,
    ) -> Execution:
        """Execute a plan and compare each op's results with the plain run's.

        Args:
            plan: for the task.
            inferences: one after the other, on the same inputs; resident weights are loaded once.
            copies: when in their windows copies are made.
            seed: of `Copies.RANDOM`.
            progress: called for each op that has run.
            even_if_invalid: for tests of this very proof, execute what the validator refuses.

        Raises:
            PlanError: the plan is not valid.
            ExecutionError: a block ends behind its memory.
        """
        if inferences < 1:
            raise ExecutionError(f"inferences is {inferences}; at least 1 is needed.")
        if not even_if_invalid:
            require_valid(self.task, plan)
        return _Course(self, plan, Copies(copies), seed, progress or _silent).run(inferences)

    def _stored_as(self, tensor: int) -> str:
        """The constant that a weight holds."""
        program = self.task.program
        name = program.tensor_value[tensor]
        if name in self._source.values:
            return name
        op = int(program.live_start[tensor])
        return next((port.name for port in self._ops[op].operands if port.tensor == tensor), name)

    def _run_plainly(self, constants: Constants, seed: int, inputs: Mapping[str, NDArray[Any]] | None) -> None:
        program, source = self.task.program, self._source
        results = [port.name for model in self._ops for port in model.results]
        wanted = list(dict.fromkeys([*results, *(port.name for port in self._tail.results)] if self._tail else results))
        carved = plain_model(source, wanted, constants)
        weights = {self._stored_as(tensor): content for tensor, content in self._weights.items()}
        names = [name for name in carved.inputs if name not in weights]
        given: Arrays = drawn_inputs(source, names, seed) if inputs is None else checked_inputs(source, names, inputs)
        session = session_of(carved.model, f"{source.file.name} as a whole")
        feeds = {name: given.get(name, weights.get(name)) for name in carved.inputs}
        began = time.perf_counter()
        try:
            made = session.run(wanted, feeds)
        except Exception as error:  # the package's own exceptions have no base in common but this
            raise ExecutionError(f"ONNX Runtime cannot execute {source.file.name} as a whole: {error}.") from error
        self.plain_seconds = time.perf_counter() - began
        self._expected = {name: np.ascontiguousarray(array) for name, array in zip(wanted, made, strict=True)}
        self._inputs = {tensor: given[program.tensor_value[tensor]] for tensor in _of_kind(self.task, TensorKind.INPUT)}
        outputs = {name for name in source.outputs if name in self._expected}
        for name, array in self._expected.items():
            floating = array.dtype.kind in "fV"
            number = array.astype(np.float32) if floating and array.dtype.kind == "V" else array
            if floating and (np.isnan(number).any() or (name in outputs and not np.isfinite(number).all())):
                raise ExecutionError(
                    f"The plain run gives numbers that are not finite in {name!r}, which would equal any fault; pass "
                    "another seed or inputs of your own."
                )


@dataclass
class _Course:
    """One plan being executed."""

    executor: Executor
    plan: MemoryPlan
    copies: Copies
    seed: int
    progress: Progress
    counts: dict[str, int] = field(default_factory=lambda: {"ops": 0, "equal": 0, "near": 0})
    first: Difference | None = None
    wrong: dict[str, None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._memory = self.executor._memory
        self._task = self.executor.task
        self._expected = self.executor._expected
        self._places = _Places(self._task, self.plan, self._memory)
        self._bindings = [
            model.bound(self._places.addresses(op).__getitem__) for op, model in enumerate(self.executor._ops)
        ]

    def run(self, inferences: int) -> Execution:
        self._load()
        rng = np.random.default_rng(self.seed)
        seconds = []
        for number in range(inferences):
            self._begin()
            steps = list(steps_of(self._task, self.plan, self.copies, rng))
            taken = self._infer(number, steps)
            if taken is None:
                break
            seconds.append(taken)
            self._compare_outputs(number)
        counts = self.counts
        return Execution(
            self.copies, inferences, counts["ops"], counts["equal"], counts["near"],
            self.first, tuple(self.wrong), tuple(seconds),
        )  # fmt: skip

    def _load(self) -> None:
        """Everything that is there before the first inference."""
        self._memory.clear(self.plan)
        for tensor, content in self.executor._weights.items():
            _fill(self._memory.backing(tensor), content)
        for row in np.flatnonzero(resident_rows(self._task, self.plan)).tolist():
            self._memory.block(self.plan, row)[:] = self._memory.backing(int(self.plan.allocations[row, 0]))

    def _begin(self) -> None:
        """What is there before each inference: inputs; what the last one made is gone."""
        for tensor in np.flatnonzero(self._task.program.producer >= 0).tolist():
            self._memory.backing(tensor)[:] = POISON
        for tensor, content in self.executor._inputs.items():
            _fill(self._memory.backing(tensor), content)

    def _infer(self, number: int, steps: list[Step]) -> float | None:
        """Seconds of one inference, None if an op failed."""
        total = 0.0
        for step in steps:
            began = time.perf_counter()
            if isinstance(step, Poison):
                self._memory.whole_block(self.plan, step.row)[:] = POISON
            elif isinstance(step, Copy):
                source, target = self._places.ends(step.row)
                target[:] = source
            else:
                failure = self._run(step)
                total += time.perf_counter() - began
                self.progress()
                if failure is not None:
                    self._differs(number, step.op, self._task.program.op_name[step.op], f"the op failed: {failure}")
                    self.wrong.update(dict.fromkeys(self.executor._source.outputs))
                    return None
                self._compare(number, step.op)
                continue
            total += time.perf_counter() - began
        return total

    def _run(self, step: Run) -> Exception | None:
        try:
            self.executor._ops[step.op].session.run_with_iobinding(self._bindings[step.op])
        except Exception as error:  # a kernel may trip over what a wrong plan hands it
            return error
        return None

    def _compare(self, number: int, op: int) -> None:
        self.counts["ops"] += 1
        found = self._places.results(op)
        model = self.executor._ops[op]
        wrong = [port for port in model.results if not self._equal(found[port.tensor], port)]
        if not wrong:
            self.counts["equal"] += 1
        elif self._places.is_aligned(op) or not all(self._near(found[port.tensor], port) for port in wrong):
            self._differs(number, op, wrong[0].name, "it is not what the plain run makes")
        else:
            self.counts["near"] += 1
            for port in wrong:
                _fill(found[port.tensor], self._expected[port.name])

    def _compare_outputs(self, number: int) -> None:
        program, memory = self._task.program, self._memory
        ports = {port.tensor: port for model in self.executor._ops for port in model.results}
        found = [(ports[tensor], memory.backing(tensor)) for tensor in _of_kind(self._task, TensorKind.OUTPUT)]
        tail = self.executor._tail
        if tail is not None:
            held = {port.name: memory.backing(port.tensor) for port in tail.operands}
            arrays = {port.name: held[port.name].view(_dtype(port)).reshape(port.shape) for port in tail.operands}
            made = tail.session.run([port.name for port in tail.results], arrays)
            found += [(port, _raw(array)) for port, array in zip(tail.results, made, strict=True)]
        for port, content in found:
            if not self._equal(content, port):
                self.wrong[port.name] = None
                self._differs(
                    number, program.num_ops, port.name, "as a graph output it is not what the plain run makes"
                )

    def _equal(self, found: Bytes, port: Port) -> bool:
        return same_bits(found, _raw(self._expected[port.name]))

    def _near(self, found: Bytes, port: Port) -> bool:
        expected = self._expected[port.name]
        return nearly_same(found.view(expected.dtype).reshape(expected.shape), expected)

    def _differs(self, number: int, op: int, value: str, why: str) -> None:
        if self.first is None:
            self.first = Difference(number, op, value, why)


class _Places:
    """Where the uses and copies of a plan find their data."""

    def __init__(self, task: Task, plan: MemoryPlan, memory: Memory) -> None:
        self._task = task
        self._plan = plan
        self._memory = memory
        self._rows: dict[tuple[int, int], list[int]] = {}
        order = np.argsort(plan.allocations[:, 3], kind="stable")
        for row in order.tolist():
            tensor, level = plan.allocations[row, :2].tolist()
            self._rows.setdefault((tensor, level), []).append(row)

    def at(self, tensor: int, level: int, op: int) -> Bytes:
        """The bytes of a tensor in a level during an op: in the last block there that has begun.

        In a valid plan it has not ended either; in others its bytes are read as they are.
        """
        if level == self._task.backing:
            return self._memory.backing(tensor)
        rows = self._rows.get((tensor, level))
        if not rows:
            raise ExecutionError(f"Tensor {tensor} has no block in level {level} at all.")
        begun = [row for row in rows if self._plan.allocations[row, 3] <= op]
        return self._memory.block(self._plan, begun[-1] if begun else rows[0])

    def of_op(self, op: int) -> dict[int, Bytes]:
        """The bytes of each tensor that an op uses."""
        program = self._task.program
        uses = range(program.use_ptr[op], program.use_ptr[op + 1])
        return {
            int(program.use_tensor[use]): self.at(int(program.use_tensor[use]), int(self._plan.use_level[use]), op)
            for use in uses
        }

    def addresses(self, op: int) -> dict[int, int]:
        """Addresses of this machine, by tensor."""
        return {tensor: int(part.ctypes.data) for tensor, part in self.of_op(op).items()}

    def results(self, op: int) -> dict[int, Bytes]:
        """The bytes of each tensor that an op makes."""
        return {tensor: part for tensor, part in self.of_op(op).items() if self._task.program.producer[tensor] == op}

    def is_aligned(self, op: int) -> bool:
        """Whether kernels compute there the bits that they compute anywhere."""
        return all(address % EXACT_ALIGNMENT == 0 for address in self.addresses(op).values())

    def ends(self, row: int) -> tuple[Bytes, Bytes]:
        """The bytes that a copy reads and those that it writes."""
        tensor, source, target, start, end = self._plan.transfers[row].tolist()
        prefetch = source == self._task.backing
        held = self._held(tensor, target if prefetch else source, start, end, prefetch)
        backing = self._memory.backing(tensor)
        return (backing, held) if prefetch else (held, backing)

    def _held(self, tensor: int, level: int, start: int, end: int, prefetch: bool) -> Bytes:
        """The block of a copy: the one that covers its window, else as `at`."""
        first, last = (start, end + 1) if prefetch else (start - 1, end)
        for row in self._rows.get((tensor, level), ()):
            if self._plan.allocations[row, 3] <= first and last <= self._plan.allocations[row, 4]:
                return self._memory.block(self._plan, row)
        return self.at(tensor, level, first)


def _fill(target: Bytes, content: NDArray[Any]) -> None:
    target[:] = _raw(content)


def _raw(array: NDArray[Any]) -> Bytes:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _dtype(port: Port) -> np.dtype[Any]:
    from onnx import helper

    return np.dtype(helper.tensor_dtype_to_np_dtype(port.element_type))


def _of_kind(task: Task, kind: TensorKind) -> list[int]:
    tensors: list[int] = np.flatnonzero(task.program.tensor_kind == kind).tolist()
    return tensors


def _silent() -> None:
    pass
