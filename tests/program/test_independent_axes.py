"""Axes that a node treats independently: computing by parts, with other people's kernels, gives the whole."""

from __future__ import annotations

import json
from collections.abc import Hashable, Sequence
from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import onnxruntime
from onnx import ValueInfoProto, helper
from onnx.reference import ReferenceEvaluator

from memplace_env.program.frontends.onnx.onnx_operators import OPERATORS
from memplace_env.program.lowering.graph_values import Value
from memplace_env.program.lowering.independence import ANYWHERE, Axes, SiteAxes, WindowAxis
from memplace_env.program.lowering.node_graph import Node, Site
from memplace_env.program.lowering.rules import independent_axes
from tests.offenders import every
from tests.program.axes_cases import Array, Case, cases

CASES = tuple(cases())
MOVED = tuple(case for case in CASES if OPERATORS[case.op_type].axes is independent_axes.moved)
COMPUTED = tuple(case for case in CASES if case not in MOVED)
IMAGES = tuple(case for case in CASES if OPERATORS[case.op_type].channels_first)

Operands = Sequence[Array | None]
Part = tuple[int, int]


def computed(case: Case, inputs: Operands, **attributes: Any) -> list[Array]:
    """Results of the case's node for other operands and attributes."""
    types = tuple(
        None if value is None else helper.np_dtype_to_tensor_dtype(np.asarray(value).dtype) for value in inputs
    )
    run = _kernel(case.op_type, case.opset, case.outputs, types, json.dumps(case.attributes | attributes))
    results: list[Array] = run(
        None, {f"i{n}": np.asarray(value) for n, value in enumerate(inputs) if value is not None}
    )
    return [np.asarray(result) for result in results]


@cache
def _kernel(op_type: str, opset: int, outputs: int, types: tuple[int | None, ...], attributes: str) -> Any:
    names = ["" if number is None else f"i{position}" for position, number in enumerate(types)]
    node = helper.make_node(op_type, names, [f"o{position}" for position in range(outputs)], **json.loads(attributes))
    given = [
        helper.make_tensor_value_info(name, number, None) for name, number in zip(names, types, strict=True) if name
    ]
    wanted = [ValueInfoProto(name=name) for name in node.output]
    graph = helper.make_graph([node], "node", given, wanted)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    try:
        return onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"]).run
    except Exception:  # ONNX Runtime has no kernel for these types or this version
        return ReferenceEvaluator(model).run


def site_of(case: Case, results: Operands) -> Site:
    """The case's node as the loader's rules see it, with all contents known but those of operand 0."""

    def value(array: Array | None, constant: bool) -> Value | None:
        if array is None:
            return None
        contents = np.asarray(array)
        number = helper.np_dtype_to_tensor_dtype(contents.dtype)
        return Value(contents.shape, number, constant, contents if constant else None)

    attributes = {
        item.name: helper.get_attribute_value(item)
        for item in helper.make_node(case.op_type, [], [], **case.attributes).attribute
    }
    node = Node(
        OPERATORS[case.op_type],
        "node",
        tuple(f"i{position}" for position in range(len(case.inputs))),
        tuple(f"o{position}" for position in range(case.outputs)),
        attributes,
    )
    inputs = tuple(value(array, position > 0) for position, array in enumerate(case.inputs))
    return Site(node, inputs, tuple(value(array, False) for array in results), None, False)


def axes_of(site: Site, channels_last: bool = False) -> SiteAxes:
    rule = site.node.operator.axes
    assert rule is not None
    return rule(site, channels_last)


def check_numbers(site: Site, axes: SiteAxes) -> None:
    """Require as many names as axes, or none, and no more tensors than there are."""
    for values, named in ((site.inputs, axes.inputs), (site.outputs, axes.outputs)):
        assert len(named) <= len(values)
        for value, names in zip(values, named, strict=False):
            assert len(names) in (0, len(value.shape) if value is not None else 0)


def plain(name: Hashable) -> Hashable:
    return name.axis if isinstance(name, WindowAxis) else name


