"""Operators that choose, place and read between elements make what ONNX Runtime makes of them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memplace_env._lib.errors import ExecutionError
from tests.backends.cuda.single import Known, agree, ints, known, numbers, several
from tests.offenders import every
from tests.thorough import examples

FEW = settings(max_examples=12)


@examples(40)
@given(st.data())
def test_slice(data):
    shape = several(data.draw, 3, 1, 6)
    axes = data.draw(st.lists(ints(0, 2), unique=True, min_size=1))
    edges = [several(data.draw, len(axes), -8, 8) for _ in range(2)]
    steps = [data.draw(st.sampled_from([-3, -2, -1, 1, 2, 3])) for _ in axes]
    signed = [axis - data.draw(st.sampled_from([0, 3])) for axis in axes]
    agree("Slice", numbers(0, *shape), *(Known(*each) for each in (*edges, signed, steps)))


def test_slice_to_the_very_ends():
    agree("Slice", numbers(0, 5), Known(-1), Known(-(2**63)), Known(0), Known(-1))
    agree("Slice", numbers(0, 5, 4), Known(1, 0), Known(2**63 - 1, 2))
    agree("Slice", numbers(0, 5, 4), opset=9, starts=[1], ends=[9], axes=[1])


@FEW
@given(st.data())
def test_gather_and_scatter(data):
    axis = data.draw(ints(-3, 2))
    rng = np.random.default_rng(data.draw(ints(0, 99)))
    x = numbers(0, 3, 4, 5)
    fixed = known if data.draw(st.booleans()) else np.asarray
    rows = rng.integers(-x.shape[axis], x.shape[axis], data.draw(st.sampled_from([(), (1,), (2, 3)])))
    agree("Gather", x, fixed(rows), axis=axis)
    agree("Gather", x, fixed(rows.astype(np.int32)), axis=axis)
    places = np.moveaxis(rng.permuted(np.tile(np.arange(x.shape[axis]), (2, 3, 1)), axis=-1), -1, axis)
    places -= x.shape[axis] * rng.integers(0, 2, places.shape)
    agree("GatherElements", x, fixed(places), axis=axis)
    for reduction in ("none", "add", "mul", "max", "min"):
        agree("ScatterElements", x, fixed(places), numbers(1, *places.shape), axis=axis, reduction=reduction)
    batch = data.draw(ints(0, 1))
    depth = data.draw(ints(1, 3 - batch))
    size = x.shape[batch : batch + depth]
    agree("GatherND", x, fixed(rng.integers(-np.array(size), size, (3, 2, depth))), batch_dims=batch)
    cells = np.stack(np.unravel_index(rng.permutation(np.prod(x.shape[:depth]))[:4], x.shape[:depth]), axis=-1)
    cells[1] -= x.shape[:depth]
    for reduction in ("none", "add", "mul", "max", "min"):
        updates = numbers(1, len(cells), *x.shape[depth:])
        agree("ScatterND", x, fixed(cells), updates, reduction=reduction)
    agree(
        "ScatterND",
        x,
        fixed(np.repeat(cells, 2, axis=0)),
        numbers(1, 2 * len(cells), *x.shape[depth:]),
        reduction="add",
    )


NEAREST = ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]
WAYS = ["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"]


@examples(60)
@given(st.data())
def test_resize(data):
    rank = data.draw(ints(1, 3))
    x = numbers(0, 1, 2, *several(data.draw, rank, 2, 5))
    new = several(data.draw, rank, 1, 11)
    mode = data.draw(st.sampled_from(["nearest", "linear", "cubic"]))
    way = data.draw(st.sampled_from(WAYS if mode == "nearest" else ["half_pixel", "align_corners"]))
    attributes = {"mode": mode, "coordinate_transformation_mode": way}
    if mode == "nearest":
        attributes["nearest_mode"] = data.draw(st.sampled_from(NEAREST))
    if mode == "cubic" and rank != 2:
        return
    if data.draw(st.booleans()):
        agree("Resize", x, None, None, Known(1, 2, *new), **attributes)
    else:
        scales = [n / old for n, old in zip(new, x.shape[2:], strict=True)]
        agree("Resize", x, None, Known(1, 1, *scales, dtype=np.float32), **attributes)


def test_resize_of_some_axes():
    agree("Resize", numbers(0, 1, 2, 4, 4), None, None, Known(8, 6), axes=[2, 3], mode="linear")
    agree("Resize", numbers(0, 2, 4), None, None, Known(4, 6), mode="nearest")
    agree("Resize", numbers(0, 1, 2, 4, 4), Known(1, 1, 1.3, 1.6, dtype=np.float32), opset=10)
    agree(
        "Resize",
        numbers(0, 2, 4),
        None,
        Known(1, 1, dtype=np.float32),
        mode="cubic",
        coordinate_transformation_mode="asymmetric",
    )


@pytest.mark.parametrize(
    ("attributes", "lacking"),
    [
        ({"mode": "linear", "coordinate_transformation_mode": "asymmetric"}, "'asymmetric' for mode 'linear'"),
        ({"mode": "cubic", "exclude_outside": 1}, "exclude_outside"),
        ({"mode": "linear", "antialias": 1}, "antialias"),
        ({"mode": "cubic", "cubic_coeff_a": -0.5}, "cubic_coeff_a"),
        ({"coordinate_transformation_mode": "half_pixel_symmetric"}, "half_pixel_symmetric"),
        ({"keep_aspect_ratio_policy": "not_larger"}, "keep_aspect_ratio_policy"),
    ],
)
def test_resizes_that_torch_lacks(attributes, lacking):
    with pytest.raises(ExecutionError, match=rf"Node 'it' \(Resize\) cannot run on a device: .*{lacking}"):
        agree("Resize", numbers(0, 1, 2, 4, 4), None, None, Known(1, 2, 6, 6), **attributes)


@examples(60)
@given(st.data())
def test_pad(data):
    mode = data.draw(st.sampled_from(["constant", "reflect", "edge", "wrap"]))
    x = numbers(0, 3, 4, 5)
    axes = data.draw(st.lists(ints(-3, 2), unique_by=lambda axis: axis % 3, min_size=1))
    pads = several(data.draw, 2 * len(axes), -1 if mode == "constant" else 0, 2)
    value = [Known(array=np.float32(1.5))] if data.draw(st.booleans()) and mode == "constant" else [None]
    agree("Pad", x, Known(*pads), *value, Known(*axes), mode=mode)


def test_split():
    x = numbers(0, 4, 7)
    agree("Split", x, Known(3, 0, 4), axis=1, outputs=3)
    agree("Split", x, axis=-1, num_outputs=3, outputs=3)
    agree("Split", x, opset=11, axis=1, split=[3, 4], outputs=2)
    agree("Split", x, opset=13, outputs=2)


def test_shapes():
    x = numbers(0, 2, 1, 6, 1)
    agree("Reshape", x, Known(0, -1, 2))
    agree("Reshape", np.zeros((0, 3), np.float32), Known(3, 0), allowzero=1)
    agree("Reshape", np.zeros((0, 3), np.float32), Known(-1, 3))
    agree("Reshape", numbers(0, 1, 1), Known())
    agree("Squeeze", x)
    agree("Squeeze", x, Known(-1, 1))
    agree("Squeeze", x, opset=11, axes=[1])
    agree("Unsqueeze", numbers(0, 2, 3), Known(-1, 0))
    agree("Unsqueeze", numbers(0, 2, 3), opset=11, axes=[1, 2])
    agree("Flatten", x, axis=0)
    agree("Flatten", x, axis=-2)
    agree("Transpose", x, perm=[2, 0, 3, 1])
    agree("Expand", x, Known(3, 1, 1, 1, 5))
    agree("Expand", x, Known(1))
    agree("Tile", x, Known(1, 2, 3, 1))
    agree("Shape", x, start=1, end=-1)
    for upper in (0, 1):
        agree("Trilu", numbers(0, 2, 4, 5), Known(array=np.array(-1)), upper=upper)
        agree("Trilu", numbers(0, 4, 4) > 0, upper=upper)
    for mode in ("DCR", "CRD"):
        agree("DepthToSpace", numbers(0, 2, 8, 3, 2), blocksize=2, mode=mode)
    agree("SpaceToDepth", numbers(0, 2, 3, 4, 6), blocksize=2)
    for axis in (-1, 0, 1):
        agree("OneHot", np.array([[0, -1], [3, 9]]), Known(4), numbers(0, 2), axis=axis)


def test_constants():
    agree("Range", Known(array=np.int64(2)), Known(array=np.int64(11)), Known(array=np.int64(3)))
    agree("Range", *(Known(array=np.float32(each)) for each in (2, -1, -0.5)))
    agree("ConstantOfShape", Known(2, 3))
    agree("Constant", value_floats=[1.0, 2.0])
    agree("Constant", value_int=3)


@every("mode", ["linear", "nearest", "cubic"])
@every("padding", ["zeros", "border", "reflection"])
def test_grid_sample(mode, padding):
    x, grid = numbers(0, 2, 3, 4, 5), numbers(1, 2, 3, 2, 2) * 0.9
    agree("GridSample", x, grid, mode=mode, padding_mode=padding)
    before = {"linear": "bilinear", "cubic": "bicubic"}.get(mode, mode)
    agree("GridSample", x, grid, opset=16, mode=before, padding_mode=padding, align_corners=1)
