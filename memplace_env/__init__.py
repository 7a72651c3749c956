"""MemPlace: where a neural network's tensors live in an accelerator's memory.

Importing this package registers the environments; everything else is loaded when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memplace_env._lib.lazy import export_lazily
from memplace_env._lib.version import __version__ as __version__
from memplace_env.envs.registration import register_envs as register_envs

if TYPE_CHECKING:
    from memplace_env._lib.errors import MemPlaceError as MemPlaceError
    from memplace_env.backends.executorch import from_executorch as from_executorch
    from memplace_env.envs.known_returns import BestKnown as BestKnown
    from memplace_env.envs.known_returns import best_known as best_known
    from memplace_env.envs.known_returns import best_plan as best_plan
    from memplace_env.envs.known_returns import normalised_score as normalised_score
    from memplace_env.envs.malloc_game import MallocGameEnv as MallocGameEnv
    from memplace_env.envs.one_shot import OneShotEnv as OneShotEnv
    from memplace_env.envs.splits import suites as suites
    from memplace_env.envs.steps import StepsEnv as StepsEnv
    from memplace_env.machine.accelerator import Accelerator as Accelerator
    from memplace_env.machine.accelerator import accelerator_names as accelerator_names
    from memplace_env.machine.accelerator import load_accelerator as load_accelerator
    from memplace_env.machine.costs import CostModel as CostModel
    from memplace_env.machine.costs import Costs as Costs
    from memplace_env.placement.addresses.memory_packing import Packed as Packed
    from memplace_env.placement.addresses.memory_packing import pack as pack
    from memplace_env.placement.api import compile_levels as compile_levels
    from memplace_env.placement.api import native as native
    from memplace_env.placement.api import simulate as simulate
    from memplace_env.placement.api import validate as validate
    from memplace_env.placement.memory_plan import MemoryPlan as MemoryPlan
    from memplace_env.placement.resolve_task import resolve_task as resolve_task
    from memplace_env.placement.simulator_report import Report as Report
    from memplace_env.placement.simulator_report import Simulator as Simulator
    from memplace_env.placement.task import Task as Task
    from memplace_env.placement.workloads import resolve_workload as resolve_workload
    from memplace_env.program.builder import ProgramBuilder as ProgramBuilder
    from memplace_env.program.frontends.onnx import load_onnx as load_onnx
    from memplace_env.program.frontends.stablehlo import from_jax as from_jax
    from memplace_env.program.frontends.stablehlo import load_stablehlo as load_stablehlo
    from memplace_env.program.frontends.tflite import load_tflite as load_tflite
    from memplace_env.program.program import Program as Program
    from memplace_env.program.program import TensorKind as TensorKind
    from memplace_env.program.zoo import zoo_names as zoo_names

export_lazily(
    __name__,
    {
        "_lib.errors": "MemPlaceError",
        "backends.executorch": "from_executorch",
        "envs.malloc_game": "MallocGameEnv",
        "envs.one_shot": "OneShotEnv",
        "envs.known_returns": "BestKnown best_known best_plan normalised_score",
        "envs.splits": "suites",
        "envs.steps": "StepsEnv",
        "machine.accelerator": "Accelerator accelerator_names load_accelerator",
        "machine.costs": "CostModel Costs",
        "placement.addresses.memory_packing": "Packed pack",
        "placement.api": "compile_levels native simulate validate",
        "placement.memory_plan": "MemoryPlan",
        "placement.resolve_task": "resolve_task",
        "placement.simulator_report": "Report Simulator",
        "placement.task": "Task",
        "placement.workloads": "resolve_workload",
        "program.builder": "ProgramBuilder",
        "program.frontends.onnx": "load_onnx",
        "program.frontends.stablehlo": "from_jax load_stablehlo",
        "program.frontends.tflite": "load_tflite",
        "program.program": "Program TensorKind",
        "program.zoo": "zoo_names",
    },
    own=["__version__", "register_envs"],
)

register_envs()
