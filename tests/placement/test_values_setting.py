"""The setting `values`: of tasks, of commands and in plans."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from onnx import TensorProto
from onnx.numpy_helper import to_array

from memplace_env._lib.errors import PlanError, WorkloadError
from memplace_env.backends.ort.source import source_of
from memplace_env.cli.model_flags import ModelFlags
from memplace_env.placement.compiler import native_plan
from memplace_env.placement.resolve_task import resolve_task
from tests.program.models import model, node


@pytest.fixture
def network(tmp_path: Path) -> str:
    path = tmp_path / "net.onnx"
    proto = model([node("Where", "c x w", "y")], {"x": [4], "c": []}, constants={"w": (4,)},
                  types={"c": TensorProto.BOOL})  # fmt: skip
    path.write_bytes(proto.SerializeToString())
    return str(path)


def test_a_plan_makes_its_program_again(network: str) -> None:
    flags = ModelFlags.parse(value=["c=1"])
    task = flags.task(network)
    plan = native_plan(task)
    assert plan.settings["values"] == {"c": 1}
    again = ModelFlags().with_defaults_of(plan).task(network)
    assert again.program.sha256 == task.program.sha256 != resolve_task(network).program.sha256
    assert to_array(source_of(again).stored["c"]).tolist() is True, "what executes a plan has it as a weight"
    for wrong in ({"c": "1"}, [1]):
        with pytest.raises(PlanError, match="values"):
            ModelFlags().with_defaults_of(replace(plan, settings={**plan.settings, "values": wrong}))


def test_values_are_for_models_that_are_not_built(network: str) -> None:
    program = resolve_task(network, values={}).program
    with pytest.raises(WorkloadError, match="values cannot apply"):
        resolve_task(program, values={"c": 1})
    with pytest.raises(WorkloadError, match="values are a dictionary from names"):
        resolve_task(network, values=[1])  # type: ignore[arg-type]
