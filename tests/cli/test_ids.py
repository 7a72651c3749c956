"""Ids of environments in place of models: all of their settings, and flags that replace single ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import pytest

from memplace_env._lib.errors import MemPlaceError
from memplace_env.cli.model_flags import ModelFlags, make_env, posed_by, registered_envs
from memplace_env.envs.registration import Formulation
from tests.cli.conftest import Run

GAME, SLICED = "MallocGame-SqueezeNet-edge-tpu-v0", "MemPlace-TCN-LM-Sliced-v0"
QUICK = ("--budget", 1, "--bound", 0)


def ids() -> list[str]:
    return [name for name, spec in registered_envs().items() if "workload" in spec.kwargs]


def test_an_id_has_all_settings_of_its_environment() -> None:
    """Flags say the same as the registration, which is where the environment takes its settings from."""
    for env_id in ids():
        kwargs = {name: value for name, value in registered_envs()[env_id].kwargs.items() if name != "optimum"}
        workload, flags = ModelFlags().of_id(env_id)
        chip = flags.chip.removesuffix("-streamed") if posed_by(env_id) is Formulation.GAME else flags.chip
        assert kwargs.pop("workload") == workload
        assert kwargs.pop("accelerator", chip) == chip
        assert {name: value for name, value in vars(flags).items() if value and name != "accelerator"} == kwargs


@pytest.mark.parametrize(
    "env_id", ["MemPlace-Tiny-v0", "MallocGame-Tiny-v0", GAME, SLICED, "MemPlaceSteps-ResNet50-v0"]
)
def test_an_id_is_its_environment(env_id: str) -> None:
    own: Any = gym.make(env_id).unwrapped
    made = make_env(*ModelFlags().registered(env_id, posed_by(env_id)), posed_by(env_id))
    for task in (made.task, ModelFlags().task(env_id)):
        assert task.program.sha256 == own.task.program.sha256
        assert task.accelerator.sha256 == own.task.accelerator.sha256


def test_flags_replace_single_settings() -> None:
    workload, flags = ModelFlags(batch=3, slices=0.5, dims={"x": 1}).of_id("MemPlace-TCN-LM-Sliced-v0")
    plain = ModelFlags().of_id("MemPlace-TCN-LM-v0")[1]
    assert (workload, flags.batch, flags.slices, flags.dtype) == ("TCN-LM", 3, 0.5, plain.dtype)
    assert flags.dims == {**(plain.dims or {}), "x": 1}
    assert ModelFlags(accelerator="nnp-i").of_id(GAME)[1].accelerator == "nnp-i"


def test_names_that_look_like_ids() -> None:
    for model in ("MemPlace-x-v0.onnx", "folder/MemPlace-x-v0", "my-v1", "dcn-v2"):
        assert ModelFlags().of_id(model) == (model, ModelFlags())
    for model in ("MemPlace-bert-v0", "MemPlace-v0", "MallocGame-Train-v0", "MallocGame-BERT-v9"):
        with pytest.raises(MemPlaceError):
            ModelFlags().arguments(model)


@pytest.mark.parametrize("env_id", ["MallocGame-Tiny-v0", GAME, SLICED])
def test_every_command_takes_ids(env_id: str, run: Run, parsed: Callable[..., Any]) -> None:
    """A plan of an id is one for that id, with and without naming it."""
    parsed("solve", env_id, "--agent", "best-rule", *QUICK, "--out", "o")
    for named in ((env_id,), ()):
        for command, *more in (
            ("validate",), ("simulate",), ("compare", "o/plan.json"), ("export", "--out", "x.h"),
            ("explain", "--out", "e.png"),
        ):  # fmt: skip
            result = run(command, *named, "o/plan.json", *more)
            assert result.exit_code == 0, (command, result.stderr)
    assert parsed("inspect", env_id)["accelerator"] == gym.make(env_id).unwrapped.task.accelerator.name  # type: ignore[attr-defined]
    other = run("validate", "MallocGame-ResNet101-edge-tpu-v0", "o/plan.json")
    assert other.exit_code == 2 or "another program" in other.stdout
