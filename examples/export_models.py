"""Export a model.

MemPlace reads ONNX, TFLite and StableHLO files, and JAX functions. This page exports from each framework, and shows
what to do when a file has a branch, a loop or a size that depends on data. A part whose package is missing is skipped,
and says so.
"""

import importlib.util
import warnings
from itertools import pairwise

import numpy as np
import onnx
from onnx import TensorProto, helper

import memplace_env


def show(name, program):
    """Print the size of a program."""
    print(f"{name:12} {program.num_ops:3} ops  {program.macs.sum() / 1e6:7.3f} million MACs")


def missing(*packages):
    """Return whether a package is not installed, after saying so."""
    absent = [name for name in packages if importlib.util.find_spec(name) is None]
    if absent:
        print(f"skipped: pip install {' '.join(absent)}")
    return bool(absent)


# ## PyTorch
#
# `torch.onnx.export` needs the package `onnxscript`. Sizes that vary, such as the batch, get a name in
# `dynamic_shapes`, and a value when the file is loaded. Without that the file holds the sizes of the example input.
if not missing("torch", "onnxscript"):
    import torch

    layers = [torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(8 * 30 * 30, 4)]
    network, example = torch.nn.Sequential(*layers).eval(), torch.zeros(2, 3, 32, 32)
    sizes = ({0: torch.export.Dim("batch", min=1, max=64)},)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the exporter, about its own future
        torch.onnx.export(network, (example,), "torch.onnx", dynamic_shapes=sizes, verbose=False)
    show("PyTorch", memplace_env.load_onnx("torch.onnx", batch=1))
    show("  batch 16", memplace_env.load_onnx("torch.onnx", batch=16, dtype="int8"))

# ## JAX
#
# `from_jax` takes the function and example arguments, arrays or shapes, and needs no file. To keep one, write the text
# of `jax.jit(f).lower(...)` to a `.mlir` file; `memplace solve` reads it.
if not missing("jax"):
    import jax
    import jax.numpy as jnp

    def layer(weights, x):
        return jax.nn.relu(x @ weights)

    shapes = jax.ShapeDtypeStruct((256, 128), jnp.float32), jax.ShapeDtypeStruct((4, 256), jnp.float32)
    show("JAX", memplace_env.from_jax(lambda weights, x: layer(weights, x), *shapes))

# ## TFLite
#
# TensorFlow is too large for this page. Convert where you have it, and load the file with the extra `tflite`:
#
#     converter = tf.lite.TFLiteConverter.from_keras_model(model)
#     converter.optimizations = [tf.lite.Optimize.DEFAULT]  # int8, as a microcontroller runs it
#     open("model.tflite", "wb").write(converter.convert())
#
#     memplace solve model.tflite --accelerator ethos-u65
#
# ## A branch on data
#
# A plan is made before the network runs, for one course of events. If data decide a branch, the one with most work is
# taken, and a warning says which. This model, written by hand, multiplies either once or twice.
FLOAT, BOOL, INT = TensorProto.FLOAT, TensorProto.BOOL, TensorProto.INT64


def typed(name, kind, *shape):
    return helper.make_tensor_value_info(name, kind, shape)


def save(path, nodes, inputs, outputs):
    """Write a model that multiplies by a 64 x 64 weight `w`."""
    w = helper.make_tensor("w", FLOAT, [64, 64], np.zeros(64 * 64))
    onnx.save(helper.make_model(helper.make_graph(nodes, path.removesuffix(".onnx"), inputs, outputs, [w])), path)


def multiplied(*names):
    """Return nodes that multiply the first name by w, and the result again, to the last name."""
    return [helper.make_node("MatMul", [a, "w"], [b]) for a, b in pairwise(names)]


once = helper.make_graph(multiplied("x", "one"), "once", [], [typed("one", FLOAT, 8, 64)])
twice = helper.make_graph(multiplied("x", "half", "two"), "twice", [], [typed("two", FLOAT, 8, 64)])
branch = helper.make_node("If", ["again"], ["y"], then_branch=twice, else_branch=once)
save("branch.onnx", [branch], [typed("x", FLOAT, 8, 64), typed("again", BOOL)], [typed("y", FLOAT, 8, 64)])
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    show("If", memplace_env.load_onnx("branch.onnx"))
print("warning:", said[0].message)

# ## A loop
#
# Loops are unrolled. Where data determine the number of rounds, as when a decoder runs until it says stop, pass it:
# `trips=` here, `--trips` on the command line.
round_ = helper.make_graph(
    [helper.make_node("Identity", ["go"], ["on"]), *multiplied("state", "next")],
    "round",
    [typed("number", INT), typed("go", BOOL), typed("state", FLOAT, 8, 64)],
    [typed("on", BOOL), typed("next", FLOAT, 8, 64)],
)
loop = helper.make_node("Loop", ["count", "", "x"], ["y"], body=round_)
save("loop.onnx", [loop], [typed("x", FLOAT, 8, 64), typed("count", INT)], [typed("y", FLOAT, 8, 64)])
show("Loop", memplace_env.load_onnx("loop.onnx", trips=5))

# ## A size that data decide
#
# `NonZero`, `Unique` and their like return as many values as there are. An error names the dim; give it the size to
# plan for, the largest that you expect.
nodes = [
    helper.make_node("NonZero", ["chosen"], ["where"]),
    helper.make_node("Squeeze", ["where"], ["rows"]),
    helper.make_node("Gather", ["x", "rows"], ["few"]),
    *multiplied("few", "y"),
]
save("chosen.onnx", nodes, [typed("x", FLOAT, 8, 64), typed("chosen", BOOL, 8)], [typed("y", FLOAT, None, 64)])
try:
    memplace_env.load_onnx("chosen.onnx")
except memplace_env.MemPlaceError as error:
    print("error:", error)
show("NonZero", memplace_env.load_onnx("chosen.onnx", dims={"where.1": 4}))

# ## Files that ONNX Runtime optimised
#
# They contain operators of its own, such as `FusedConv` or `SkipLayerNormalization`. MemPlace knows the usual ones, but
# fuses by itself, as the chip does; so prefer the file before it was optimised.
#
# ## A part of a model
#
# `cut=` (`--cut`) loads a model up to a tensor and leaves out what comes behind it, such as the
# sorting after a detector.
save("deep.onnx", multiplied("x", "a", "b", "y"), [typed("x", FLOAT, 8, 64)], [typed("y", FLOAT, 8, 64)])
show("whole", memplace_env.load_onnx("deep.onnx"))
show("cut at b", memplace_env.load_onnx("deep.onnx", cut="b"))
