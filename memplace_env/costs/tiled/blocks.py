"""Tiling on a unit that makes its result block by block: Arm's Ethos-U65 and U85."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from memplace_env.accelerator import Accelerator
from memplace_env.accelerator.tiling import Blocks, Box
from memplace_env.costs.tiled.nest import Kind, Role, nests
from memplace_env.costs.tiled.tiling import Tiling
from memplace_env.units import PS_PER_S
from memplace_env.workload.program import Program, TensorKind

BRICK = 16
SUBKERNEL = 8
import os
OPT = dict(kv.split("=") for kv in os.environ.get("OPT", "").split(",") if kv)


class Shape(NamedTuple):
    kind: int
    op_type: str
    height: int
    width: int
    depth: int
    channels: int
    kernel_y: int
    kernel_x: int
    stride_y: int
    stride_x: int


class Block(NamedTuple):
    h: int
    w: int
    d: int
    ih: int
    iw: int
    part: bool
    u: Box


class Tile(NamedTuple):
    cycles: Fraction
    input: int      # elements read
    result: int     # elements written
    m: int          # weight reads
    run_in: int
    run_out: int
    d: int
    block: Block


def rup(a, b):
    return -(-a // b) * b


def cdiv(a, b):
    return -(-a // b)


def part_kernel_better(s: Shape, unit: Blocks) -> bool:
    if s.kind != Kind.PRODUCT:
        return False
    k, c = s.kernel_y * s.kernel_x, s.channels
    if unit.generation == "ethos-u65" and OPT.get("part") != "cycles":
        return c <= 8 or Fraction(c * k, rup(c, 8) * rup(k, 4)) >= Fraction(c, rup(c, 32))
    if OPT.get("part") == "cycles":
        e = subkernels(s.kernel_y, s.kernel_x); i = min(16, rup(c, 8))
        return sum(4 * cdiv(x, 4) for x in e) * cdiv(i, 8) * cdiv(c, i) < sum(unit.depth_slice // 8 * x for x in e) * cdiv(c, unit.depth_slice)
    kk = 5 * (k // 5) + max(k % 5, 2) if k % 5 else k
    return Fraction(c * k, rup(c, 16) * kk) >= Fraction(c, rup(c, 64))


def subkernels(ky, kx):
    out = []
    for a in range(0, ky, SUBKERNEL):
        for b in range(0, kx, SUBKERNEL):
            out.append(min(SUBKERNEL, ky - a) * min(SUBKERNEL, kx - b))
    return out


@lru_cache(65536)
def choose(s: Shape, unit: Blocks) -> Block:
    u65 = unit.generation == "ethos-u65"
    if s.kind == Kind.PRODUCT:
        us = unit.microblocks
    else:
        us = unit.vector_microblocks
    if u65 and s.height == 1 and s.width % 2 == 0 and s.kernel_y == 1:
        us = ((1, 4, 8),)
    else:
        waste = lambda u: rup(s.height, u[0]) * rup(s.width, u[1]) * rup(s.depth, u[2])
        us = (min(us, key=waste),)
    u = us[0]
    part = part_kernel_better(s, unit)
    H, W, D, C = s.height, s.width, s.depth, s.channels
    step_d = u[2] * unit.cores if u65 else u[2]
    hs = np.arange(u[0], min(unit.largest_block[0], rup(H, u[0])) + 1, u[0])
    ws = np.arange(u[1], min(unit.largest_block[1], rup(W, u[1])) + 1, u[1])
    ds = np.arange(step_d, min(unit.largest_block[2], rup(D, step_d)) + 1, step_d)
    ds = ds[(ds >= D) | (ds % 16 == 0)]
    h, w, d = (x.ravel() for x in np.meshgrid(hs, ws, ds, indexing="ij"))
    ky, kx = min(s.kernel_y, SUBKERNEL), min(s.kernel_x, SUBKERNEL)
    ih, iw = rup((h - 1) * s.stride_y + ky, u[0]), rup((w - 1) * s.stride_x + kx, u[1])
    dwp = s.kind in (Kind.DEPTHWISE, Kind.POOL, Kind.MEAN, Kind.TABLE)
    elem = s.kind == Kind.ELEMENTWISE
    if dwp or elem:
        idd = d
    else:
        idd = min(unit.depth_slice if not part else 16, rup(C, 8)) if OPT.get("idmin") else (16 if part else unit.depth_slice)
    if u65:
        fits = rup(2 * ih * iw * rup(idd, 8), 8192) + rup(8 * h * w * rup(d, 8), 16384) <= unit.buffer_bytes[0]
    else:
        f = 1 if dwp else 2
        fits = (f * ih * iw * idd <= unit.buffer_bytes[0]) & (4 * f * h * w * rup(d, 16) <= unit.buffer_bytes[1])
    if not fits.any():
        fits = np.zeros(len(h), bool); fits[0] = True
    h, w, d, ih, iw = (x[fits] for x in (h, w, d, ih, iw))
    m = cdiv(H, h) * cdiv(W, w)
    R = cdiv(s.kernel_y, 8) * cdiv(s.kernel_x, 8)
    k = s.kernel_y * s.kernel_x
    if elem:
        cost = -(h * w * d).astype(float)
    else:
        frac = (H / h) * (W / w) if not OPT.get("int") else m
        passes = 1 if dwp else cdiv(D, d)
        cost = ih * iw * C * R * frac * passes
        if s.kind == Kind.PRODUCT and H * W > 1:
            cost = cost + k * C * (cdiv(D, d) * d if OPT.get("rd") else D) * m + (10 * D * m if OPT.get("sc") else 0)
        elif s.kind in (Kind.DEPTHWISE, Kind.MEAN):
            cost = cost + k * C * m
    blocks = m * cdiv(D, d)
    if OPT.get("obj") and not elem:
        px, pz = cdiv(h, u[0]) * cdiv(w, u[1]), cdiv(d, u[2])
        wd = 4 * u[2] if u65 else cdiv(4 * u[2], unit.cores)
        sub = subkernels(s.kernel_y, s.kernel_x)
        I = unit.depth_slice
        if s.kind == Kind.PRODUCT:
            if part:
                i = min(16, rup(C, 8))
                M = np.maximum(wd, 4 * px) * sum(cdiv(e, 4) for e in sub) * pz * cdiv(i, 8) * cdiv(C, i)
            else:
                M = np.maximum(wd, I // 8 * px) * sum(sub) * pz * cdiv(C, I)
        elif s.kind in (Kind.DEPTHWISE, Kind.MEAN):
            M = np.maximum(wd, 4 * px) * sum(cdiv(e, 4) for e in sub) * pz
        else:
            M = sum(4 * max(4, e) for e in sub) * px * pz
        M = M / (unit.cores if u65 else 1)
        r = float(unit.output_cycles[1 if s.op_type == "MaxPool" else 0])
        A = r * h * w * d
        n = cdiv(H, u[0]) * cdiv(W, u[1]) * cdiv(D, u[2]) / (px * pz)
        npu = n * np.maximum(M, A) + np.minimum(M, A)
        el = ih * iw * rup(C, 16) * R * m * passes + H * W * rup(D, 16)
        el = el + (k * C * D if s.kind == Kind.PRODUCT else k * C if s.kind == Kind.DEPTHWISE else 0) * (1 if OPT.get("stage") else m) + (10 * D * m if s.kind <= 1 else 0)
        bpc = float(OPT["bpc"])
        if OPT["obj"].startswith("exact"):
            Bu = 128
            bw, lat, words = {256: (3.75, 0, 0), 512: (3.75, 0, 0)}.get(0) or ((3.75, 500, 0) if u65 else (12., 500, unit.request_words) if unit.cores == 2 else (24., 500, unit.request_words))
            rate = lambda x: bw if u65 else min(bw, .8 * Bu * min(x / (Bu / 16), .8 * (1 if bw < 20 else 2) * 64) / 500)
            wrate = bw if u65 else min(bw, .8 * Bu * .8 * (1 if bw < 20 else 2) * 32 / 250)
            tin = ih * iw * rup(C, 16) * R * m * passes * np.maximum(1, Bu / (16 * iw)) / rate(words and words[1])
            tout = H * W * rup(D, 16) * np.maximum(1, Bu / (16 * w * (unit.cores if u65 else 1))) / wrate
            wb = k * C * D if s.kind == Kind.PRODUCT else k * C if s.kind == Kind.DEPTHWISE else 0
            stg = (m > 1)
            tw = np.where(stg, wb / rate(words and words[0]), wb / rate(words and words[1]))
            tsc = (10 * D * m if s.kind <= 1 else 0) / rate(words and words[2])
            tot = tin + tout + np.maximum(tw, tsc) if not u65 else tin + tout + tw + tsc
            if OPT["obj"] == "exact": cost2 = np.maximum(npu, tot)
            if OPT["obj"] == "exactsum": cost2 = npu + tot
            if OPT["obj"] == "exact2": cost2 = np.maximum(npu, np.maximum(tw, tsc) if not u65 else tw + tsc)
            best = np.lexsort((blocks, cost, np.round(cost2, 6)))[0]
        elif OPT["obj"] == "max":
            cost2 = np.maximum(npu, el / bpc)
            best = np.lexsort((blocks, cost, cost2))[0]
        elif OPT["obj"] == "sum":
            best = np.lexsort((blocks, npu + el / bpc))[0]
        elif OPT["obj"] == "npu":
            best = np.lexsort((blocks, cost, npu))[0]
        return Block(int(h[best]), int(w[best]), int(d[best]), int(ih[best]), int(iw[best]), part, u)
    best = np.lexsort((blocks, cost))[0]
    return Block(int(h[best]), int(w[best]), int(d[best]), int(ih[best]), int(iw[best]), part, u)


@lru_cache(65536)
def tile(s: Shape, unit: Blocks) -> Tile:
    if not OPT.get("lat"):
        return tile_of(s, unit, choose(s, unit))
    from dataclasses import replace
    best = None
    for f in (1, 2, 4, 8):
        small = replace(unit, buffer_bytes=tuple(x // f for x in unit.buffer_bytes))
        t = tile_of(s, unit, choose(s, small))
        bw = 3.75 if unit.generation == "ethos-u65" else 12 if unit.cores == 2 else 24
        if OPT["lat"] == "sram": bw = 16
        k = s.kernel_y * s.kernel_x
        wb = k * s.channels * s.depth if s.kind == Kind.PRODUCT else k * s.channels if s.kind == Kind.DEPTHWISE else 0
        sc = 10 * s.depth * t.m if s.kind <= 1 else 0
        if bw > 3.75 and OPT["lat"] != "sram": sc = max(0, sc * bw / .41 - wb)
        T = max(float(t.cycles), (t.input * max(1, 128 / t.run_in) + t.result * max(1, 128 / t.run_out) + wb + sc) / bw)
        if best is None or T < best[0]: best = (T, t)
    return best[1]


def tile_of(s, unit, b) -> Tile:
    u65 = unit.generation == "ethos-u65"
    c = unit.cores
    uh, uw, ud = b.u
    H, W, D, C = s.height, s.width, s.depth, s.channels
    px, pz = cdiv(b.h, uh) * cdiv(b.w, uw), cdiv(b.d, ud)
    wd = 4 * ud if u65 else cdiv(4 * ud, c)
    I = unit.depth_slice
    sub = subkernels(s.kernel_y, s.kernel_x)
    if s.kind == Kind.PRODUCT:
        if b.part:
            i = min(16, rup(C, 8)); M = sum(max(wd, 4 * px) * cdiv(e, 4) for e in sub) * pz * cdiv(i, 8) * cdiv(C, i)
        else:
            M = sum(max(wd, I // 8 * px) * e for e in sub) * pz * cdiv(C, I)
    elif s.kind in (Kind.DEPTHWISE, Kind.MEAN):
        M = sum(max(wd, 4 * px) * cdiv(e, 4) for e in sub) * pz
    elif s.kind in (Kind.POOL, Kind.TABLE):
        M = sum(4 * max(4, e) for e in sub) * px * pz
    else:
        M = 0
    M = Fraction(M, c if u65 else 1)
    plain, maxpool, mul, add = unit.output_cycles
    r = maxpool if s.op_type == "MaxPool" else plain
    if s.kind == Kind.ELEMENTWISE:
        r = {"Add": add, "Sub": add, "Mul": mul}.get(s.op_type, add)
    n = Fraction(cdiv(H, uh) * cdiv(W, uw) * cdiv(D, ud), px * pz)
    A = r * b.h * b.w * b.d
    if s.kind == Kind.ELEMENTWISE:
        cycles = r * H * W * rup(D, 16)
    else:
        if OPT.get("q") and s.kind not in (Kind.ELEMENTWISE,):
            pass
        cycles = n * M + A if M > A else n * A + M
    m = cdiv(H, b.h) * cdiv(W, b.w)
    R = cdiv(s.kernel_y, 8) * cdiv(s.kernel_x, 8)
    passes = cdiv(D, b.d) if s.kind == Kind.PRODUCT else 1
    if s.kind == Kind.ELEMENTWISE:
        inp = H * W * rup(C, 16)
    else:
        inp = b.ih * b.iw * rup(C, 16) * R * m * passes
    return Tile(cycles, inp, H * W * rup(D, 16), m, 16 * b.iw, 16 * b.w * (c if u65 else 1), b.d, b)


def tile_blocks(program: Program, accelerator: Accelerator) -> Tiling:
    unit = accelerator.tiling
    nest = nests(program)
    T, U = program.num_ops, program.num_uses
    u65 = unit.generation == "ethos-u65"
    compute = np.zeros(T, np.int64)
    moved = program.use_bytes.copy()
    run = np.full(U, 1 << 20, np.int64)
    reserved = np.zeros(T, np.int64)
    staged = np.zeros(U, bool)
    words = np.zeros(U, np.int64)
    beside = np.full(U, -1)
    tiles = []
    kinds = program.tensor_kind
    fast = accelerator.levels[0]
    for op in range(T):
        s = Shape(int(nest.kind[op]), program.op_type[op], *(int(x[op]) for x in (nest.height, nest.width, nest.depth, nest.channels, nest.kernel_y, nest.kernel_x, nest.stride_y, nest.stride_x)))
        count = int(nest.count[op])
        t = tile(s, unit)
        tiles.append(t)
        cyc = t.cycles
        uses = range(program.use_ptr[op], program.use_ptr[op + 1])
        for use in uses:
            size = int(program.use_bytes[use])
            role = nest.role[use]
            plain = kinds[program.use_tensor[use]] == TensorKind.INPUT
            if not u65:
                words[use] = 0 if role == Role.RESULT else unit.request_words[1]
            if role == Role.INPUT:
                elements = count * int(nest.input_height[op] * nest.input_width[op]) * s.channels
                e = t.input
                if plain:
                    e = e // rup(s.channels, 16) * s.channels
                    run[use] = 8 if s.channels <= 8 else (16 if t.block.part else unit.depth_slice)
                else:
                    run[use] = t.run_in
                moved[use] = max(size, -(-e * count * size // elements))
            elif role == Role.WEIGHTS:
                moved[use] = size * (t.m if s.kind != Kind.ELEMENTWISE else 1)
                need = min(size, 2 * -(-size * t.d // s.depth))
                fm = sum(int(program.use_bytes[q]) for q in uses if nest.role[q] in (Role.INPUT, Role.RESULT) and program.tensor_kind[program.use_tensor[q]] == TensorKind.ACTIVATION) if OPT.get("sf") else 0
                if OPT.get("sf") == "live": fm = int(program.live_bytes[op])
                if OPT.get("whole"):
                    fm2 = sum(int(program.use_bytes[q]) for q in uses if nest.role[q] in (Role.INPUT, Role.RESULT) and program.tensor_kind[program.use_tensor[q]] == TensorKind.ACTIVATION)
                    if size + (fm2 if OPT["whole"] == "fm" else 0) <= fast.capacity_bytes: need = size
                if t.m > 1 and need + fm <= fast.capacity_bytes:
                    reserved[op] += need
                    if OPT.get("pre") == "enc" and op: reserved[op - 1] += size
                    if OPT.get("pre") == "slice" and op: reserved[op - 1] += -(-size * t.d // s.depth)
                    if OPT.get("pre") == "two" and op: reserved[op - 1] += need
                    staged[use] = True
                    if not OPT.get("nofloor"):
                        cyc = max(cyc, Fraction(moved[use] * unit.clock_hz, fast.read_bytes_per_s))
            elif role == Role.RESULT:
                elements = count * s.height * s.width * s.depth
                moved[use] = max(size, -(-t.result * count * size // elements))
                run[use] = t.run_out
            elif s.kind == Kind.PRODUCT or s.kind == Kind.DEPTHWISE:
                if size <= 4 * s.depth * count:
                    moved[use] = 10 * s.depth * t.m
                    if not u65:
                        words[use] = unit.request_words[2]
                        beside[use] = [q for q in uses if nest.role[q] == Role.WEIGHTS][0]
                else:  # residual
                    moved[use] = -(-t.result * size // (s.height * s.width * s.depth)); run[use] = t.run_out
            elif u65:
                moved[use] = max(size, t.result)
        compute[op] = -(-(cyc * count * PS_PER_S) // unit.clock_hz)
    tile_blocks.tiles = tiles
    return Tiling(compute, moved, run, reserved, staged, None if u65 else words, unit.request_words[0] if not u65 else 0, None if u65 else beside)
