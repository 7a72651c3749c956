"""MemPlace: where a neural network's tensors live in an accelerator's memory.

Importing this package registers the environments; everything else is loaded when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from memplace_env.registration import register_envs

if TYPE_CHECKING:
    from memplace_env.accelerator import Accelerator, load_accelerator
    from memplace_env.compiler import compile_mapping, native
    from memplace_env.plan import MemoryPlan, validate
    from memplace_env.simulator import Report, Simulator, simulate
    from memplace_env.workload.builder import ProgramBuilder
    from memplace_env.workload.onnx import load_onnx
    from memplace_env.workload.program import Program, TensorKind
    from memplace_env.workload.resolve import resolve_workload

__version__ = "0.1.0"

_HOME = {
    "Accelerator": "accelerator",
    "MemoryPlan": "plan",
    "Program": "workload.program",
    "ProgramBuilder": "workload.builder",
    "Report": "simulator",
    "Simulator": "simulator",
    "TensorKind": "workload.program",
    "compile_mapping": "compiler",
    "load_accelerator": "accelerator",
    "load_onnx": "workload.onnx",
    "native": "compiler",
    "resolve_workload": "workload.resolve",
    "simulate": "simulator",
    "validate": "plan",
}

__all__ = [
    "Accelerator",
    "MemoryPlan",
    "Program",
    "ProgramBuilder",
    "Report",
    "Simulator",
    "TensorKind",
    "__version__",
    "compile_mapping",
    "load_accelerator",
    "load_onnx",
    "native",
    "register_envs",
    "resolve_workload",
    "simulate",
    "validate",
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
