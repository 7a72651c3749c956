"""A .tflite file whose tensors lie in the smallest arena of TensorFlow Lite Micro."""

from __future__ import annotations

from typing import Any

from memplace_env._lib.errors import ExecutionError
from memplace_env.backends.export import micro_runtime
from memplace_env.backends.export.arena_blocks import arena_blocks, offsets_of
from memplace_env.backends.export.tflite_file import NAME, with_offsets
from memplace_env.backends.export.tflite_offsets import ALIGNMENT
from memplace_env.placement.addresses.memory_packing import pack


def smallest_file(data: bytes, *, check: bool) -> tuple[bytes, dict[str, Any]]:
    """Return a copy of a .tflite file's bytes with an offline plan in the smallest arena, and the arenas' sizes.

    The file stays as it is where the plan is not smaller than what the runtime makes by itself.

    Args:
        data: the file's bytes.
        check: whether both files run in TensorFlow Lite Micro, whose record of the arena then decides.

    Raises:
        WorkloadError: the model cannot be read.
        PlanError: nothing in it has a place in the arena.
        ExecutionError: the runtime cannot run the model, or the outputs of the two files differ.
    """
    arena = arena_blocks(data)
    _, size, first, last = zip(*arena.blocks, strict=True)
    packed = pack(size, first, last, align=ALIGNMENT)
    plan = offsets_of(arena, packed.offset.tolist())
    written = with_offsets(data, plan.offsets)
    counts: dict[str, Any] = {
        "tensors": len(plan.offsets),
        "planned": plan.planned,
        "runtime_bytes": arena.by_runtime,
        "arena_bytes": packed.arena,
        "bound_bytes": packed.bound,
        "proven": packed.proven,
        "at_run_time": dict(plan.left),
    }
    # An older plan in the file may be worse than the runtime's own.
    smaller = packed.arena < arena.by_runtime or NAME in data
    if check:
        if arena.hollow:
            raise ExecutionError(
                f"The model lacks the contents of {len(arena.hollow)} constants, as of {arena.hollow[0]!r}, and cannot "
                "run; leave out --check, or pass a model with its weights."
            )
        before, after = micro_runtime.run_in_micro(data), micro_runtime.run_in_micro(written)
        if not before.equals(after):
            raise ExecutionError(
                "The outputs with the plan are not those without, in TensorFlow Lite Micro; nothing is written."
            )
        counts |= {"recorded_before": before.head, "recorded_after": after.head}
        smaller = after.head < before.head
    return (written if smaller else data), counts | {"kept": not smaller}
