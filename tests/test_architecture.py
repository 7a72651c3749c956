"""What the design says about the whole: imports point one way, tasks are handed on whole, names are what they seem."""

import ast
import importlib
import json
import re
import subprocess
import sys

import pytest

import memplace_env
from tests.source import PACKAGES, ROOT, functions, imports, modules, names_in

LAYERS = (
    ("errors", "units", "files", "foreign", "hints", "threads", "plugins", "processes", "kernel"),
    ("workload", "accelerator"),
    ("costs",),
    ("workload.synthetic", "workload.resolve"),  # a planted optimum is one at certain costs
    ("task",),
    ("plan",),
    ("export", "simulator"),
    ("compiler", "execution"),
    ("resolve",),
    ("api", "device"),
    ("registration", "envs"),
    ("wrappers", "testing"),
    ("analysis",),
    ("views",),
    ("leaderboard",),
    ("cli",),
)
"""Parts of memplace_env, from the bottom to the top: each imports from its own layer and those before it. What stands
here counts for all that is in it, unless that stands here itself."""

RENDERING = {f"memplace_env.envs.{package}.viewer" for package in ("one_shot", "malloc_game")}
"""The one way back: these modules of the environments draw with `views`; their `env` imports them when it renders."""


def layer(module: str) -> int:
    """Number of the module's layer; the package itself is what registers the environments."""
    if module in RENDERING:
        return layer("memplace_env.views")
    part = module.removeprefix("memplace_env").removeprefix(".") or "registration"
    while part:
        for number, parts in enumerate(LAYERS):
            if part in parts:
                return number
        part = part.rpartition(".")[0]
    raise AssertionError(f"{module} stands in no layer")


def test_every_part_has_a_layer():
    assert all(layer(module) >= 0 for module in modules() if module.startswith("memplace_env"))


def test_imports_point_one_way():
    """Those within functions as well: they are for saving time, not for going round in circles."""
    upwards = [
        str(found)
        for found in imports()
        if found.importer.startswith("memplace_env.")
        and found.target.split(".")[0] == "memplace_env"
        and layer(found.target) > layer(found.importer)
        and not (found.lazy and found.target in RENDERING and found.importer == found.target.replace("viewer", "env"))
    ]
    assert upwards == []


FROM_ENVS_UP = tuple(
    f"memplace_env.{part}" for parts in LAYERS[LAYERS.index(("registration", "envs")) :] for part in parts
)
ONLY_IN = {
    "gymnasium": (*FROM_ENVS_UP, "agents"),
    "agents": ("memplace_env.leaderboard", "memplace_env.cli", "agents"),
    "torch": ("agents", "memplace_env.device"),
    "torch_geometric": ("agents",),
    "tensorboard": ("agents",),
    "stable_baselines3": ("agents", "memplace_env.wrappers.sb3"),
    "sb3_contrib": ("agents",),
    "hypothesis": ("memplace_env.testing.strategies",),
    "pytest": (),
    "tests": (),
    "benchmarks": (),
    "numba": ("memplace_env.kernel",),
    "networkx": ("memplace_env.workload.program",),
    "onnx": (
        "memplace_env.workload.onnx",
        "memplace_env.workload.lowered",
        "memplace_env.execution",
        "memplace_env.device.dtypes",
        "memplace_env.device.lowering",
    ),
    "onnxruntime": ("memplace_env.execution.sessions",),
    "tflite": ("memplace_env.workload.tflite", "memplace_env.export.tflite_file", "memplace_env.export.tflite_lives"),
    "flatbuffers": ("memplace_env.export.tflite_file",),
    "jax": ("memplace_env.workload.stablehlo.library",),
    "ray": ("memplace_env.leaderboard.ray_cluster",),
    "matplotlib": ("memplace_env.views",),
    "plotly": ("memplace_env.leaderboard.page",),
    "playwright": (),
    "axe_playwright_python": (),
    "typer": ("memplace_env.cli",),
    "tomlkit": ("memplace_env.accelerator.description", "memplace_env.leaderboard.meta_file"),
}
"""Who may import what else there is."""


