"""Rules of the design about the whole: imports point one way, tasks are handed on whole, names are what they seem."""

import ast
import importlib
import json
import re
import subprocess
import sys
from collections import Counter

import networkx as nx
import pytest

import memplace_env
from tests.source import PACKAGES, ROOT, functions, imports, is_package, modules, names_in

FLOORS = (
    ("_lib",),
    ("program",),
    ("machine",),
    ("placement",),
    ("report",),
    ("backends", "envs"),
    ("testing", "agents"),
    ("cli",),
    ("leaderboard",),
)
"""Rooms of memplace_env and the other two packages, bottom to top: each imports from itself and from floors below."""


def room(module: str) -> str:
    """Room of a module; the package itself only registers the environments."""
    parts = module.split(".")
    if parts[0] != "memplace_env":
        return parts[0].removeprefix("memplace_")
    return parts[1] if len(parts) > 1 else "envs"


def floor(module: str) -> int:
    """Number of the floor that the module's room is on."""
    return next(number for number, rooms in enumerate(FLOORS) if room(module) in rooms)


def test_every_room_has_a_floor():
    assert {room(module) for module in modules()} == {name for rooms in FLOORS for name in rooms}


def test_imports_point_one_way():
    """Imports within functions and for types count as well: they are for saving time, not for going in circles."""
    upwards = [
        str(found)
        for found in imports(types=True)
        if found.target.split(".")[0] in PACKAGES
        and found.importer != "memplace_env"
        and room(found.target) != room(found.importer)
        and floor(found.target) >= floor(found.importer)
    ]
    assert upwards == []


def test_no_circle_of_files():
    graph = nx.DiGraph(
        (found.importer, found.target)
        for found in imports(types=True)
        if found.target in modules() and found.target != found.importer
    )
    assert [sorted(circle) for circle in nx.strongly_connected_components(graph) if len(circle) > 1] == []


def test_public_class_names_are_unique():
    homes: dict[str, list[str]] = {}
    for name, tree in modules().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes.setdefault(node.name, []).append(name)
    assert {name: found for name, found in homes.items() if len(found) > 1} == {}


ENVIRONMENT_FILES = {"env", "flat", "graph", "observation", "problem", "vector", "viewer"}
"""Names that stand once in each formulation's folder, as in Jumanji."""


def test_file_names_are_unique():
    """A file says its subject in its name, so that no two are called alike."""
    names = Counter(name.rpartition(".")[2] for name in modules() if not is_package(name))
    assert {name for name, count in names.items() if count > 1} - ENVIRONMENT_FILES == set()


ONLY_IN = {
    "gymnasium": (
        *(f"memplace_env.{name}" for name in ("envs", "backends.cuda", "testing", "cli")),
        "memplace_agents",
        "memplace_leaderboard",
    ),
    "memplace_agents": ("memplace_leaderboard", "memplace_env.cli", "memplace_agents"),
    "torch": ("memplace_agents", "memplace_env.backends.cuda", "memplace_env.backends.executorch"),
    "executorch": ("memplace_env.backends.executorch",),
    "torch_geometric": (),
    "tensorboard": ("memplace_agents",),
    "stable_baselines3": ("memplace_agents", "memplace_env.envs.wrappers.sb3"),
    "sb3_contrib": ("memplace_agents",),
    "hypothesis": (),
    "pytest": (),
    "tests": (),
    "benchmarks": (),
    "numba": ("memplace_env._lib.kernel", "memplace_env._lib.kept_folder", "memplace_env._lib.array_rows"),
    "networkx": ("memplace_env.program.program",),
    "onnx": (
        "memplace_env.program.frontends.onnx",
        "memplace_env.program.lowering",
        "memplace_env.backends.ort",
        "memplace_env.backends.cuda.operators.node",
        "memplace_env.backends.cuda.torch_lowering",
    ),
    "onnxruntime": ("memplace_env.backends.ort.sessions",),
    "tflite": (
        "memplace_env.program.frontends.tflite",
        "memplace_env.backends.export.tflite_file",
        "memplace_env.backends.export.tflite_offsets",
        "memplace_env.backends.export.smallest_file",
    ),
    "flatbuffers": ("memplace_env.backends.export.tflite_file", "memplace_env.backends.ort.micro_network"),
    "tflite_micro": (
        "memplace_env.backends.export.micro_runtime",
        "memplace_env.backends.ort.micro_network",
        "memplace_env.backends.ort.micro_op",
    ),
    "jax": ("memplace_env.program.frontends.stablehlo.parsed_apart", "memplace_env.envs.jax"),
    "ray": ("memplace_leaderboard.ray_cluster",),
    "matplotlib": ("memplace_env.report", "memplace_env.envs.malloc_game.viewer"),
    "plotly": ("memplace_leaderboard.page",),
    "playwright": (),
    "axe_playwright_python": (),
    "typer": ("memplace_env.cli", "memplace_leaderboard.cli"),
    "tomlkit": ("memplace_env.machine.accelerator.description", "memplace_leaderboard.meta_file"),
}
"""Modules that may import each library."""


def test_libraries_are_imported_where_they_belong():
    elsewhere = []
    for found in imports():
        library = found.target.split(".")[0]
        homes = ONLY_IN.get(library, (found.importer,))
        if not any(found.importer == home or found.importer.startswith(f"{home}.") for home in homes):
            elsewhere.append(str(found))
    assert not elsewhere, "\n".join(elsewhere)


def test_networkx_is_imported_only_when_it_is_used():
    assert all(found.lazy for found in imports() if found.target == "networkx")


