"""A TensorFlow Lite model with an offline memory plan in its metadata, as TensorFlow Lite Micro reads it.

The metadata "OfflineMemoryAllocation" names a buffer of int32: version 1, subgraph 0, the number of tensors, and for
each of them its byte offset in the arena or -1 (tensorflow/lite/micro/docs/memory_management.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import flatbuffers
import tflite

from memplace_env._lib.errors import WorkloadError
from memplace_env._lib.units import round_up
from memplace_env.backends.export.tflite_offsets import OfflinePlan, lives_of, offline_plan, tensor_count
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.task import Task
from memplace_env.placement.validation import require_valid
from memplace_env.program.frontends.tflite.tflite_reader import parse

NAME: Final = b"OfflineMemoryAllocation"
VERSION: Final = 1
_ALIGNMENT: Final = 16  # of what a file's buffers hold
_KEPT: Final = {
    "OperatorCodes": 6,
    "Subgraphs": 8,
    "Description": 10,
    "MetadataBuffer": 14,
    "SignatureDefs": 18,
}
"""Fields of the root that are copied, with their positions in the root's table."""


def with_offline_plan(data: bytes, task: Task, plan: MemoryPlan) -> tuple[bytes, OfflinePlan]:
    """Return a copy of a model's bytes with the offline plan, and that plan.

    Args:
        data: the .tflite file that the task's program was loaded from.
        task: the plan's task.
        plan: valid for it; its level 0 is the arena.

    Raises:
        PlanError: if the plan is not valid, or has no offset that the metadata can state.
        WorkloadError: if the model cannot be read, or has parts outside of its tables, as those of over 2 GB do.
    """
    require_valid(task, plan)
    model = parse(data)
    planned = offline_plan(task, plan, lives_of(model, data), tensor_count(data))
    return with_offsets(data, planned.offsets), planned


def with_offsets(data: bytes, offsets: Sequence[int]) -> bytes:
    """Return a copy of a model's bytes with these offsets, bytes, of all its tensors.

    Raises:
        WorkloadError: if the model cannot be read, or has parts outside of its tables, as those of over 2 GB do.
    """
    try:
        return _with_metadata(data, [VERSION, 0, len(offsets), *offsets])
    except WorkloadError:
        raise
    except Exception as error:  # the package raises many types on damaged files
        raise WorkloadError("The model's buffers or metadata are damaged; get the file again.") from error


def _with_metadata(data: bytes, numbers: list[int]) -> bytes:
    """Return the model with one more buffer, which the metadata names; an older offline plan is no longer named.

    Offsets in such files point forwards, relative to their own position. So the old file is kept whole, at the end, and
    a new root before it points into it.
    """
    root = tflite.Model.GetRootAs(data, 0)
    if 4 * (root.BuffersLength() + root.MetadataLength()) > len(data):
        raise ValueError("its parts are longer than the file")
    _check_self_contained(root)
    builder = flatbuffers.Builder(len(data) + 4 * root.BuffersLength() + 8 * len(numbers) + 1024)
    # Offsets count from the file's end: minus 4 points after the vector's length, at its first byte.
    old = builder.CreateByteVector(data.ljust(round_up(len(data), _ALIGNMENT), b"\0")) - 4

    buffers = [old - root.Buffers(number)._tab.Pos for number in range(root.BuffersLength())]
    entries = [root.Metadata(number) for number in range(root.MetadataLength())]
    metadata = [old - entry._tab.Pos for entry in entries if entry.Name() != NAME]
    buffers.append(_buffer(builder, numbers))
    metadata.append(_metadata(builder, len(buffers) - 1))
    buffers_vector, metadata_vector = _vector(builder, buffers), _vector(builder, metadata)

    tflite.ModelStart(builder)
    tflite.ModelAddVersion(builder, root.Version())
    for field, position in _KEPT.items():
        if stored := root._tab.Offset(position):
            getattr(tflite, f"ModelAdd{field}")(builder, old - root._tab.Indirect(root._tab.Pos + stored))
    tflite.ModelAddBuffers(builder, buffers_vector)
    tflite.ModelAddMetadata(builder, metadata_vector)
    builder.Finish(tflite.ModelEnd(builder), b"TFL3")
    return bytes(builder.Output())


def _check_self_contained(root: Any) -> None:
    """Refuse files of over 2 GB, which count some positions from the file's start, which moves.

    Raises:
        WorkloadError: if this is one.
    """
    graph = root.Subgraphs(0)
    places = [root.Buffers(number).Offset() for number in range(root.BuffersLength())]
    places += [graph.Operators(number).LargeCustomOptionsOffset() for number in range(graph.OperatorsLength())]
    if max(places, default=0) > 1:
        raise WorkloadError(
            "The model has buffers after its tables, as files of over 2 GB do, and no offline plan can be written "
            "into those; convert it without, or use --format c."
        )


def _buffer(builder: Any, numbers: list[int]) -> int:
    builder.StartVector(1, 4 * len(numbers), _ALIGNMENT)
    for number in reversed(numbers):
        builder.PrependInt32(number)
    vector = builder.EndVector()
    tflite.BufferStart(builder)
    tflite.BufferAddData(builder, vector)
    return int(tflite.BufferEnd(builder))


def _metadata(builder: Any, buffer: int) -> int:
    name = builder.CreateString(NAME.decode())
    tflite.MetadataStart(builder)
    tflite.MetadataAddName(builder, name)
    tflite.MetadataAddBuffer(builder, buffer)
    return int(tflite.MetadataEnd(builder))


def _vector(builder: Any, offsets: list[int]) -> int:
    builder.StartVector(4, len(offsets), 4)
    for offset in reversed(offsets):
        builder.PrependUOffsetTRelative(offset)
    return int(builder.EndVector())
