"""Arenas of TensorFlow Lite Micro: by its own planner, and with the plan of `memplace export --smallest --check`.

Our files are those of `benchmarks/data/vela.tar.xz`, filled with random weights and one scale for all activations. The
others are those of `benchmarks/data/shipped.csv`; one that its index does not give is a row that says so.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

import numpy as np

from benchmarks.experiments.vela import networks
from benchmarks.harness import MOST_ROWS, Columns, Experiment, Records, data, field, table
from benchmarks.ledger import Record
from benchmarks.shipped_files import NotThereError, Shipped, file_of, table_of
from memplace_env._lib.errors import MemPlaceError
from memplace_env.backends.export.smallest_file import smallest_file

OURS: Final = {
    "vela": "efficientnet_b0 mobilenet_v2 resnet50",
    "vela-more": "autoencoder ds_cnn mobilenet_v1_025 mobilenet_v1_100 mobilenet_v3s resnet18 resnet8 squeezenet11 "
    "unet vgg11_128 yolo_tiny",
    "vela-unseen": "convmixer deit_tiny densenet121 edsr ghostnet googlenet hrnet landmarks mixer_s16 regnet_x_400 "
    "shufflenet_v2 tcn",
}
"""Networks by their folder in the archive."""
FIXED: Final = {"LOGISTIC": (1 / 256, -128), "SOFTMAX": (1 / 256, -128), "TANH": (1 / 128, 0)}
"""Scale and zero point of results for which the runtime asks for these; all others have 0.05 and 0."""


def public() -> dict[tuple[str, str], Shipped]:
    """Return the .tflite files that public packages ship, by package and name."""
    return {(one.source, one.name): one for one in table_of() if one.path.endswith(".tflite")}


def settings(records: Records) -> list[Record]:
    """Return a setting for each file."""
    files = [(source, name) for source, names in OURS.items() for name in names.split()]
    return [{"source": source, "file": name} for source, name in (*files, *public())]


def measure(setting: Record) -> Record:
    """Return the sizes of a file's arenas, or why there are none."""
    source, name = setting["source"], setting["file"]
    try:
        file = networks() / source / f"{name}.tflite" if source in OURS else file_of(public()[source, name])
    except NotThereError as error:
        return setting | {"why": f"not there: {error}"}
    content = filled(file.read_bytes()) if source in OURS else file.read_bytes()
    try:
        record = setting | smallest_file(content, check=False)[1]
    except MemPlaceError as error:
        return setting | {"why": str(error)}
    try:
        return record | smallest_file(content, check=True)[1]
    except MemPlaceError as error:
        return record | {"why": str(error)}