@pytest.mark.parametrize("library", sorted(ONLY_IN))
def test_libraries_are_imported_where_they_belong(library):
    elsewhere = [
        str(found)
        for found in imports()
        if found.target.split(".")[0] == library
        and not any(found.importer == home or found.importer.startswith(f"{home}.") for home in ONLY_IN[library])
    ]
    assert elsewhere == []


def test_networkx_is_imported_only_when_it_is_used():
    assert all(found.lazy for found in imports() if found.target == "networkx")


MAY_TAKE_BOTH = (
    "memplace_env.task",
    "memplace_env.resolve",
    "memplace_env.api",
    "memplace_env.costs",
    "memplace_env.workload",
    "memplace_env.accelerator",
    "memplace_env.simulator.protocol",
    "memplace_env.testing",
)
"""Where tasks are made, and what outsiders call or write."""
SIMULATORS = (
    "memplace_env.simulator.builtin", "memplace_env.simulator.parallel", "memplace_env.leaderboard.black_box",
    "memplace_env.device.simulator",
)  # fmt: skip
"""Where `Simulator` is implemented, which takes both."""
METHODS = ("run", "run_batch", "task_of", "bench", "disturbed")


def takes_both(node: ast.FunctionDef) -> bool:
    """Whether a signature has a program and a chip side by side, by name or type."""
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
    """What a user passes to `gym.make` arrives at the environments' `__init__`: there a Task is made of it."""
    module, name = function.split(":")[0], function.split()[-1]
    return (
        module in {f"memplace_env.envs.{package}.env" for package in ("one_shot", "malloc_game")} and name == "__init__"
    )


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
    for name in ("memplace_env", "memplace_env.wrappers", "agents"):
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
    simulate compile_mapping native register_envs zoo_names accelerator_names MemPlaceError OneShotEnv MallocGameEnv
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


@pytest.mark.parametrize("name", sorted(modules()))
def test_every_exported_name_exists(name):
    if name.endswith("__main__"):
        return
    module = importlib.import_module(name)
    missing = [each for each in getattr(module, "__all__", ()) if not hasattr(module, each)]
    assert missing == []


PICTURE = re.compile(r"^    (\w+)(?:\[.*?\])? --> (\w+)(?:\[.*\])?$", re.MULTILINE)
OUTSIDE_THE_PICTURE = (
    "errors", "units", "files", "foreign", "hints", "threads", "plugins", "processes", "kernel", "registration",
    "__main__",
)  # fmt: skip
"""What stands under everything, and a package's own modules, which register or run."""


def drawn(module: str) -> str | None:
    """The box of the picture in docs/architecture.md that a module is in; None for those outside of it."""
    if module in RENDERING:
        return "views"
    if module.startswith("agents"):
        return "agents"
    part = module.removeprefix("memplace_env").removeprefix(".")
    if part.startswith(("workload.synthetic", "workload.resolve")):
        return "task"
    if part == "api":
        return "resolve"
    top = part.split(".")[0]
    return None if not top or top in OUTSIDE_THE_PICTURE else top


def test_picture_in_the_documentation_shows_the_imports():
    """Each import follows the arrows, and each arrow is an import."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    arrows = set(PICTURE.findall(text))
    reach = {(below, above) for below, above in arrows}
    while more := {(a, d) for a, b in reach for c, d in reach if b == c} - reach:
        reach |= more
    ends = {
        (drawn(found.target), drawn(found.importer)) for found in imports() if found.target.split(".")[0] in PACKAGES
    }
    real = {(below, above) for below, above in ends if below and above and below != above}
    drawing = {("views", "envs")}  # an environment draws itself
    assert real - reach - drawing == set()
    assert arrows - real == set()
