"""MemPlace: where a neural network's tensors live in an accelerator's memory.

Importing this package registers the environments; everything else is loaded when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from memplace_env.registration import register_envs

if TYPE_CHECKING:
    from memplace_env.accelerator import Accelerator, accelerator_names, load_accelerator
    from memplace_env.api import compile_mapping, native, simulate, validate
    from memplace_env.costs import CostModel, Costs
    from memplace_env.envs.malloc_game import MallocGameEnv
    from memplace_env.envs.one_shot import OneShotEnv
    from memplace_env.errors import MemPlaceError
    from memplace_env.leaderboard import suites
    from memplace_env.plan import MemoryPlan
    from memplace_env.resolve import resolve_task
    from memplace_env.simulator import Report, Simulator
    from memplace_env.task import Task
    from memplace_env.workload.builder import ProgramBuilder
    from memplace_env.workload.onnx import load_onnx
    from memplace_env.workload.program import Program, TensorKind
    from memplace_env.workload.resolve import resolve_workload
    from memplace_env.workload.stablehlo import from_jax, load_stablehlo
    from memplace_env.workload.tflite import load_tflite
    from memplace_env.workload.zoo import zoo_names

_HOME = {
    "Accelerator": "accelerator",
    "CostModel": "costs",
    "Costs": "costs",
    "MallocGameEnv": "envs.malloc_game",
    "MemPlaceError": "errors",
    "MemoryPlan": "plan",
    "OneShotEnv": "envs.one_shot",
    "Program": "workload.program",
    "ProgramBuilder": "workload.builder",
    "Report": "simulator",
    "Simulator": "simulator",
    "Task": "task",
    "TensorKind": "workload.program",
    "accelerator_names": "accelerator",
    "compile_mapping": "api",
    "from_jax": "workload.stablehlo",
    "load_accelerator": "accelerator",
    "load_onnx": "workload.onnx",
    "load_stablehlo": "workload.stablehlo",
    "load_tflite": "workload.tflite",
    "native": "api",
    "resolve_task": "resolve",
    "resolve_workload": "workload.resolve",
    "simulate": "api",
    "suites": "leaderboard",
    "validate": "api",
    "zoo_names": "workload.zoo",
}

__version__ = "0.1.0"

__all__ = [
    "Accelerator",
    "CostModel",
    "Costs",
    "MallocGameEnv",
    "MemPlaceError",
    "MemoryPlan",
    "OneShotEnv",
    "Program",
    "ProgramBuilder",
    "Report",
    "Simulator",
    "Task",
    "TensorKind",
    "__version__",
    "accelerator_names",
    "compile_mapping",
    "from_jax",
    "load_accelerator",
    "load_onnx",
    "load_stablehlo",
    "load_tflite",
    "native",
    "register_envs",
    "resolve_task",
    "resolve_workload",
    "simulate",
    "suites",
    "validate",
    "zoo_names",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


register_envs()
