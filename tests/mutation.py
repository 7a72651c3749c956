"""Guards broken one at a time: copies of a module in which one condition that refuses something never holds."""

import ast
import signal
import types
from collections.abc import Callable, Iterator
from pathlib import Path

MOST_S = 3.0
"""Seconds that a case may take with a broken guard."""


def broken_guards(
    module: types.ModuleType, refuses: Callable[[ast.If], bool]
) -> Iterator[tuple[str, types.ModuleType]]:
    """Yield copies of a module, each with one guard that never holds, and where that guard is.

    Args:
        module: the module.
        refuses: whether a statement is a guard.
    """
    path = Path(str(module.__file__))
    source = path.read_text("utf-8")
    guards = sum(isinstance(node, ast.If) and refuses(node) for node in ast.walk(ast.parse(source)))
    assert guards > 0
    for index in range(guards):
        tree = ast.parse(source)
        guard = [node for node in ast.walk(tree) if isinstance(node, ast.If) and refuses(node)][index]
        name = f"{path.name}:{guard.lineno}: if {ast.unparse(guard.test)}"
        guard.test = ast.copy_location(ast.Constant(False), guard.test)
        copy = types.ModuleType(module.__name__)
        copy.__dict__.update({"__file__": str(path), "__package__": module.__package__})
        exec(compile(ast.fix_missing_locations(tree), str(path), "exec"), copy.__dict__)
        yield name, copy


def raises(guard: ast.If) -> bool:
    """Return whether the body of a statement raises an exception itself."""
    return any(isinstance(statement, ast.Raise) for statement in guard.body)


def unnoticed(
    module: types.ModuleType,
    refuses: Callable[[ast.If], bool],
    cases: list[Callable[[types.ModuleType], str]],
) -> list[str]:
    """Return the guards whose loss changes the outcome of no case.

    Args:
        module: the module whose guards are broken.
        refuses: whether a statement is a guard.
        cases: each returns what a module says to something hostile.
    """
    before = [case(module) for case in cases]
    return [
        name
        for name, copy in broken_guards(module, refuses)
        if all(_in_time(case, copy) == said for case, said in zip(cases, before, strict=True))
    ]


def _in_time(case: Callable[[types.ModuleType], str], module: types.ModuleType) -> str:
    """Return what a case says; without its guard a loop may not end, which is a difference, too."""

    def stop(*_: object) -> None:
        raise TimeoutError

    earlier = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, MOST_S)
    try:
        return case(module)
    except TimeoutError:
        return "it does not end"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, earlier)
