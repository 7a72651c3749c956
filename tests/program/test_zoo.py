"""The zoo and `resolve_workload`."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Final

import pytest

from memplace_env._lib.errors import WorkloadError
from memplace_env.placement.workloads import is_built, resolve_workload
from memplace_env.program.frontends.onnx import load_onnx, model_dims
from memplace_env.program.program import TensorKind
from memplace_env.program.zoo import DEFAULT_DIMS, zoo_names, zoo_path
from tests.program.models import LIGHT
from tests.thorough import a_third

COUNTS: Final = json.loads(Path(__file__).with_name("zoo_counts.json").read_text("utf-8"))
"""MACs and parameters as PyTorch counts them (`scripts.zoo_counts`), floating-point operations as XLA does."""

QUICK: Final = ("AlexNet", "BERT", "MobileNetV2", "Swin-tiny", "T5-small", "YOLOX-s")
SAVED: Final = [name for name in zoo_names() if is_built(name)]
MODELS: Final = [name for name in zoo_names() if name not in SAVED]
EVERY: Final = [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in MODELS]

SPREAD: Final = {"CoAtNet-0": 0.110, "LeViT-128": 0.094, "SAM-encoder": 0.025, "Swin-base": 0.032, "Swin-tiny": 0.044}
"""Surplus of weights: a table of relative positions, spread by constant indices, has a row for each pair of positions.

Swin's constant masks are added to it, which makes one for each window.
"""


def test_counts_of_the_papers() -> None:
    assert resolve_workload("ResNet50").num_ops == 57
    assert resolve_workload("ResNet101").num_ops == 108
    assert load_onnx(LIGHT / "light_resnet50.onnx").num_ops == 57
    assert 370 <= resolve_workload("BERT").num_ops <= 376
    assert resolve_workload("ResNet50").op_type.count("Conv") == 53


def test_resnet_from_the_zoo_is_the_one_in_onnx() -> None:
    zoo, light = resolve_workload("ResNet50"), load_onnx(LIGHT / "light_resnet50.onnx")
    assert zoo.macs.sum() == light.macs.sum()
    assert zoo.bytes_of(TensorKind.WEIGHT) == light.bytes_of(TensorKind.WEIGHT) == 4 * 25_530_472


@pytest.mark.parametrize("name", SAVED)
def test_every_saved_program_loads(name: str) -> None:
    program = resolve_workload(name.upper())
    assert (program.name, program.dtype) == (name, "bfloat16")
    assert (program.alias_of >= 0).sum() > 0, "the parameters are updated in their places"
    assert program.footprint < 2**33, "it fits the smallest chip that trains"
    assert 2 * program.macs.sum() + program.vector_ops.sum() == pytest.approx(COUNTS[name]["flops"], rel=0.01)
    with pytest.raises(WorkloadError, match="A saved Program is fixed already, so batch cannot apply"):
        resolve_workload(name, batch=1)


@pytest.mark.slow
@pytest.mark.parametrize("name", a_third(MODELS))
def test_every_zoo_workload_loads(name: str) -> None:
    assert set(model_dims(zoo_path(name))) <= set(DEFAULT_DIMS)
    program = resolve_workload(name, fusion="none")
    for fusion in ("conv", "epilogue"):
        fused = resolve_workload(name.upper(), fusion=fusion)
        assert fused.num_ops <= program.num_ops
        assert fused.macs.sum() == program.macs.sum()
        assert fused.vector_ops.sum() == program.vector_ops.sum()
    # A network over one whole graph has no batch.
    batch = 2 if "batch" in model_dims(zoo_path(name)) else None
    full, half = (resolve_workload(name, batch=batch, dtype=dtype, fusion="none") for dtype in ("float32", "float16"))
    assert (full.dtype, half.dtype) == ("float32", "float16")
    assert full.macs.sum() == half.macs.sum() == (batch or 1) * program.macs.sum()
    indices = 2 * half.bytes_of(TensorKind.WEIGHT) - full.bytes_of(TensorKind.WEIGHT)
    assert 0 <= indices < 0.01 * full.bytes_of(TensorKind.WEIGHT)


@pytest.mark.parametrize("name", EVERY)
def test_work_and_weights_are_what_pytorch_counts(name: str) -> None:
    """BatchNorm folded into a convolution, or what is constant in a forward pass, is less than a hundredth."""
    counted = COUNTS[name]
    program = resolve_workload(name, dims=counted["dims"], dtype="float32", fusion="none")
    assert program.macs.sum() == pytest.approx(counted["macs"], rel=0.01)
    surplus = program.bytes_of(TensorKind.WEIGHT) / 4 / counted["parameters"] - 1
    assert surplus == pytest.approx(SPREAD.get(name, 0.0), abs=0.001 if name in SPREAD else 0.01)


def test_settings_reach_the_model() -> None:
    long = resolve_workload("BERT", dims={"sequence": 384}, batch=2)
    assert long.tensor_bytes[long.tensor_name.index("input_ids")] == 2 * 384 * 8
    both = resolve_workload("BERT", dims={"sequence": 384, "batch": 2})
    assert both.sha256 == long.sha256


def test_loading_twice_gives_equal_programs() -> None:
    assert resolve_workload("GPT2").sha256 == resolve_workload("gpt2").sha256


def test_unknown_name_offers_close_ones_and_the_list() -> None:
    with pytest.raises(WorkloadError, match=r"Did you mean ResNet50\?.*lists the \d+ of the zoo"):
        resolve_workload("ResNet5")
    with pytest.raises(WorkloadError, match="There is no workload 'nothing like it'"):
        resolve_workload("nothing like it")


def test_paths(tmp_path: Path) -> None:
    path = LIGHT / "light_squeezenet.onnx"
    assert resolve_workload(path).sha256 == resolve_workload(str(path)).sha256
    for missing in ("absent.onnx", str(tmp_path / "absent"), os.path.join("a", "b")):
        with pytest.raises(WorkloadError, match="There is no file"):
            resolve_workload(missing)


def test_programs_and_synthetic_workloads_take_no_settings() -> None:
    program = resolve_workload("synthetic:chain?ops=8&seed=1")
    assert resolve_workload(program, fusion="epilogue") is program
    with pytest.raises(WorkloadError, match="batch and dtype cannot apply"):
        resolve_workload(program, batch=2, dtype="int8")
    with pytest.raises(WorkloadError, match="synthetic workload is fixed"):
        resolve_workload("synthetic:chain?ops=8", dims={"a": 1})


def test_things_that_are_no_workload() -> None:
    with pytest.raises(WorkloadError, match="not int"):
        resolve_workload(5)  # type: ignore[arg-type]


def test_a_file_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memplace_env.program.zoo.SUFFIXES", ())
    with pytest.raises(WorkloadError, match="This installation lacks the file of the workload 'BERT'"):
        zoo_path("bert")
