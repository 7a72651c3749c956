"""Conditions broken one at a time: copies of a module of which one lacks an operand or has another limit."""

import ast
import copy
import gc
import signal
import threading
import types
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

MOST_S, LATER_S = 3.0, 0.01
"""Seconds that a case may take with a broken guard, and after which it is asked again while a thread starts."""

Case = Callable[[types.ModuleType], str]
"""Returns what a copy of a module says to something hostile, or to what is sound."""
REFUSED = "refused"
"""Beginning of an answer that is an exception."""
_AT_THE_LIMIT = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}
"""Comparisons, each with the one that differs from it at the limit alone."""


class _Pairs(ast.NodeTransformer):
    """Writes `0 <= a <= b` as `0 <= a and a <= b`, so that each half can be broken."""

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        self.generic_visit(node)
        sides = [node.left, *node.comparators]
        pairs = [ast.Compare(a, [op], [b]) for a, op, b in zip(sides, node.ops, sides[1:], strict=False)]
        return pairs[0] if len(pairs) == 1 else ast.BoolOp(ast.And(), list[ast.expr](pairs))


def broken(node: ast.AST) -> Iterator[ast.AST]:
    """Yield copies of a statement or expression with one condition broken, but none in its body or in a text.

    An `if` never holds; an operand of `and`, `or`, `&` or `|` is left out; a comparison decides otherwise at its limit;
    a limit is one higher or lower.
    """
    match node:
        case ast.If(_, body, orelse):
            yield ast.If(ast.Constant(False), body, orelse)
        case ast.BoolOp(op, values):
            for index in range(len(values)):
                left = values[:index] + values[index + 1 :]
                yield left[0] if len(left) == 1 else ast.BoolOp(op, left)
        case ast.BinOp(left, ast.BitAnd() | ast.BitOr(), right):
            yield from (left, right)
        case ast.Compare(left, [ast.Lt() | ast.LtE() | ast.Gt() | ast.GtE() as op], [limit]):
            yield ast.Compare(left, [_AT_THE_LIMIT[type(op)]()], [limit])
            for shift in (ast.Add(), ast.Sub()):
                yield ast.Compare(left, [op], [ast.BinOp(limit, shift, ast.Constant(1))])
    for field, value in ast.iter_fields(node):
        parts = value if isinstance(value, list) else [value]
        for index, part in enumerate(parts):
            inside = isinstance(part, ast.expr | ast.comprehension | ast.keyword) and field != "annotation"
            for version in broken(part) if inside and not isinstance(part, ast.JoinedStr) else ():
                changed = [*parts[:index], version, *parts[index + 1 :]] if isinstance(value, list) else version
                again = copy.copy(node)
                setattr(again, field, changed)
                yield again


class Break(NamedTuple):
    """A copy of a module with a broken guard: where that stands, what it was and what it is."""

    where: str
    was: str
    now: str
    module: types.ModuleType

    def __str__(self) -> str:
        return f"{self.where}: {self.was} -> {self.now}"


def breaks(module: types.ModuleType, refuses: Callable[[ast.stmt], bool]) -> Iterator[Break]:
    """Yield copies of a module, first one that is whole, then each with one guard broken.

    Args:
        module: the module.
        refuses: whether a statement is a guard, all of whose conditions are broken.
    """
    path = Path(str(module.__file__))
    tree = _Pairs().visit(ast.parse(path.read_text("utf-8")))

    def made() -> types.ModuleType:
        again = types.ModuleType(module.__name__)
        again.__dict__.update({"__file__": str(path), "__package__": module.__package__})
        exec(compile(ast.fix_missing_locations(tree), str(path), "exec"), again.__dict__)
        return again

    yield Break("", "", "", made())
    guards = [node for node in ast.walk(tree) if isinstance(node, ast.stmt) and refuses(node)]
    assert guards
    for guard in guards:
        whole, was = dict(vars(guard)), _line(guard)
        for version in broken(guard):
            vars(guard).update(vars(version))
            yield Break(f"{path.name}:{guard.lineno}", was, _line(guard), made())
            vars(guard).update(whole)


def _line(statement: ast.stmt) -> str:
    return ast.unparse(statement).split("\n")[0]


def raises(guard: ast.stmt) -> bool:
    """Return whether a statement is an `if` whose body raises an exception itself."""
    return isinstance(guard, ast.If) and any(isinstance(statement, ast.Raise) for statement in guard.body)


def judges(statement: ast.stmt) -> bool:
    """Return whether a statement `raises`, or returns a truth value."""
    returned = statement.value if isinstance(statement, ast.Return) else None
    return raises(statement) or isinstance(returned, ast.BoolOp | ast.Compare)


def decides(statement: ast.stmt) -> bool:
    """Return whether a statement may hold a condition."""
    return not isinstance(statement, ast.FunctionDef | ast.ClassDef)


def unnoticed(
    module: types.ModuleType,
    refuses: Callable[[ast.stmt], bool],
    cases: Sequence[Case],
    verdicts: str = "",
    same: tuple[str, ...] = (),
) -> list[str]:
    """Return the broken guards that change the outcome of no case, and first check the outcomes of the whole module.

    Args:
        module: the module whose guards are broken.
        refuses: whether a statement is a guard, all of whose conditions are broken.
        cases: what the copies are asked.
        verdicts: for each case in turn "x" if the module refuses it and "." if not; empty where other tests say that.
        same: how statements begin, whole or broken, of which nobody can tell that they are broken: they save work.
    """
    whole, *copies = breaks(module, refuses)
    before = [case(whole.module) for case in cases]
    found = "".join(".x"[said.startswith(REFUSED)] for said in before)
    assert verdicts in ("", found), before
    return [
        str(each)
        for each in copies
        if not (each.was.startswith(same) or each.now.startswith(same))
        and all(_in_time(case, each.module) == said for case, said in zip(cases, before, strict=True))
    ]


def noted(case: Case) -> Case:
    """Return the case, with an exception as what the module says: a broken guard may let anything happen."""

    def answer(module: types.ModuleType) -> str:
        try:
            return case(module)
        except TimeoutError:
            raise
        except Exception as error:
            return f"{REFUSED} by {type(error).__name__}: {error}"

    return answer


def with_limits(case: Case, **limits: object) -> Case:
    """Return the case with other constants in the module."""

    def limited(module: types.ModuleType) -> str:
        kept = {name: vars(module)[name] for name in limits}
        vars(module).update(limits)
        try:
            return case(module)
        finally:
            vars(module).update(kept)

    return limited


def plain_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let copies of modules of kernels be plain Python, so that nothing is compiled for a broken guard."""
    monkeypatch.setattr("memplace_env._lib.kernel.kernel", lambda function=None, **_: function or (lambda inner: inner))


def _in_time(case: Case, module: types.ModuleType) -> str:
    """Return what a case says; without its guard a loop may not end, which is a difference, too."""

    def stop(_: int, frame: types.FrameType | None) -> None:
        while frame is not None:
            if frame.f_code is threading.Thread.start.__code__:  # a thread that is half started raises, too
                signal.setitimer(signal.ITIMER_REAL, LATER_S)
                return
            frame = frame.f_back
        raise TimeoutError

    earlier = signal.signal(signal.SIGALRM, stop)
    gc.disable()  # what a callback of the collector raises is lost
    signal.setitimer(signal.ITIMER_REAL, MOST_S)
    try:
        return case(module)
    except TimeoutError:
        return "it does not end"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, earlier)
        gc.enable()
