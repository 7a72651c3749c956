"""Small StableHLO modules that demand much time, depth or work, as text and as bytecode."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Final

import numpy as np

from tests.fuzz.mutations import pick

T: Final = "tensor<8x8xf32>"
_TO_BYTECODE: Final = """
import sys
from memplace_env.program.frontends.stablehlo.parsed_apart import libraries, new_context
library = libraries()
with new_context(library):
    library.ir.Module.parse(sys.stdin.read()).operation.write_bytecode(sys.stdout.buffer)
"""


def bomb(rng: np.random.Generator) -> bytes:
    """Return one of the modules, of a size drawn by `rng`; one in four as bytecode, where MLIR can write it."""
    text = pick(rng, _BOMBS)(rng).encode()
    if rng.random() < 0.75:
        return text
    done = subprocess.run([sys.executable, "-c", _TO_BYTECODE], input=text, capture_output=True, check=False)
    return done.stdout or text


def _main(body: str) -> str:
    return f"func.func public @main(%x: {T}) -> {T} {{ {body} return %y : {T} }}"


def _nested(rng: np.random.Generator) -> str:
    """Return an attribute of brackets within brackets."""
    depth, (opens, closes) = int(10 ** rng.uniform(1, 5)), pick(rng, (("[", "]"), ("{a = ", "}"), ("tuple<", ">")))
    core = "1" if opens == "[" else "unit" if opens.startswith("{") else "f32"
    return _main(f"%y = stablehlo.tanh %x {{z = {opens * depth}{core}{closes * depth}}} : {T}")


def _regions(rng: np.random.Generator) -> str:
    """Return branches within branches."""
    depth = int(10 ** rng.uniform(0, 3.5))
    opens = "".join(f'%v{n} = "stablehlo.case"(%i) ({{ ' for n in range(depth))
    closes = "".join(f" stablehlo.return %v{n + 1} : {T} }}) : (tensor<i32>) -> {T}" for n in reversed(range(depth)))
    inner = f"%v{depth} = stablehlo.tanh %x : {T}"
    return _main(f"%i = stablehlo.constant dense<0> : tensor<i32> {opens}{inner}{closes} %y = stablehlo.tanh %v0 : {T}")


def _loop(rng: np.random.Generator) -> str:
    """Return a loop of many rounds, with a body of element-wise ops, of products, or of both."""
    rounds = int(10 ** rng.uniform(1, 5))
    product = f"stablehlo.dot_general %a, %a, contracting_dims = [1] x [0] : ({T}, {T}) -> {T}"
    body = {
        "chain": f"%b = stablehlo.tanh %a : {T}",
        "product": f"%b = {product}",
        "sum": f"%p = {product} %q = stablehlo.tanh %a : {T} %b = stablehlo.add %p, %q : {T}",
    }[pick(rng, ("chain", "product", "sum"))]
    return _main(
        f"""%c = stablehlo.constant dense<0> : tensor<i32> %n = stablehlo.constant dense<{rounds}> : tensor<i32>
        %one = stablehlo.constant dense<1> : tensor<i32>
        %l:2 = stablehlo.while(%i = %c, %a = %x) : tensor<i32>, {T}
          cond {{ %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
                  stablehlo.return %p : tensor<i1> }}
          do {{ %j = stablehlo.add %i, %one : tensor<i32> {body} stablehlo.return %j, %b : tensor<i32>, {T} }}
        %y = stablehlo.tanh %l#1 : {T}"""
    )


def _windows(rng: np.random.Generator) -> str:
    """Return sums over windows far larger than the tensor."""
    size, count = 2 ** int(rng.integers(1, 63)), int(rng.integers(1, 12))
    pool = f""""stablehlo.reduce_window"(%x, %c) ({{ ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32> stablehlo.return %s : tensor<f32> }})
      {{window_dimensions = array<i64: {size}, {size}>, window_strides = array<i64: 1, 1>,
        padding = dense<[[{size - 1}, 0], [{size - 1}, 0]]> : tensor<2x2xi64>}} : ({T}, tensor<f32>) -> {T}"""
    sums = " ".join(
        f"%p{n} = {pool} %s{n} = stablehlo.add %{f's{n - 1}' if n else 'x'}, %p{n} : {T}" for n in range(count)
    )
    return _main(f"%c = stablehlo.constant dense<0.0> : tensor<f32> {sums} %y = stablehlo.tanh %s{count - 1} : {T}")


_BOMBS: Final[tuple[Callable[[np.random.Generator], str], ...]] = (_nested, _regions, _loop, _windows)
