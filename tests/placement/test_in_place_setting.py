"""The setting `in_place`: of chips, of tasks, of commands and in plans."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

from memplace_env._lib.errors import AcceleratorError, WorkloadError
from memplace_env.cli.model_flags import ModelFlags, registered_envs
from memplace_env.envs.many.setting import Setting
from memplace_env.machine.accelerator import Accelerator, accelerator_names, load_accelerator
from memplace_env.machine.accelerator.load import find
from memplace_env.placement.compiler import native_plan
from memplace_env.placement.resolve_task import resolve_task
from memplace_env.placement.task import Task
from memplace_env.placement.validation import violations
from tests.program.models import model, node

IN_PLACE = ("none", "elementwise", "rows")


@pytest.fixture
def network(tmp_path: Path) -> str:
    path = tmp_path / "net.onnx"
    nodes = [node("Exp", "x", "a"), node("Softmax", "a", "b"), node("MatMul", "b b", "c"), node("Tanh", "c", "d")]
    proto = model([*nodes, node("Hardmax", "d", "y")], {"x": [16, 16]})
    path.write_bytes(proto.SerializeToString())
    return str(path)


def chip(inplace: Any) -> Accelerator:
    return replace(load_accelerator("nnp-i"), inplace=inplace)


def said(task: Task) -> tuple[int, Any]:
    return len(task.program.inplace), task.settings.get("in_place")


def test_a_chip_says_what_its_compiler_does(tmp_path: Path) -> None:
    text = find("nnp-i").read_text("utf-8")
    own = tmp_path / "own.toml"
    for value in IN_PLACE:
        own.write_text(text.replace("\nports", f'\ninplace = "{value}"\nports', 1), "utf-8")
        assert load_accelerator(own).inplace == value
        assert load_accelerator(own).sha256 == load_accelerator("nnp-i").sha256
    own.write_text(text.replace("\nports", '\ninplace = "all"\nports', 1), "utf-8")
    with pytest.raises(AcceleratorError, match="inplace must be one of none, elementwise, rows"):
        load_accelerator(own)
    documented = {name for name in accelerator_names() if load_accelerator(name).inplace != "none"}
    own = {"edge-tpu", "esp32-s3", "hexagon-v73", "k210", "nnp-i", "stm32h750", "stm32n6"}
    assert documented == set(accelerator_names()) - own


def test_a_model_takes_the_chips(network: str) -> None:
    expected = {"none": (0, None), "elementwise": (1, "elementwise"), "rows": (2, "rows")}
    for value in IN_PLACE:
        assert said(resolve_task(network, chip(value), fusion="none")) == expected[value]
        assert said(resolve_task(network, chip("rows"), fusion="none", in_place=value)) == expected[value]
    for wrong in ("all", 1):
        with pytest.raises(WorkloadError, match="in_place is"):
            resolve_task(network, in_place=wrong)  # type: ignore[arg-type]


def test_a_program_keeps_what_it_says(network: str, tmp_path: Path) -> None:
    task = resolve_task(network, fusion="none", in_place="rows")
    task.program.save(tmp_path / "net.program")
    for program in (task.program, tmp_path / "net.program"):
        for given, left in ((None, (2, "rows")), ("elementwise", (2, "elementwise")), ("none", (0, None))):
            found = resolve_task(program, chip("none"), in_place=given)
            assert said(found) == left
            assert (found.program.sha256 == task.program.sha256) == (given != "none")
        with pytest.raises(WorkloadError, match="in_place is"):
            resolve_task(program, in_place="all")
    with pytest.raises(WorkloadError, match="in_place cannot apply"):
        resolve_task(task, in_place="rows")


def test_a_plan_makes_its_program_again(network: str) -> None:
    """A plan that says nothing, as all did before, is one without results in place, whatever the chip does now."""
    for value in IN_PLACE:
        task = resolve_task(network, "ethos-u65", fusion="none", in_place=value)
        plan = native_plan(task)
        again = ModelFlags().with_defaults_of(plan).task(network)
        assert again.settings == task.settings == plan.settings
        assert violations(again, plan) == []


def test_ids_are_what_they_were() -> None:
    specs = [spec for name, spec in registered_envs().items() if "workload" in spec.kwargs and "-Compiled-" not in name]
    assert {spec.kwargs["in_place"] for spec in specs if "optimum" not in spec.kwargs} == {"none"}
    assert said(Setting("NeRF", "tpu-v4i", 1, dtype="bfloat16").task()) == (0, None)
    env: Any = gym.make("MemPlace-NeRF-intel-npu-4000-v0", in_place="elementwise").unwrapped
    assert said(env.task)[1] == "elementwise"
    assert ModelFlags(in_place="rows").of_id("MemPlace-NeRF-v0")[1].in_place == "rows"
    for flags, value in ((ModelFlags(), None), (ModelFlags(in_place="rows"), "rows")):
        assert (flags.registered("NeRF")[1].in_place, flags.registered("NeRF")[1].batch) == (value, 2)
