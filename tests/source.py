"""The packages' source code as syntax trees, and what each module imports."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PACKAGES = {
    "memplace_env": ROOT / "memplace_env",
    "memplace_agents": ROOT / "agents" / "memplace_agents",
    "memplace_leaderboard": ROOT / "benchmarks" / "memplace_leaderboard",
}


@cache
def modules() -> dict[str, ast.Module]:
    """Every module of the packages by its dotted name; a package's own is that of its `__init__`."""
    found = {}
    for folder in PACKAGES.values():
        for path in sorted(folder.rglob("*.py")):
            parts = path.relative_to(folder.parent).with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            found[name] = ast.parse(path.read_text(encoding="utf-8"), str(path))
    return found


def path_of(name: str) -> Path:
    """The file of a module."""
    package, *inner = name.split(".")
    path = PACKAGES[package].joinpath(*inner)
    own = path / "__init__.py"  # not of a folder that is left with bytecode only
    return own if own.exists() else path.with_name(f"{path.name}.py")


def is_package(name: str) -> bool:
    """Return whether the module is a package's own."""
    return any(other.startswith(f"{name}.") for other in modules())


class Import(NamedTuple):
    """`importer` imports `target`, a dotted name; `lazy` if within a function."""

    importer: str
    target: str
    line: int
    lazy: bool

    def __str__(self) -> str:
        return f"{self.importer}:{self.line} imports {self.target}"


@cache
def imports(*, types: bool = False) -> tuple[Import, ...]:
    """All imports of all modules; those for types only if `types`."""
    return tuple(
        found for name, tree in modules().items() for found in _imports_in(name, tree, lazy=False, types=types)
    )


def _imports_in(name: str, node: ast.AST, *, lazy: bool, types: bool) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        if not types and isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
            continue
        if isinstance(child, ast.Import):
            for alias in child.names:
                yield Import(name, alias.name, child.lineno, lazy)
        elif isinstance(child, ast.ImportFrom):
            assert child.level == 0, f"{name}:{child.lineno}: imports are absolute"
            for alias in child.names:
                inner = f"{child.module}.{alias.name}"
                yield Import(name, inner if inner in modules() else str(child.module), child.lineno, lazy)
        inside = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        yield from _imports_in(name, child, lazy=lazy or inside, types=types)


class Function(NamedTuple):
    """A function or method and where it stands."""

    module: str
    node: ast.FunctionDef

    def __str__(self) -> str:
        return f"{self.module}:{self.node.lineno} {self.node.name}"


@cache
def functions() -> tuple[Function, ...]:
    """All functions and methods."""
    return tuple(
        Function(name, node)
        for name, tree in modules().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
    )


def names_in(node: ast.AST) -> set[str]:
    """Every variable, attribute and text in a tree."""
    found = set()
    for inner in ast.walk(node):
        if isinstance(inner, ast.Name):
            found.add(inner.id)
        elif isinstance(inner, ast.Attribute):
            found.add(inner.attr)
        elif isinstance(inner, ast.Constant) and isinstance(inner.value, str):
            found.add(inner.value)
    return found
