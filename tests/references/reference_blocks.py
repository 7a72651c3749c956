"""Blocks of Arm's Ethos-U, tried one by one: the block that an op is made in, and the unit's cycles for it.

The loop nest of the op is taken from `costs.tiled.nest`; the rest is written anew from the formulas.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import product
from math import ceil, floor, prod

from memplace_env.machine.accelerator.tiling_description import EthosU
from memplace_env.machine.costs.tiled.nest import Kind, Nests, Role
from memplace_env.program.program import GEOMETRY, Program, TensorKind

Block = tuple[int, int, int]
"""Height, width and depth of the results made at once."""


def up(value: int, step: int) -> int:
    """The least multiple of step that is no less."""
    return ceil(Fraction(value, step)) * step


class UnitAtWork:
    """The unit at work on one op: result H x W x D of an input with C channels, windows of k elements."""

    def __init__(self, program: Program, unit: EthosU, every: Nests, op: int) -> None:
        self.op_type, self.moves_only, self.unit = program.op_type[op], program.vector_ops[op] == 0, unit
        self.old = self.unit.generation == "ethos-u65"
        self.kind, self.repeats = Kind(every.kind[op]), int(every.repeats[op])
        self.H, self.W, self.D, self.C = (int(getattr(every, x)[op]) for x in ("height", "width", "depth", "channels"))
        self.kernel = int(every.kernel_y[op]), int(every.kernel_x[op])
        self.stride = int(every.stride_y[op]), int(every.stride_x[op])
        self.input_sides = int(every.input_height[op]), int(every.input_width[op])
        self.input_pixels = prod(self.input_sides)
        self.spread(program, op)
        self.fill_with_zeros(int(program.geometry[op, GEOMETRY.index("dilation")]))
        self.pieces = 1
        self.by_column = self.multiplies_two_maps(program, every, op)
        if self.by_column:
            self.kind, self.pieces = Kind.ELEMENTWISE, self.D
        self.split(program, op)
        self.stride = self.stride[0] if self.H > 1 else 1, self.stride[1] if self.W > 1 else 1
        self.k = self.kernel[0] * self.kernel[1]
        self.sums = self.kind == Kind.PRODUCT  # over the channels
        self.box = self.microblock()

    def spread(self, program: Program, op: int) -> None:
        """Makes a transposed convolution one of 1 x 1 for each element of its window, at each pixel of its result."""
        shape = {name: int(size) for name, size in zip(GEOMETRY, program.geometry[op], strict=True)}
        window = shape["kernel_y"] * shape["kernel_x"]
        product = [1, shape["batch"] * shape["ifm_y"] * shape["ifm_x"], shape["ifm_z"], shape["ofm_z"] * window]
        if self.op_type != "ConvTranspose" or not window or program.gemm[op].tolist() != product:
            return
        self.H, self.W, self.D = shape["batch"] * shape["ofm_y"], shape["ofm_x"], shape["ofm_z"]
        self.C, self.repeats = shape["ifm_z"], window
        self.kernel = self.stride = 1, 1

    def fill_with_zeros(self, dilation: int) -> None:
        """Makes a dilated window larger, with zeros between its weights; the unit itself skips one pixel or none."""
        if self.kind in (Kind.PRODUCT, Kind.DEPTHWISE) and dilation:
            apart = dilation if dilation % 2 else dilation // 2
            y, x = self.kernel
            self.kernel = y + (y - 1) * (apart - 1), x + (x - 1) * (apart - 1)

    def multiplies_two_maps(self, program: Program, every: Nests, op: int) -> bool:
        """Return whether a product has no constant operand to make weights of, which the U65 needs."""
        for use in range(int(program.use_ptr[op]), int(program.use_ptr[op + 1])):
            if every.role[use] == Role.WEIGHTS:
                constant = program.tensor_kind[program.use_tensor[use]] == TensorKind.WEIGHT
                return bool(self.old and self.kind == Kind.PRODUCT and self.kernel == (1, 1) and not constant)
        return False

    def split(self, program: Program, op: int) -> None:
        """Makes windows four or more apart, none of which leaves the input, one op each."""
        shape = {name: int(size) for name, size in zip(GEOMETRY, program.geometry[op], strict=True)}
        if self.kind not in (Kind.PRODUCT, Kind.POOL) or shape["pad"] or shape["dilation"] > 1:
            return
        far = False
        for axis, name in enumerate(("y", "x")):
            step, last = self.stride[axis], max(1, shape[f"ofm_{name}"]) - 1
            if step * last + self.kernel[axis] > max(1, shape[f"ifm_{name}"]):
                return
            far |= step >= 4 and last > 0
        if far:
            self.pieces, self.H, self.W = self.H * self.W, 1, 1
            self.input_sides = self.kernel

    # Blocks

    def microblock(self) -> Block:
        if self.old and self.H == self.kernel[0] == 1 and self.W % 2 == 0:
            return 1, 4, self.unit.microblocks[0][2]
        best, least = None, 0
        for box in self.unit.microblocks if self.sums else self.unit.vector_microblocks:
            rounded = up(self.H, box[0]) * up(self.W, box[1]) * up(self.D, box[2])
            if best is None or rounded < least:
                best, least = box, rounded
        assert best is not None
        return best

    def candidates(self) -> Iterator[Block]:
        """Multiples of the micro-block, on the U65 by its cores in depth, at least one, which fill whole bricks of 16
        channels unless they hold all; all steps where none of them does."""
        step_h, step_w, step_d = self.box[0], self.box[1], self.box[2] * (self.unit.cores if self.old else 1)
        most_h, most_w, most_d = (
            max(step, min(most, up(size, step)))
            for size, step, most in zip(
                (self.H, self.W, self.D), (step_h, step_w, step_d), self.unit.largest_block, strict=True
            )
        )
        whole = [d for d in range(step_d, most_d + 1, step_d) if d % 16 == 0 or d >= self.D] or [step_d]
        yield from product(range(step_h, most_h + 1, step_h), range(step_w, most_w + 1, step_w), whole)

    def blocks(self) -> list[Block]:
        """The best block that fits the buffers, that fits the half of them, and so on; the smallest if none fits."""
        chosen: list[Block] = []
        ranked = sorted(self.candidates(), key=self.rank)  # a stable sort: of equal ones the smallest is first
        share = 1
        while fitting := [block for block in ranked if self.fits(block, share)]:
            chosen.append(fitting[0])
            share *= 2
        return chosen or [next(self.candidates())]

    def rank(self, block: Block) -> tuple[Fraction, int, int, int, int]:
        """The best is the least: what is read, of no products how many blocks, then the flattest and smallest."""
        count = 0 if self.sums else self.blocks_per_map(block) * ceil(Fraction(self.D, block[2]))
        return self.measure(block), count, block[2], block[0], block[1]

    def measure(self, block: Block) -> Fraction:
        """Elements of input and weights: ih iw C R (H / h) (W / w) ceil(D / d), whole ones, + k C D m, m weight reads.

        Half of them if two blocks of input hold all of it; of element-wise ops the block, the larger the better.
        """
        if self.kind == Kind.ELEMENTWISE:
            return Fraction(-prod(block))
        area = self.input_side(block, 0) * self.input_side(block, 1)
        times = Fraction(self.H, block[0]) * Fraction(self.W, block[1]) * self.again(block)
        read = Fraction(floor(area * self.C * times))
        if self.kind in (Kind.DEPTHWISE, Kind.MEAN):
            read += self.k * self.C * self.blocks_per_map(block)
        elif self.sums and (self.H, self.W) != (1, 1):
            read += self.k * self.C * self.D * self.blocks_per_map(block)
        whole = prod(self.input_sides) * self.C
        return read / 2 if 2 * area * self.channels_at_once(block) > whole else read

    def blocks_per_map(self, block: Block) -> int:
        return ceil(Fraction(self.H, block[0])) * ceil(Fraction(self.W, block[1]))

    def input_side(self, block: Block, axis: int) -> int:
        return up((block[axis] - 1) * self.stride[axis] + min(8, self.kernel[axis]), self.box[axis])

    def input_reads(self, block: Block, channels: int) -> int:
        """Elements of so many channels that are read, whole blocks."""
        area = self.input_side(block, 0) * self.input_side(block, 1)
        return area * channels * self.blocks_per_map(block) * self.again(block)

    def again(self, block: Block) -> int:
        """Return how often an input block is read: for each slice of the result's depth and each part of the window."""
        slices = ceil(Fraction(self.D, block[2])) if self.sums else 1
        return slices * ceil(Fraction(self.kernel[0], 8)) * ceil(Fraction(self.kernel[1], 8))

    def channels_at_once(self, block: Block) -> int:
        """Input channels that a buffer holds of a pixel."""
        return self.slice() if self.sums else block[2]

    def fits(self, block: Block, share: int) -> bool:
        h, w, d = block
        channels = self.channels_at_once(block)
        pixels, unit = self.input_side(block, 0) * self.input_side(block, 1), self.unit
        if self.old:
            both = up(2 * pixels * up(channels, 8), 8 * 1024) + up(8 * h * w * up(d, 8), 16 * 1024)
            return both * share <= unit.buffer_bytes[0]
        copies = 2 if self.kind in (Kind.PRODUCT, Kind.ELEMENTWISE) else 1
        return (
            copies * pixels * channels * share <= unit.buffer_bytes[0]
            and 4 * copies * h * w * up(d, 16) * share <= unit.buffer_bytes[1]
        )

    # Cycles

    def by_kernel(self) -> bool:
        """Return whether kernel elements fill the unit as well as channels do."""
        deep = Fraction(self.C, up(self.C, self.unit.depth_slice))
        if self.old:
            return self.C <= 8 or Fraction(self.C, up(self.C, 8)) * Fraction(self.k, up(self.k, 4)) >= deep
        rest = self.k % 5
        taken = self.k - rest + {0: 0, 1: 2}.get(rest, rest)  # fives, and a rest of at least two
        return Fraction(self.C, up(self.C, 16)) * Fraction(self.k, taken) >= deep

    def slice(self) -> int:
        """Input channels of a product that are held and read at once; the U65 has no use for more than there are."""
        most = 16 if self.by_kernel() else self.unit.depth_slice
        return min(most, up(self.C, 8)) if self.old else most

    def subkernels(self) -> list[int]:
        """Elements of the parts of at most 8 x 8 of the window."""
        sides = [[min(8, size - at) for at in range(0, size, 8)] for size in self.kernel]
        return [y * x for y, x in product(*sides)]

    def cycles(self, block: Block) -> Fraction:
        rate = self.output_rate()
        if self.kind == Kind.ELEMENTWISE:
            return self.repeats * self.pieces * rate * self.H * self.W * up(self.C, 16)
        in_block, total = (
            [ceil(Fraction(s, u)) for s, u in zip(x, self.box, strict=True)] for x in (block, self.size())
        )
        number = Fraction(prod(total), prod(in_block))
        multiply, output = self.multiply(in_block[0] * in_block[1], in_block[2]), rate * block[0] * block[1] * block[2]
        longer, shorter = max(multiply, output), min(multiply, output)
        return self.repeats * self.pieces * (number * longer + shorter)

    def size(self) -> Block:
        return self.H, self.W, self.D

    def multiply(self, px: int, pz: int) -> Fraction:
        """Cycles to multiply and accumulate one block of px x pz micro-blocks."""
        decode = Fraction(4 * self.box[2], 1 if self.old else self.unit.cores)
        px4, total = Fraction(4 * px), Fraction(0)
        for e in self.subkernels():
            fours = ceil(Fraction(e, 4))
            if self.kind in (Kind.DEPTHWISE, Kind.MEAN):
                total += max(decode, px4) * fours * pz
            elif not self.sums:
                total += 4 * max(4, e) * px * pz
            elif self.by_kernel():
                depth = 8 if self.C <= 8 else 16
                total += max(decode, px4) * fours * pz * (depth // 8) * ceil(Fraction(self.C, depth))
            else:
                slices = ceil(Fraction(self.C, self.unit.depth_slice))
                total += max(decode, Fraction(self.unit.depth_slice // 8 * px)) * e * pz * slices
        return total / self.unit.cores if self.old else total

    def output_rate(self) -> Fraction:
        rates = self.unit.output_cycles
        if self.old and self.op_type == "Transpose":
            return Fraction(0)
        if self.op_type == "MaxPool":
            return rates.max_pool
        if self.by_column:
            return rates.plain * 2 + Fraction(4, 2 * 16) / self.unit.cores
        if self.kind == Kind.ELEMENTWISE and not self.moves_only:
            return rates.multiply if self.op_type == "Mul" else rates.add
        return rates.plain
