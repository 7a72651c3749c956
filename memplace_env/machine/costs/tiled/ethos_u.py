"""Tiling on Arm's Ethos-U: from the blocks of each op to what its uses move."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from memplace_env._lib.units import PS_PER_S, ceil_div, round_up
from memplace_env.machine.accelerator import Accelerator
from memplace_env.machine.accelerator.tiling_description import EthosU
from memplace_env.machine.costs.cost_arrays import LIMIT_PS
from memplace_env.machine.costs.tiled.access import requested_rates
from memplace_env.machine.costs.tiled.ethos_u_blocks import (
    BRICK,
    SCALE_BYTES,
    EthosBlock,
    Layer,
    blocks_per_map,
    cycles,
    held_channels,
    least_traffic,
    read_elements,
)
from memplace_env.machine.costs.tiled.nest import COLUMN, Kind, Nests, Role, nests
from memplace_env.machine.costs.tiled.tiling_form import Requests, Tiling, counted
from memplace_env.program.program import Program, TensorKind

WORD = 16
"""Bytes of a word of the request buffers."""

_STAGING, _WEIGHTS, _INPUT, _SCALES = range(4)
"""Indices in `request_words`."""

_MOST_STRIDE = 3
"""Largest distance of two windows that the unit can express."""

_UNBROKEN = 2**20
"""Run of what is read in one piece, longer than any burst."""


class _Use(NamedTuple):
    """Bytes that a use moves, the length of its runs, and the index in `request_words` that bounds it, or None."""

    moved: int
    run: int = _UNBROKEN
    words: int | None = None


class _Op(NamedTuple):
    """An op with all that its uses depend on: `repeats` nests of `layer`, made in `block`, written as `result`.

    Operands that all `pieces` of the op share are read by each of them, see `_pieces`.
    """

    unit: EthosU
    layer: Layer
    block: EthosBlock[int]
    repeats: int
    pieces: int
    result: _Use

    @property
    def weight_reads(self) -> int:
        """Number of times that the op reads its weights; a column of a second feature map counts as read once."""
        elementwise = self.layer.kind == Kind.ELEMENTWISE
        return 1 if elementwise else self.pieces * blocks_per_map(self.layer, self.block)


def tile_ethos_u(program: Program, accelerator: Accelerator) -> Iterator[Tiling]:
    """Yield tilings in which all blocks fit the buffers, a half, a quarter, until no op has a smaller block."""
    unit, nest = accelerator.tiling, _spread(program, nests(program))
    assert isinstance(unit, EthosU)
    like = _like(program, nest)
    firsts = sorted(set(like))
    pieces = {op: _pieces(program, nest, unit, op) for op in firsts}
    layers = {op: _layer(program, nest, unit, op, pieces[op]) for op in firsts}
    choices = {op: least_traffic(layers[op], unit) for op in firsts}
    for share in range(max(map(len, choices.values()))):
        chosen = {op: choices[op][min(share, len(choices[op]) - 1)] for op in firsts}
        ops = {op: _op(program, nest, unit, layers[op], chosen[op], pieces[op], op) for op in firsts}
        yield _tiling(program, accelerator, nest, [ops[op] for op in like], like)


def _like(program: Program, nest: Nests) -> list[int]:
    """Return for each op the first one of the same type, shapes and uses: an unrolled network has thousands of them."""
    first: dict[tuple[str | bytes, ...], int] = {}
    kind, like = program.tensor_kind[program.use_tensor], []
    for op in range(program.num_ops):
        uses = slice(program.use_ptr[op], program.use_ptr[op + 1])
        rows = program.gemm[op], program.geometry[op], program.use_bytes[uses], nest.role[uses], kind[uses]
        like.append(first.setdefault((program.op_type[op], *(row.tobytes() for row in rows)), op))
    return like


def _spread(program: Program, nest: Nests) -> Nests:
    """Return the nests with transposed convolutions on an input that zeros spread to the result's size.

    They become as many 1 x 1 convolutions as the window has elements, which is how ethos-u-vela counts them. Those with
    groups, or with a geometry that does not match their product, stay products without a window.
    """
    shape = {name: np.maximum(1, program.geometry[:, index]) for name, index in COLUMN.items()}
    window = shape["kernel_y"] * shape["kernel_x"]
    pixels = shape["batch"] * shape["ifm_y"] * shape["ifm_x"]
    product = np.stack([np.ones_like(window), pixels, shape["ifm_z"], shape["ofm_z"] * window], axis=1)
    transposed = np.array([op_type == "ConvTranspose" for op_type in program.op_type])
    transposed &= (program.gemm == product).all(axis=1)
    result = {"height": shape["batch"] * shape["ofm_y"], "width": shape["ofm_x"], "depth": shape["ofm_z"]}
    changes = {**result, "channels": shape["ifm_z"], "repeats": window}
    changes |= dict.fromkeys(("kernel_y", "kernel_x", "stride_y", "stride_x"), np.ones_like(window))
    return nest._replace(**{name: np.where(transposed, new, getattr(nest, name)) for name, new in changes.items()})


def _pieces(program: Program, nest: Nests, unit: EthosU, op: int) -> int:
    """Return how many ops, one after the other, the compiler makes of a nest that the unit cannot work through.

    Products that the U65 makes element by element become an op for each column, see `_is_elementwise_product`.

    Windows more than three apart that lie inside the input become an op for each result. The distance is the unit's
    limit; that there is an op for each result, which reads the weights anew, is how ethos-u-vela goes about it. It says
    nothing about what the unit could do, but what runs on it is that compiler's code.
    """
    if _is_elementwise_product(program, nest, unit, op):
        return int(nest.depth[op])
    shape = {name: max(1, int(program.geometry[op, index])) for name, index in COLUMN.items()}
    axes = [
        (shape["ifm_y"], shape["ofm_y"], shape["kernel_y"], shape["stride_y"]),
        (shape["ifm_x"], shape["ofm_x"], shape["kernel_x"], shape["stride"]),
    ]
    known = nest.kind[op] in (Kind.PRODUCT, Kind.POOL) and max(nest.stride_y[op], nest.stride_x[op]) > 1
    far = any(stride > _MOST_STRIDE and results > 1 for _, results, _, stride in axes)
    inside = all((results - 1) * stride + kernel <= inputs for inputs, results, kernel, stride in axes)
    padded = program.geometry[op, COLUMN["pad"]] > 0 or shape["dilation"] > 1
    return int(nest.height[op]) * int(nest.width[op]) if known and far and inside and not padded else 1


def _is_elementwise_product(program: Program, nest: Nests, unit: EthosU, op: int) -> bool:
    """Return whether the op is a product of two feature maps on the U65.

    Its array takes weights only as a compressed stream, which is made before the program runs. ethos-u-vela has each
    row multiplied by one column of the second map, element by element, and the 32-bit products added up, column by
    column, so that it reads the first map, in plain order, as often as there are columns: slow, but that is what runs.
    Where the products lie in between is not counted.
    """
    if unit.generation != "ethos-u65" or nest.kind[op] != Kind.PRODUCT or nest.kernel_y[op] * nest.kernel_x[op] > 1:
        return False
    owned = np.arange(program.use_ptr[op], program.use_ptr[op + 1])
    weights = owned[nest.role[owned] == Role.WEIGHTS]
    return len(weights) > 0 and not _is_constant(program, int(weights[0]))


def _layer(program: Program, nest: Nests, unit: EthosU, op: int, pieces: int) -> Layer:
    sizes = nest.height, nest.width, nest.depth, nest.channels
    window = nest.kernel_y, nest.kernel_x, nest.stride_y, nest.stride_x
    source = nest.input_height, nest.input_width
    layer = Layer(Kind(nest.kind[op]), *(int(column[op]) for column in (*sizes, *window, *source)))
    if layer.kind in (Kind.PRODUCT, Kind.DEPTHWISE):
        spacing = _spacing(int(program.geometry[op, COLUMN["dilation"]]))
        layer = layer._replace(kernel_y=(layer.kernel_y - 1) * spacing + 1, kernel_x=(layer.kernel_x - 1) * spacing + 1)
    if _is_elementwise_product(program, nest, unit, op):
        layer = layer._replace(kind=Kind.ELEMENTWISE)
    elif pieces > 1:
        layer = layer._replace(height=1, width=1, input_height=layer.kernel_y, input_width=layer.kernel_x)
    return layer._replace(
        stride_y=layer.stride_y if layer.height > 1 else 1, stride_x=layer.stride_x if layer.width > 1 else 1
    )


def _spacing(dilation: int) -> int:
    """Return the distance of a window's elements after zeros have been put between them.

    The unit itself skips every second pixel or none. For other dilations ethos-u-vela puts zeros between the weights,
    which the unit multiplies like others; they are stored in hardly any bytes.
    """
    return max(1, dilation // 2 if dilation % 2 == 0 else dilation)


def _op(program: Program, nest: Nests, unit: EthosU, layer: Layer, block: EthosBlock[int], pieces: int, op: int) -> _Op:
    owned = program.use_bytes[program.use_ptr[op] : program.use_ptr[op + 1]]
    moved = ceil_div(int(owned[-1]) * round_up(layer.depth, BRICK), layer.depth) if len(owned) else 0
    cores = unit.cores if unit.generation == "ethos-u65" else 1
    result = _Use(moved, BRICK * block.width * cores)
    if len(owned) and _transposes_in_plain_order(program, unit, op):
        result = _Use(int(owned[-1]), BRICK * cores)
    return _Op(unit, layer, block, int(nest.repeats[op]), pieces, result)


def _transposes_in_plain_order(program: Program, unit: EthosU, op: int) -> bool:
    """Return whether the op is a transpose on the U65.

    That one transposes by copies whose strides only the plain order allows, in which nothing is rounded up to bricks,
    and writes no more than a brick a core at once: a small part of a burst. ethos-u-vela counts nothing but the memory
    accesses, which is its convention; the copies are not free.
    """
    return unit.generation == "ethos-u65" and program.op_type[op] == "Transpose"


def _tiling(program: Program, accelerator: Accelerator, nest: Nests, ops: list[_Op], like: list[int]) -> Tiling:
    unit, fast = ops[0].unit, accelerator.levels[0]
    uses: list[_Use] = []
    compute: list[int] = []
    reserved = np.zeros(program.num_ops, dtype=np.int64)
    restreamed = np.zeros(program.num_ops, dtype=np.int64)
    ahead, staged = np.zeros(program.num_ops, dtype=np.bool_), np.zeros(program.num_uses, dtype=np.bool_)
    for number, op in enumerate(ops):
        owned = range(program.use_ptr[number], program.use_ptr[number + 1])
        if (first := like[number]) < number:
            same = slice(program.use_ptr[first], program.use_ptr[first + 1])
            uses += uses[same]
            compute.append(compute[first])
            staged[owned] = staged[same]
            for each in (reserved, restreamed, ahead):
                each[number] = each[first]
            continue
        weights = [use for use in owned if nest.role[use] == Role.WEIGHTS]
        launched = op.pieces * (op.repeats if program.gemm[number, 0] > 1 else 1)  # else repeats are parts of a window
        busy = op.repeats * op.pieces * cycles(op.layer, op.block, unit, _output_cycles(program, number, op))
        busy += launched * _edge_cycles(op, accelerator)
        if launched > 1 and weights and _is_constant(program, weights[0]):
            awaited = Fraction(int(program.use_bytes[weights[0]]), op.repeats)
            busy = max(busy, launched * _weight_cycles(awaited, unit, accelerator))
        for use in owned:
            uses.append(_use(program, nest, op, number, use))
            if use in weights:
                buffer = _staging_bytes(op, int(program.use_bytes[use]), fast.capacity_bytes)
                staged[use] = buffer > 0
                reserved[number] = buffer
                ahead[number] = _is_constant(program, use)
                if buffer:
                    streamed, size = uses[-1].moved, int(program.use_bytes[use])
                    busy = max(busy, Fraction(streamed * unit.clock_hz, fast.read_bytes_per_s))
                    restreamed[number] = streamed - size
                    uses[-1] = uses[-1]._replace(moved=size)
        compute.append(ceil_div(busy * PS_PER_S, unit.clock_hz))
    return Tiling(
        compute_ps=counted(compute),
        moved_bytes=counted([use.moved for use in uses]),
        run_bytes=counted([use.run for use in uses]),
        reserved_bytes=reserved,
        ahead=ahead,
        staged=staged,
        restreamed_bytes=restreamed,
        requests=_requests(program, unit, uses),
    )


def _edge_cycles(op: _Op, accelerator: Accelerator) -> Fraction:
    """Return the cycles before an op's first block, while its input comes, and after its last, while its result goes.

    They are counted as if both lay in the fastest memory, as cycles cannot depend on the plan; where they lie in a
    slower one, its time covers more. Element-wise ops have none: ethos-u-vela takes them as overlapped.
    """
    layer, block, fast = op.layer, op.block, accelerator.levels[0]
    if layer.kind == Kind.ELEMENTWISE:
        return Fraction(0)
    depth = min(block.depth, layer.depth)
    channels = depth if layer.keeps_channels else min(layer.channels, held_channels(layer, op.unit))
    source = min(block.input_height, layer.input_height) * min(block.input_width, layer.input_width) * channels
    result = min(block.height, layer.height) * min(block.width, layer.width) * depth
    latency = fast.access.read_latency_ps + fast.access.write_latency_ps if fast.access else 0
    bytes_ps = Fraction(source, fast.read_bytes_per_s) + Fraction(result, fast.write_bytes_per_s)
    return bytes_ps * op.unit.clock_hz + Fraction(latency * op.unit.clock_hz, PS_PER_S)


def _weight_cycles(size: Fraction, unit: EthosU, accelerator: Accelerator) -> Fraction:
    """Return the cycles until so many bytes of weights have come from the backing memory.

    Each op waits for its weights, which come during the one before; many small ops in a row wait for little else.
    """
    memory = accelerator.levels[accelerator.backing]
    rate, latency = memory.read_bytes_per_s, 0
    if memory.access is not None:
        latency = memory.access.read_latency_ps
        if unit.request_words:
            asked = counted([min(unit.request_words[_STAGING] * WORD, LIMIT_PS)])
            rate = min(rate, int(requested_rates(memory.access, asked, np.zeros(1, dtype=np.bool_))[0]))
    return Fraction(latency * unit.clock_hz, PS_PER_S) + size * unit.clock_hz / rate


def _requests(program: Program, unit: EthosU, uses: list[_Use]) -> Requests | None:
    if not unit.request_words:
        return None
    asked = [min(words * WORD, LIMIT_PS) for words in unit.request_words]
    outside = np.isin(program.tensor_kind[program.use_tensor], (TensorKind.WEIGHT, TensorKind.INPUT))
    return Requests(counted([0 if use.words is None else asked[use.words] for use in uses]), asked[_STAGING], outside)


def _use(program: Program, nest: Nests, op: _Op, number: int, use: int) -> _Use:
    role, size = nest.role[use], int(program.use_bytes[use])
    if role == Role.RESULT:
        return op.result if use == program.use_ptr[number + 1] - 1 else _Use(size)
    if role == Role.WEIGHTS:
        return _Use(size * op.weight_reads, words=_WEIGHTS)
    if role == Role.INPUT:
        if _transposes_in_plain_order(program, op.unit, number):
            return _Use(size)
        if _is_elementwise_product(program, nest, op.unit, number):
            return _Use(op.pieces * size, min(op.unit.depth_slice, op.layer.channels), _INPUT)
        pixels = int(nest.input_height[number] * nest.input_width[number])
        return _input(op, size, pixels, program.tensor_kind[program.use_tensor[use]])
    if op.layer.kind in (Kind.PRODUCT, Kind.DEPTHWISE):
        if _is_constant(program, use):
            return _Use(max(size, SCALE_BYTES * op.layer.depth * op.weight_reads * op.repeats), words=_SCALES)
        return op.result._replace(words=_INPUT)
    if op.unit.generation == "ethos-u65" or size == program.use_bytes[program.use_ptr[number + 1] - 1]:
        run = op.result.run
        if op.layer.kind == Kind.ELEMENTWISE and _is_constant(program, use):
            run = min(op.block.depth, op.layer.depth)  # Constants lie in plain order: a block's channels of a pixel.
        return _Use(max(size, op.result.moved), run, _INPUT)  # The U65 spreads an operand as it reads it.
    return _Use(size, words=_INPUT)


def _input(op: _Op, size: int, pixels: int, kind: int) -> _Use:
    """Return the use of the streamed operand; data from outside the unit lie in plain order, not in bricks."""
    layer, elements = op.layer, read_elements(op.layer, op.block)
    run = BRICK * op.block.input_width
    if kind in (TensorKind.INPUT, TensorKind.WEIGHT):
        elements = elements // round_up(layer.channels, BRICK) * layer.channels
        run = held_channels(layer, op.unit)
    return _Use(max(size, ceil_div(op.pieces * elements * size, pixels * layer.channels)), run, _INPUT)


def _staging_bytes(op: _Op, size: int, capacity: int) -> int:
    """Return the bytes of fast memory that an op keeps for weights that it reads more than once.

    All of them in at most an eighth of the memory, else two slices in at most half of it, so that feature maps have
    room, else nothing: our choice. Each of several pieces loads them anew.
    """
    if op.weight_reads == 1 or op.pieces > 1:
        return 0
    slices = min(size, 2 * ceil_div(size * op.block.depth, op.layer.depth))
    return size if 8 * size <= capacity else slices if 2 * slices <= capacity else 0


def _output_cycles(program: Program, number: int, op: _Op) -> Fraction:
    """Return cycles per result element; data that are only moved go out as plain results."""
    rates, op_type = op.unit.output_cycles, program.op_type[number]
    if _transposes_in_plain_order(program, op.unit, number):
        return Fraction(0)
    if op_type == "MaxPool":
        return rates.max_pool
    if op.layer.kind == Kind.ELEMENTWISE and program.gemm[number, 0]:
        return 2 * rates.plain + Fraction(1, 8 * op.unit.cores)  # 32-bit products, and their sum: 16 channels of 2 rows
    if op.layer.kind != Kind.ELEMENTWISE or not program.vector_ops[number]:
        return rates.plain
    return rates.multiply if op_type == "Mul" else rates.add


def _is_constant(program: Program, use: int) -> bool:
    return bool(program.tensor_kind[program.use_tensor[use]] == TensorKind.WEIGHT)