def filled(content: bytes) -> bytes:
    """Return a copy of one of our files with weights and scales, which were taken out of it."""
    import flatbuffers
    from tflite_micro.tensorflow.lite.micro.python import schema_py_generated as schema

    model = schema.ModelT.InitFromObj(schema.Model.GetRootAsModel(content, 0))
    graph, rng = model.subgraphs[0], np.random.default_rng(0)
    names = {number: name for name, number in vars(schema.BuiltinOperator).items() if isinstance(number, int)}
    written = {*graph.inputs, *(index for operator in graph.operators for index in operator.outputs)}
    for index, tensor in enumerate(graph.tensors):
        buffer, size = model.buffers[tensor.buffer], int(np.prod(tensor.shape))
        narrow, scale = tensor.type == schema.TensorType.INT8, 0.05
        if index not in written and (buffer.data is None or not len(buffer.data)):
            numbers = rng.integers(-127, 127, size).astype(np.int8) if narrow else rng.integers(-999, 999, size, "<i4")
            buffer.data = np.frombuffer(numbers.tobytes(), np.uint8)
        if index not in written and narrow:  # sums of products of two numbers of about 74 become about 60
            scale = 0.011 / max(size // max(tensor.shape, default=1), 1) ** 0.5
        tensor.quantization = schema.QuantizationParametersT()
        tensor.quantization.scale, tensor.quantization.zeroPoint = [scale], [0]
    makers = {index: operator for operator in graph.operators for index in operator.outputs}
    for operator in graph.operators:
        code = model.operatorCodes[operator.opcodeIndex]
        name = names[max(code.builtinCode, code.deprecatedBuiltinCode)]
        scales = [None if index < 0 else graph.tensors[index].quantization.scale for index in operator.inputs]
        if name in ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED") and scales[2]:
            scales[2][0] = scales[0][0] * scales[1][0]
        if name in FIXED:
            of_result = graph.tensors[operator.outputs[0]].quantization
            of_result.scale, of_result.zeroPoint = ([number] for number in FIXED[name])
        if name == "SOFTMAX":  # the runtime's own sum overflows where 1,000 logits are about equal
            operator.builtinOptions.beta = 1.0
            for index in makers[operator.inputs[0]].inputs[1:]:
                if index not in written and index >= 0:
                    graph.tensors[index].quantization.scale[0] *= 16
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def gain(record: Record) -> str:
    """Return a cell: by how much the arena of the file that is written is smaller, as recorded or else computed."""
    if "kept" not in record:
        return ""
    kind = ("recorded_before", "recorded_after") if "recorded_before" in record else ("runtime_bytes", "arena_bytes")
    return f"{0 if record['kept'] else 100 * (1 - record[kind[1]] / record[kind[0]]):.1f} %"


def result(record: Record) -> str:
    """Return a cell: what the interpreter says."""
    return str(record.get("why", "outputs equal")).removeprefix("TensorFlow Lite Micro ").rstrip(".")


def plans(records: Records) -> list[Record]:
    """Return the rows that a page shows: those that the interpreter ran in a smaller arena, the largest gain first."""
    changed = [one for one in records if "recorded_before" in one and not one["kept"]]
    return sorted(changed, key=lambda one: one["recorded_after"] / one["recorded_before"])[:MOST_ROWS]


def counts(records: Records) -> str:
    """Return how many files there are, and what became of them."""
    planned = [one for one in records if "runtime_bytes" in one]
    ran = [one for one in planned if "recorded_before" in one]
    smaller = [one for one in planned if not one["kept"]]
    proven = sum(one["proven"] for one in planned)
    rise = sum(one["recorded_after"] > one["recorded_before"] for one in ran)
    seen = sum(not one["kept"] for one in ran)
    return (
        f"{len(records)} files, {len(records) - len(planned)} of them not there or not readable. For {proven} of the "
        f"other {len(planned)} the arena is proven to be the smallest for the first graph's tensors; {len(smaller)} "
        f"get a smaller one than the runtime's. The interpreter ran {len(ran)}, {seen} of which became smaller, all "
        f"with equal outputs; in {rise} a plan makes the arena larger, and the file stays as it is. "
        f"{len(planned) - len(ran)} it cannot run: their arenas are computed alone."
    )


COLUMNS: Columns = {
    "file": field("file"),
    "from": lambda record: "ours" if record["source"] in OURS else record["source"],
    "runtime's planner": field("runtime_bytes", ","),
    "smallest": field("arena_bytes", ","),
    "bound": field("bound_bytes", ","),
    "recorded before": field("recorded_before", ","),
    "with the plan": field("recorded_after", ","),
    "saved": gain,
    "interpreter": result,
}
PAGE = {head: COLUMNS[head] for head in ("file", "from", "recorded before", "with the plan", "bound", "saved")}
EXPERIMENTS = [
    Experiment(
        "tflite-arenas",
        __doc__,
        {
            "docs/toolchains.md#tflite-arenas": table(PAGE, plans, counts),
            "docs/data/tflite-arenas.csv": data(COLUMNS),
        },
        settings,
        measure,
        key=("source", "file"),
        finished=lambda record: not record.get("why", "").startswith("not there"),
    )
]


if __name__ == "__main__":  # python -m benchmarks.experiments.tflite_arenas stripped.tflite filled.tflite
    Path(sys.argv[2]).write_bytes(filled(Path(sys.argv[1]).read_bytes()))
