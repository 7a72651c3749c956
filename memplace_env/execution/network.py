"""A task's network, ready to run op by op, and what a plain run of it gives."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import index
from typing import SupportsIndex

import numpy as np

from memplace_env.errors import ExecutionError
from memplace_env.execution.constants import Array, Constants
from memplace_env.execution.inputs import Inputs, given_inputs
from memplace_env.execution.sessions import session_of
from memplace_env.execution.source import Source, source_of
from memplace_env.execution.submodels import OpModel, op_model, plain_model, tail_model
from memplace_env.task import Task
from memplace_env.workload.program import TensorKind

Progress = Callable[[], None]
"""Called each time an op was prepared or has run."""


@dataclass(frozen=True)
class Network:
    """What is to run, on what, and what must come of it.

    Attributes:
        source: its ONNX file.
        ops: a model for each op of the program.
        tail: makes those graph outputs that are views of inputs and of others' results, None if none are.
        weights: contents by tensor.
        inputs: contents by tensor.
        expected: results of all ops and of `tail`, by name, as one session of the whole model makes them.
        drawn: how many constants the file lacks, so that they are from the seed.
        plain_seconds: of the run of that session.
    """

    source: Source
    ops: tuple[OpModel, ...]
    tail: OpModel | None
    weights: Mapping[int, Array]
    inputs: Mapping[int, Array]
    expected: Mapping[str, Array]
    drawn: int
    plain_seconds: float


def network_of(task: Task, seed: int, inputs: Inputs, progress: Progress) -> Network:
    """The network of a task.

    Args:
        task: its program comes from an ONNX file.
        seed: of weights that the file lacks, and of the inputs.
        inputs: arrays by name, or the path of an .npz file; drawn from the seed if None.
        progress: called for each op that is prepared.

    Raises:
        ExecutionError: naming what cannot be executed, or what is no seed.
    """
    seed = whole("seed", seed, 0)
    source = source_of(task)
    constants = Constants(source, seed)
    ops = []
    for op in range(task.program.num_ops):
        ops.append(op_model(source, op, constants))
        progress()
    tail = tail_model(source, constants)
    stored = {tensor: _stored_as(source, ops, tensor) for tensor in source.tensors(TensorKind.WEIGHT)}
    weights = {tensor: constants[name] for tensor, name in stored.items()}
    wanted = [port.name for model in (*ops, *([tail] if tail else [])) for port in model.results]
    plain = plain_model(source, wanted, constants)
    feeds = {name: weights[tensor] for tensor, name in stored.items() if name in plain.inputs}
    given = given_inputs(source, [name for name in plain.inputs if name not in feeds], seed, inputs)
    session = session_of(plain.model, f"{source.file.name} as a whole")
    began = time.perf_counter()
    try:
        made = session.run(wanted, feeds | given)
    except Exception as error:  # the package's own exceptions have no base in common but this
        raise ExecutionError(f"ONNX Runtime cannot execute {source.file.name} as a whole: {error}.") from error
    seconds = time.perf_counter() - began
    expected = {name: np.asarray(array, order="C") for name, array in zip(wanted, made, strict=True)}
    _check_finite(source, expected)
    mine = {tensor: given[source.program.tensor_value[tensor]] for tensor in source.tensors(TensorKind.INPUT)}
    return Network(source, tuple(ops), tail, weights, mine, expected, constants.drawn, seconds)


def whole(name: str, value: SupportsIndex, least: int) -> int:
    """An argument as a whole number.

    Raises:
        ExecutionError: it is none, or less than that.
    """
    try:
        number = index(value)
    except TypeError:
        raise ExecutionError(f"{name} is {value!r}; it must be a whole number.") from None
    if number < least:
        raise ExecutionError(f"{name} is {number}; at least {least} is needed.")
    return number


def _stored_as(source: Source, ops: list[OpModel], tensor: int) -> str:
    """The constant that a weight holds."""
    name = source.program.tensor_value[tensor]
    if name in source.values:
        return name
    first = ops[int(source.program.live_start[tensor])]
    return next(port.name for port in first.operands if port.tensor == tensor)


def _check_finite(source: Source, expected: Mapping[str, Array]) -> None:
    """Results that are no numbers would equal any fault. Inside, infinities do no harm: masks are made of them."""
    for name, array in expected.items():
        if array.dtype.kind not in "fV":
            continue
        numbers = array.astype(np.float32) if array.dtype.kind == "V" else array
        if np.isnan(numbers).any() or (name in source.outputs and not np.isfinite(numbers).all()):
            raise ExecutionError(
                f"{source.file.name} gives numbers that are not finite in {name!r} when it runs plainly, so no fault "
                "could be seen there; pass another seed or inputs of your own."
            )