def places(values: Operands, named: Sequence[Axes], name: Hashable) -> list[tuple[int, int]]:
    """Position and axis wherever an axis of that name has more than one element."""
    return [
        (position, axis)
        for position, (value, names) in enumerate(zip(values, named, strict=False))
        for axis, other in enumerate(names)
        if other is not None and plain(other) == name and value is not None and np.shape(value)[axis] > 1
    ]


def parts_of(size: int) -> list[Part]:
    """Three parts of different sizes, fewer where there are fewer elements."""
    ends = sorted({1, size - size // 3, size})
    return list(zip([0, *ends], ends, strict=False))


def taken(case: Case, part: Part, window: int | None, size: int) -> tuple[Part, Part]:
    """Elements of an operand that a part of the result needs, and the padding that remains before and behind them."""
    if window is None:
        return part, (0, 0)
    kernel = case.attributes.get("kernel_shape") or case.inputs[OPERATORS[case.op_type].weight].shape[2:]
    rank = len(kernel)
    stride, dilation = (case.attributes.get(name, [1] * rank)[window] for name in ("strides", "dilations"))
    pads = case.attributes.get("pads", [0] * 2 * rank)
    reach = dilation * (kernel[window] - 1) + 1
    padding = pads[window]
    if case.attributes.get("auto_pad", "").startswith("SAME"):
        missing = max(0, (-(-size // stride) - 1) * stride + reach - size)
        padding = missing // 2 if case.attributes["auto_pad"] == "SAME_UPPER" else -(-missing // 2)
    begin, end = part[0] * stride - padding, (part[1] - 1) * stride - padding + reach
    return (max(0, begin), min(size, end)), (max(0, -begin), max(0, end - size))


def only(value: Array, axis: int, part: Part) -> Array:
    """The value with all but a part of an axis in another order, so that it has other contents there."""
    inside = np.zeros(value.shape[axis], dtype=bool)
    inside[slice(*part)] = True
    mask = inside.reshape([-1 if other == axis else 1 for other in range(value.ndim)])
    mixed = np.random.default_rng(0).permutation(value.reshape(-1)).reshape(value.shape)
    return np.where(mask, value, mixed)


def assert_same(part: Array, whole: Array) -> None:
    assert part.shape == whole.shape
    if whole.dtype.kind == "f":
        np.testing.assert_allclose(part, whole, rtol=1e-5, atol=1e-6)
    else:
        np.testing.assert_array_equal(part, whole)


@every("case", COMPUTED)
def test_parts_give_the_whole(case: Case) -> None:
    whole = computed(case, case.inputs)
    site = site_of(case, whole)
    axes = axes_of(site)
    check_numbers(site, axes)
    for name in {plain(name) for names in (*axes.inputs, *axes.outputs) for name in names} - {None}:
        operands, results = places(case.inputs, axes.inputs, name), places(whole, axes.outputs, name)
        if not operands and not results:
            continue
        assert len({position for position, _ in results}) == len(whole), f"{name}: a result is not cut"
        sizes = {whole[position].shape[axis] for position, axis in results}
        assert len(sizes) == 1
        pieces: list[list[Array]] = []
        ends: dict[tuple[int, int], list[Part]] = {}
        for part in parts_of(*sizes):
            hidden, cut = list(case.inputs), list(case.inputs)
            pads = list(case.attributes.get("pads", []))
            for position, axis in operands:
                value = np.asarray(case.inputs[position])
                named = axes.inputs[position][axis]
                window = int(axis - 2) if isinstance(named, WindowAxis) else None
                if window is None:
                    assert value.shape[axis] == next(iter(sizes))
                needed, padding = taken(case, part, window, value.shape[axis])
                ends.setdefault((position, axis), []).append(needed)
                hidden[position] = only(np.asarray(hidden[position]), axis, needed)
                cut[position] = np.take(np.asarray(cut[position]), range(*needed), axis)
                if window is not None and pads:
                    pads[window], pads[window + len(pads) // 2] = padding
            for position, axis in results:
                alone = computed(case, hidden)[position]
                assert_same(np.take(alone, range(*part), axis), np.take(whole[position], range(*part), axis))
            if case.cut and operands:
                pieces.append(computed(case, cut, **({"pads": pads} if pads else {})))
        for position, axis in results if pieces else []:
            assert_same(np.concatenate([piece[position] for piece in pieces], axis), whole[position])
        for (position, axis), needed_parts in ends.items():
            named = axes.inputs[position][axis]
            halo = named.halo if isinstance(named, WindowAxis) else 0
            shared = [before[1] - after[0] for before, after in pairwise(needed_parts)]
            assert max(shared, default=0) <= halo


@every("case", MOVED)
def test_moved_elements_are_those_of_the_operands(case: Case) -> None:
    """Elements are numbered from 2, as what is padded is 0, and EyeLike makes ones of its own."""
    inputs, number = list(case.inputs), 2
    for position in case.tagged:
        shape = np.shape(inputs[position])
        inputs[position] = np.arange(number, number + np.prod(shape), dtype=np.float32).reshape(shape)
        number += int(np.prod(shape))
    results = computed(case, inputs)
    assert all(np.isin(result, np.arange(number)).all() for result in results)
    assert case.op_type == "EyeLike" or sum(np.unique(result[result > 1]).size for result in results) > 1
    site = site_of(case, results)
    axes = axes_of(site)
    check_numbers(site, axes)
    assert {name for named in (*axes.inputs, *axes.outputs) for name in named} - {None} == {ANYWHERE}


TUPLES = {"GatherND": 1, "Pad": 1, "Tile": 1}
"""Operands of moves whose last axis is read whole."""


@every("case", [case for case in MOVED if case.op_type in TUPLES])
def test_moves_part_no_tuple(case: Case) -> None:
    """An element of the result is another one if any part of its tuple is."""
    position = TUPLES[case.op_type]
    if position < len(case.inputs):
        named = axes_of(site_of(case, computed(case, case.inputs))).inputs[position]
        assert not named or named[-1] is None


@every("case", IMAGES)
def test_cuts_without_halo_tear_no_window(case: Case) -> None:
    whole = computed(case, case.inputs)
    image = np.asarray(case.inputs[0])
    axes = axes_of(site_of(case, whole)).inputs
    for axis, name in enumerate(axes[0] if axes else ()):
        if not isinstance(name, WindowAxis) or name.halo:
            continue
        for cut in range(name.unit, image.shape[axis], name.unit):
            hidden = (only(image, axis, side) for side in ((0, cut), (cut, image.shape[axis])))
            before, after = (computed(case, (part, *case.inputs[1:]))[0] != whole[0] for part in hidden)
            assert not (before & after).any()


def test_every_rule_has_a_case() -> None:
    with_rule = {name for name, row in OPERATORS.items() if row.axes is not None}
    assert {case.op_type for case in CASES} == with_rule
    sites = ((case.op_type, axes_of(site_of(case, computed(case, case.inputs)))) for case in CASES)
    assert {name for name, axes in sites if all(map(any_named, axes))} == with_rule


def any_named(named: Sequence[Axes]) -> bool:
    return any(name is not None for names in named for name in names)


@every("case", IMAGES)
def test_channels_last(case: Case) -> None:
    """An axis that may not be cut in one layout may not be cut in the other."""
    site = site_of(case, computed(case, case.inputs))
    weight = site.node.operator.weight if site.node.operator.product else None

    def turned(value: Value | None) -> Value | None:
        image = value is not None and len(value.shape) > 2
        return replace(value, shape=(value.shape[0], *value.shape[2:], value.shape[1])) if image else value

    inputs = tuple(value if n == weight else turned(value) for n, value in enumerate(site.inputs))
    other = replace(site, inputs=inputs, outputs=tuple(map(turned, site.outputs)))
    first, last = axes_of(site), axes_of(other, channels_last=True)
    check_numbers(other, last)
    for position, value in enumerate(site.inputs):
        names, again = (list(axes.inputs[position]) if position < len(axes.inputs) else [] for axes in (first, last))
        if position == weight or value is None or len(value.shape) < 3 or not again:
            assert names == again or not again
        else:
            permitted = [names[0], *names[2:], names[1]] if names else []
            assert all(name is None or allowed is not None for name, allowed in zip(again, permitted, strict=True))
