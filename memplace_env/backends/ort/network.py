"""A task's network, ready to run op by op, and the results of a plain run."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import index
from typing import SupportsIndex

import numpy as np

from memplace_env._lib.errors import ExecutionError
from memplace_env._lib.threads import cached_property
from memplace_env.backends.ort.inputs import Inputs, given_inputs
from memplace_env.backends.ort.model_constants import Array, Constants
from memplace_env.backends.ort.sessions import session_of
from memplace_env.backends.ort.source import Source, source_of
from memplace_env.backends.ort.submodels import OpModel, op_model, plain_model, tail_model
from memplace_env.placement.task import Task
from memplace_env.program.program import TensorKind

Progress = Callable[[], None]
"""Called for each op that was prepared or has run."""


@dataclass(frozen=True)
class Network:
    """A network with its inputs and expected results.

    Attributes:
        source: its ONNX file.
        ops: a model for each op of the program.
        tail: the model of those graph outputs that are views of inputs and of other results; None if there are none.
        weights: contents by tensor.
        inputs: contents by tensor.
        expected: results of all ops and of `tail`, by name, from one session of the whole model, and inputs in blocks.
        drawn: number of constants that the file lacks, so that they are drawn from the seed.
        plain_seconds: seconds of the run of that session.
    """

    source: Source
    ops: tuple[OpModel, ...]
    tail: OpModel | None
    weights: Mapping[int, Array]
    inputs: Mapping[int, Array]
    expected: Mapping[str, Array]
    drawn: int
    plain_seconds: float

    @cached_property
    def contents(self) -> Mapping[int, Array]:
        """Contents by tensor: weights, inputs and the expected results of all ops."""
        results = {port.tensor: self.expected[port.name] for model in self.ops for port in model.results}
        return {**self.weights, **self.inputs, **results}


def network_of(task: Task, seed: int, inputs: Inputs, progress: Progress) -> Network:
    """Return the network of a task.

    Args:
        task: its program comes from an ONNX file.
        seed: seed of weights that the file lacks, and of the inputs.
        inputs: arrays by name, or the path of an .npz file; drawn from the seed if None.
        progress: called for each op that is prepared.

    Raises:
        ExecutionError: naming what cannot be executed, or an invalid seed.
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
    wanted = [port.name for model in (*ops, *([tail] if tail else [])) if model.session for port in model.results]
    plain = plain_model(source, wanted, constants)
    feeds = {name: weights[tensor] for tensor, name in stored.items() if name in plain.inputs}
    given = given_inputs(source, [name for name in plain.inputs if name not in feeds], seed, inputs)
    session = session_of(plain.model, f"{source.file.name} as a whole")
    began = time.perf_counter()
    try:
        arrays = session.run(wanted, feeds | given)
    except Exception as error:  # the package's own exceptions have no base in common but this
        raise ExecutionError(f"ONNX Runtime cannot execute {source.file.name} as a whole: {error}.") from error
    seconds = time.perf_counter() - began
    expected = {name: np.asarray(array, order="C") for name, array in zip(wanted, arrays, strict=True)}
    _check_finite(
        source, expected, lambda name: [read for read in plain_model(source, [name], constants).inputs if read in given]
    )
    expected |= {port.name: given[port.name] for model in ops if model.session is None for port in model.results}
    own_inputs = {tensor: given[source.program.tensor_value[tensor]] for tensor in source.tensors(TensorKind.INPUT)}
    return Network(source, tuple(ops), tail, weights, own_inputs, expected, constants.drawn, seconds)


def whole(name: str, value: SupportsIndex, least: int) -> int:
    """Return an argument as a whole number.

    Raises:
        ExecutionError: it is none, or below the least value.
    """
    try:
        number = index(value)
    except TypeError:
        raise ExecutionError(f"{name} must be a whole number, not {value!r}.") from None
    if number < least:
        raise ExecutionError(f"{name} must be at least {least}, not {number}.")
    return number


def _stored_as(source: Source, ops: list[OpModel], tensor: int) -> str:
    """Return the name of the constant that a weight stores."""
    name = source.program.tensor_value[tensor]
    if name in source.values:
        return name
    first = ops[int(source.program.live_start[tensor])]
    return next(port.name for port in first.operands if port.tensor == tensor)


def _check_finite(source: Source, expected: Mapping[str, Array], inputs_of: Callable[[str], Sequence[str]]) -> None:
    """Refuse NaN, which would hide faults, and infinite outputs; inner values may be infinite, as masks are.

    The message names the inputs that the number comes from, as those drawn may be of no use to the network.
    """
    for name, array in expected.items():
        if array.dtype.kind not in "fV":
            continue
        numbers = array.astype(np.float32) if array.dtype.kind == "V" else array
        if np.isnan(numbers).any() or (name in source.outputs and not np.isfinite(numbers).all()):
            which = " and ".join(map(repr, inputs_of(name))) or "weights that the file has"
            raise ExecutionError(
                f"{source.file.name} gives numbers that are not finite in {name!r} in a plain run, which would hide "
                f"faults; pass another seed, or numbers of the usual size for {which} with --inputs."
            )
