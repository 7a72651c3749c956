"""Reads of the zoo's programs: caches once, chosen rows only, shared weights from one tensor."""

from __future__ import annotations

import numpy as np
import pytest

from memplace_env.placement.workloads import resolve_workload
from memplace_env.program.program import Program, TensorKind


def bytes_read(program: Program, tensor: int) -> list[int]:
    """Bytes of each use of a tensor as an operand."""
    uses = (program.use_tensor == tensor) & ~program.use_is_result.astype(bool)
    return [int(size) for size in program.use_bytes[uses]]


def tensors(program: Program, text: str) -> list[int]:
    """Return the tensors with `text` in their names."""
    tensors = [tensor for tensor, name in enumerate(program.tensor_name) if text in name]
    assert tensors
    return tensors


@pytest.mark.parametrize(
    ("name", "layers", "width", "kept"), [("Llama-3.2-1B", 16, 2048, 512), ("Qwen3-0.6B", 28, 2048, 1024)]
)
def test_a_decoding_step_reads_each_cached_token_once(name: str, layers: int, width: int, kept: int) -> None:
    short, long = (resolve_workload(f"{name}-decode", dims={"past_sequence": tokens}) for tokens in (1024, 8191))
    assert long.macs.sum() - short.macs.sum() == 2 * layers * width * (8191 - 1024)
    cached = 4 * kept * 8191
    for tensor in tensors(long, "past_"):
        assert bytes_read(long, tensor) == [cached]
    assert np.count_nonzero(long.tensor_bytes >= cached) == 2 * layers + np.count_nonzero(short.tensor_bytes >= cached)
    results = long.tensor_bytes[long.tensor_kind == TensorKind.OUTPUT]
    assert np.count_nonzero(results == 4 * kept) == 2 * layers == len(results) - 1


def test_local_attention_keeps_a_window() -> None:
    program = resolve_workload("Gemma3-1B-decode", dims={"past_sequence": 8192})
    tokens = [int(program.tensor_bytes[tensor]) // (4 * 256) for tensor in tensors(program, "past_key_")]
    assert sorted(tokens) == [511] * 22 + [8192] * 4


def test_a_token_reads_the_experts_that_it_chose() -> None:
    program = resolve_workload("Mixtral-block-decode")
    read = [tensor for tensor in tensors(program, "layer.mlp.experts") if program.tensor_kind[tensor] == 0]
    assert [bytes_read(program, tensor) for tensor in read] == [[4096 * 14336 * 4]] * (2 * 3)
    assert program.live_bytes.max() < 1 << 20, "no expert's weights are written"
    whole = resolve_workload("Mixtral-block-prefill", dims={"sequence": 512})
    experts = [op for op in range(whole.num_ops) if whole.macs[op] == 2 * 512 // 8 * 4096 * 14336]
    assert len(experts) == 3 * 8


def test_shared_weights_are_one_tensor() -> None:
    albert = resolve_workload("ALBERT")
    for tensor in tensors(albert, "albert_layer_groups.0"):
        assert bytes_read(albert, tensor) == [albert.tensor_bytes[tensor]] * 12
    llama = resolve_workload("Llama-3.2-1B-decode")
    (table,) = tensors(llama, "lm_head.weight")
    assert sorted(bytes_read(llama, table)) == [4 * 2048, 4 * 2048 * 128256]


@pytest.mark.parametrize("batch", [1, 64])
def test_a_request_reads_a_row_of_each_table(batch: int) -> None:
    program = resolve_workload("DLRM", batch=batch)
    for tensor in tensors(program, "tables."):
        assert bytes_read(program, tensor) == [min(64 * batch, program.tensor_bytes[tensor])]
