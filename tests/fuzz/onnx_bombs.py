"""Small ONNX models that demand much memory, time or depth."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, helper

from tests.fuzz.mutations import INTEGERS, pick
from tests.fuzz.onnx_seeds import IMPORTS, made_model, node, one_value

Bomb = Callable[[np.random.Generator], ModelProto]


def bomb(rng: np.random.Generator) -> ModelProto:
    """Return one of the models, of a size drawn by `rng`."""
    return pick(rng, _BOMBS)(rng)  # type: ignore[no-any-return]


def _functions(rng: np.random.Generator) -> ModelProto:
    """Return functions that call each other, with a depth and a number of calls."""
    levels, calls = (
        (int(rng.integers(1, 200)), 1) if rng.random() < 0.3 else pick(rng, ((2, 30), (9, 9), (12, 2), (40, 7)))
    )
    functions = []
    for level in range(levels):
        called = f"F{level - 1}" if level else "Relu"
        nodes = _chain(called, calls, domain="own" if level else "")
        functions.append(helper.make_function("own", f"F{level}", ["x"], ["y"], nodes, IMPORTS))
    return made_model(_chain(f"F{levels - 1}", 1, domain="own"), {"x": [1, 4]}, {}, functions=functions)


def _operands(rng: np.random.Generator) -> ModelProto:
    """Return sums that each read all sums before."""
    count = int(rng.integers(2, 150))
    nodes = [node("Sum", " ".join(["x", *(f"v{k}" for k in range(n))]), f"v{n}") for n in range(count)]
    return made_model(nodes, {"x": [1, 4]}, {}, f"v{count - 1}")


def _sequence(rng: np.random.Generator) -> ModelProto:
    """Return a sequence that grows, of pieces with a long name."""
    name, rows, grown = "s" * int(rng.integers(1, 20_000)), int(rng.integers(1, 6000)), int(rng.integers(400))
    nodes = [node("SplitToSequence", "x", f"{name}0", keepdims=int(rng.integers(2)))]
    nodes += [node("SequenceInsert", f"{name}{n} x", f"{name}{n + 1}") for n in range(grown)]
    nodes.append(node("ConcatFromSequence", f"{name}{grown}", "y", axis=0))
    return made_model(nodes, {"x": [rows, 4]}, {})


def _branches(rng: np.random.Generator) -> ModelProto:
    """Return branches inside of branches, and many side by side."""
    name = "o" * int(rng.integers(1, 2000))
    inner = GraphProto(node=_chain("Relu", int(rng.integers(1, 60))), output=[one_value("y")])
    for _ in range(int(rng.integers(40))):
        choice = helper.make_node("If", ["c"], [name], then_branch=inner, else_branch=inner)
        inner = GraphProto(node=[choice], output=[one_value(name)])
        if inner.ByteSize() > 200_000:
            break
    nodes = [helper.make_node("If", ["c"], [f"v{n}"], then_branch=inner, else_branch=inner) for n in range(3)]
    return made_model([*nodes, node("Sum", "v0 v1 v2", "y")], {"x": [1, 4]}, {"c": np.array(True)})


def _deep(rng: np.random.Generator) -> ModelProto:
    """Return many nodes in nested branches, or many branches in one, and useless imports."""
    wide, last = rng.random() < 0.5, "y"
    chain = _chain("Relu", int(rng.integers(1, 2000)))
    for _ in range(1 if wide else int(rng.integers(1, 30))):
        if wide:
            small = GraphProto(node=_chain("Relu", 2), output=[one_value("y")])
            names = [f"i{n}" for n in range(len(chain))]
            chain = [helper.make_node("If", ["c"], [name], then_branch=small, else_branch=small) for name in names]
            last = names[-1]
        inner = GraphProto(node=chain, output=[one_value(last)])
        chain, last = [helper.make_node("If", ["c"], ["y"], then_branch=inner, else_branch=GraphProto())], "y"
    made = made_model(chain, {"x": [1, 4]}, {"c": np.array(True)})
    made.opset_import.extend(helper.make_opsetid(f"d{n}", 1) for n in range(int(rng.integers(1, 500))))
    return made


def _numbers(rng: np.random.Generator) -> ModelProto:
    """Return constant arithmetic that demands more memory than its result has."""
    a, b, c = (pick(rng, INTEGERS) for _ in range(3))
    large, wide = (min(abs(number), 2**63 - 1) for number in (a, b))
    what = pick(rng, (
        [node("Range", "a b c", "k")],
        [node("Tile", "d l", "k")],
        [node("Expand", "d l", "k")],
        [node("GatherElements", "d l", "k")],
        [node("ConstantOfShape", "l", "k")],
        [node("OneHot", "d a e", "k")],
        [node("Slice", "d l l", "k")],
        [node("Pad", "d l", "k")],
        [node("AveragePool", "g", "k", kernel_shape=[large], pads=[wide // 2] * 2)],
        [node("RoiAlign", "i r d", "k", sampling_ratio=large, output_height=1, output_width=1)],
        [node("Resize", "g _ _ l", "k")],
        [node("Split", "d l", "k m")],
        [node("Pow", "d l", "k")],
        [node("BitShift", "d l", "k", direction="LEFT")],
        [node("TopK", "d a", "k m")],
    ))  # fmt: skip
    nodes = [*what, node("Cast", "k", "f", to=1), node("Shape", "f", "t"), node("Reshape", "x t", "y")]
    ones = {
        "g": np.ones((1, 1, 1), np.float32),
        "i": np.ones((1, 1, 1, 1), np.float32),
        "r": np.ones((3, 4), np.float32),
    }
    lists = {"d": np.array([a, 1, 2]), "l": np.array([b, c, 1][: int(rng.integers(1, 4))]), "e": np.array([0, 1])}
    constants = {"a": np.array(a), "b": np.array(b), "c": np.array(c), **ones, **lists}
    return made_model(nodes, {"x": [4]}, constants)


def _chain(op_type: str, count: int, domain: str = "") -> list[NodeProto]:
    made = [f"t{n}" for n in range(count - 1)] + ["y"]
    return [node(op_type, read, name, domain=domain) for read, name in zip(["x", *made], made, strict=False)]


_BOMBS: Final[tuple[Bomb, ...]] = (_functions, _operands, _sequence, _branches, _deep, *(4 * (_numbers,)))