MAY_TAKE_BOTH = (
    "memplace_env.placement.task",
    "memplace_env.placement.resolve_task",
    "memplace_env.placement.api",
    "memplace_env.machine.costs",
    "memplace_env.program",
    "memplace_env.placement.synthetic",
    "memplace_env.machine.accelerator",
    "memplace_env.placement.simulator_report",
    "memplace_env.testing",
)
"""Modules in which tasks are made, or which outsiders call or implement."""
SIMULATORS = (
    "memplace_env.placement.simulator.builtin",
    "memplace_env.placement.simulator.event.event_simulator",
    "memplace_env.placement.simulator.parallel",
    "memplace_leaderboard.black_box",
    "memplace_leaderboard.drawn_machines",
    "memplace_leaderboard.remote_simulator",
    "memplace_env.backends.cuda.simulator",
)
"""Modules that implement `Simulator`, which takes both."""
METHODS = ("run", "run_batch", "spans", "task_of", "bench", "disturbed")


def takes_both(node: ast.FunctionDef) -> bool:
    """Return whether a signature has a program and a chip side by side, by name or type."""
    arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    said = {name for each in arguments for name in (each.arg, *(names_in(each.annotation) if each.annotation else ()))}
    return bool(said & {"program", "Program"}) and bool(said & {"accelerator", "Accelerator", "chip"})


def test_tasks_are_handed_on_whole():
    both = [
        str(function)
        for function in functions()
        if takes_both(function.node)
        and not any(function.module == home or function.module.startswith(f"{home}.") for home in MAY_TAKE_BOTH)
        and not (function.module in SIMULATORS and function.node.name in METHODS)
    ]
    assert [each for each in both if not is_front_door(each)] == []


def is_front_door(function: str) -> bool:
    """Return whether it is an environment's `__init__`, where a Task is made of what a user passes to `gym.make`."""
    module, name = function.split(":")[0], function.split()[-1]
    homes = ("one_shot.env", "steps.env", "malloc_game.env", "batch.sequential_env")
    return module in {f"memplace_env.envs.{home}" for home in homes} and name == "__init__"


def test_no_module_is_shadowed_by_a_name():
    """`import a.b` and `from a import b` must give the same: a package's names are not those of its modules."""
    shadowed = []
    for name, tree in modules().items():
        inner = {other.rpartition(".")[2] for other in modules() if other.rpartition(".")[0] == name}
        for node in ast.walk(tree):
            bound = set()
            if isinstance(node, ast.ImportFrom):
                bound = {
                    alias.asname or alias.name for alias in node.names if f"{node.module}.{alias.name}" not in modules()
                }
            elif isinstance(node, ast.FunctionDef | ast.ClassDef):
                bound = {node.name}
            elif isinstance(node, ast.Assign):
                bound = {target.id for target in node.targets if isinstance(target, ast.Name)}
            shadowed += [f"{name}.{each}" for each in sorted(bound & inner)]
    assert shadowed == []


def test_lazy_names_shadow_no_module():
    for name in ("memplace_env", "memplace_env.envs.wrappers", "memplace_agents"):
        package = importlib.import_module(name)
        inner = {other.rpartition(".")[2] for other in modules() if other.rpartition(".")[0] == name}
        assert not inner & set(package.__all__), name


def test_import_is_light():
    code = "import sys, json, memplace_env; print(json.dumps(sorted({name.split('.')[0] for name in sys.modules})))"
    loaded = json.loads(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout)
    heavy = {
        "numba",
        "onnx",
        "jax",
        "torch",
        "scipy",
        "networkx",
        "matplotlib",
        "stable_baselines3",
        "ray",
        "typer",
        "rich",
        "agents",
    }
    assert heavy & set(loaded) == set()


PUBLIC = """
    load_onnx load_accelerator resolve_workload resolve_task Program ProgramBuilder Accelerator Task MemoryPlan validate
    simulate compile_levels native register_envs zoo_names accelerator_names MemPlaceError OneShotEnv MallocGameEnv
    StepsEnv
""".split()


def test_public_names():
    assert set(PUBLIC) <= set(memplace_env.__all__)
    assert sorted(memplace_env.__all__) == sorted(set(memplace_env.__all__))
    assert set(memplace_env.__all__) <= set(dir(memplace_env))
    code = f"from memplace_env import *; print({', '.join(memplace_env.__all__)})"
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
    for name in memplace_env.__all__:
        assert getattr(memplace_env, name) is not None
    with pytest.raises(AttributeError, match="nothing"):
        _ = memplace_env.nothing


def test_every_exported_name_exists():
    missing = []
    for name in sorted(modules()):
        if not name.endswith("__main__"):
            module = importlib.import_module(name)
            missing += [f"{name}.{each}" for each in getattr(module, "__all__", ()) if not hasattr(module, each)]
    assert not missing, "\n".join(missing)


PICTURE = re.compile(r"^    (\w+)(?:\[.*?\])? --> (\w+)(?:\[.*\])?$", re.MULTILINE)


def test_picture_in_the_documentation_shows_the_imports():
    """Each import follows the arrows, and each arrow is an import."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    arrows = set(PICTURE.findall(text))
    reach = {(below, above) for below, above in arrows}
    while more := {(a, d) for a, b in reach for c, d in reach if b == c} - reach:
        reach |= more
    ends = {
        (room(found.target), room(found.importer))
        for found in imports(types=True)
        if found.target.split(".")[0] in PACKAGES and found.importer != "memplace_env"
    }
    real = {(below, above) for below, above in ends if below != above and below != "_lib"}
    assert real - reach == set()
    assert arrows - real == set()
