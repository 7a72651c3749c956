"""The measured model: ops take what they took on the device itself, and what lies in its host comes over the bus."""

from __future__ import annotations

from hashlib import sha256

import numpy as np

from memplace_env._lib.errors import CostError
from memplace_env._lib.units import PS_PER_S
from memplace_env.machine.accelerator import Accelerator
from memplace_env.machine.accelerator.schema import MAX_KEY
from memplace_env.machine.costs.cost_arrays import Costs
from memplace_env.machine.costs.roofline import ceil_ratio, check_unit
from memplace_env.program.blocks import inner_ops
from memplace_env.program.program import Ints, Program

_DIGEST = 16


class Measured:
    """Times of `memplace calibrate --device cuda`, for a device whose backing memory is its host's.

    An op takes the time that it was measured to take with everything in the device. What of it lies in the host is
    copied over the bus before the op, or after it, one whole tensor behind the other: bytes over the bandwidth of that
    direction, and the latency of a copy. So do the plan's own copies. Energies are not measured: 0.
    """

    name = "measured"

    def costs(self, program: Program, accelerator: Accelerator) -> Costs:
        """Return the arrays.

        Raises:
            CostError: if an op was not measured.
            WorkloadError: if the accelerator has no unit for the program's dtype, or a time leaves int64.
        """
        check_unit(program, accelerator)
        measured_ps = _op_ps(program, accelerator)
        latency_ps = 0 if accelerator.measured is None else accelerator.measured.copy_latency_ps
        bus, (read_rate, write_rate) = accelerator.levels[-1], accelerator.dma_bytes_per_s
        use_ps = np.ones((program.num_uses, accelerator.num_levels), dtype=np.int64)  # 1: the least that there is
        used = program.tensor_bytes[program.use_tensor]  # the whole of it, though a kernel may pick rows
        use_ps[:, -1] = latency_ps + np.where(
            program.use_is_result,
            ceil_ratio(used, PS_PER_S, bus.write_bytes_per_s),
            ceil_ratio(used, PS_PER_S, bus.read_bytes_per_s),
        )
        return Costs(
            compute_ps=np.zeros(program.num_ops, dtype=np.int64),
            overhead_ps=measured_ps,
            use_ps=use_ps,
            latency_ps=np.zeros(accelerator.num_levels, dtype=np.int64),
            serial=True,
            prefetch_ps=latency_ps + ceil_ratio(program.tensor_bytes, PS_PER_S, read_rate),
            writeback_ps=latency_ps + ceil_ratio(program.tensor_bytes, PS_PER_S, write_rate),
            compute_pj=np.zeros(program.num_ops, dtype=np.int64),
            use_pj=np.zeros_like(use_ps),
            copy_pj=np.zeros((program.num_tensors, accelerator.num_levels), dtype=np.int64),
            reserved_bytes=np.zeros((program.num_ops, accelerator.num_levels), dtype=np.int64),
        )


def op_key(program: Program, op: int) -> str:
    """Return all properties of an op but names and neighbours as text: ops that agree in it are measured once.

    For example "Conv float32 1x3136x576x64 MAC 200704 vec 802816+147456+256>802816 B 1:56x56x64:56x56x64:1:3x3:1:1:1:1"
    has its type, the program's dtype, `gemm` (the product is its MACs), vector ops, bytes moved by each operand and
    each result ("used/whole" where a use moves part of its tensor only), and `geometry`.

    Returns:
        one printable line of at most `MAX_KEY` characters; of a longer one the end is a digest.
    """
    parts = [program.op_type[op], program.dtype]
    if program.macs[op]:
        parts.append(f"{_sizes(program.gemm[op])} MAC")
    if program.vector_ops[op]:
        parts.append(f"{program.vector_ops[op]} vec")
    uses = range(program.use_ptr[op], program.use_ptr[op + 1])
    moved = [
        [_moved(program, use) for use in uses if program.use_is_result[use] == is_result] for is_result in (False, True)
    ]
    parts.append(">".join(map("+".join, moved)) + " B")
    if program.geometry[op].any():
        parts.append(_shape(program.geometry[op]))
    key = " ".join(parts)
    if len(key) <= MAX_KEY:
        return key
    return f"{key[: MAX_KEY - _DIGEST - 1]}~{sha256(key.encode()).hexdigest()[:_DIGEST]}"


def _op_ps(program: Program, accelerator: Accelerator) -> Ints:
    op_ps = {} if accelerator.measured is None else accelerator.measured.op_ps
    inner = inner_ops(program)
    keys = [op_key(program, op) for op in range(program.num_ops)]
    for op, key in enumerate(keys):
        if key not in op_ps and inner.start <= op < inner.stop:
            raise CostError(
                f"Accelerator {accelerator.name!r} has no measured time of op {op} ({program.op_name[op]}, {key!r}) of "
                f"{program.name!r}: run `memplace calibrate --device cuda --model MODEL` for this model, or pass the "
                "cost model 'roofline'."
            )
    return np.array([op_ps.get(key, 0) for key in keys], dtype=np.int64)


def _moved(program: Program, use: int) -> str:
    used, whole = program.use_bytes[use], program.tensor_bytes[program.use_tensor[use]]
    return f"{used}" if used == whole else f"{used}/{whole}"


def _shape(geometry: Ints) -> str:
    batch, ifm, ofm, groups, kernel, rest = np.split(geometry, [1, 4, 7, 8, 10])
    return ":".join([*map(_sizes, (batch, ifm, ofm, groups, kernel)), *map(str, rest)])


def _sizes(numbers: Ints) -> str:
    return "x".join(map(str, numbers))
