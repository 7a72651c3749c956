"""The decorator of every compiled loop, and the cache of its machine code.

Numba's own cache looks at a kernel's own file only: after an edit of a function that the kernel calls, or of a constant
that it reads, it would run the old machine code. Here the name of the cache's folder holds a digest of every file that
defines a kernel and of all files of the package that those import.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import Any

import numba
from numba.core import caching, types
from numba.core import event as events

from memplace_env._lib.compilation import begin_preparation, end_preparation
from memplace_env._lib.kept_folder import kept_folder
from memplace_env._lib.logger import LOGGER

_HERE = Path(__file__).parents[1]
_IMPORT = re.compile(r"^[ \t]*(?:from[ \t]+(\.*)([\w.]*)[ \t]+)?import[ \t]+(?:\(([^)]*)\)|([^(\n]+))", re.MULTILINE)
_COMMENT = re.compile(r"#[^\n]*")


def kernel(function: Callable[..., Any] | None = None, *, borrows: bool = False, **options: Any) -> Any:
    """Compile a function with numba at its first call, without the interpreter's lock, and keep the machine code.

    With `borrows` it may make no arrays and return none, and counts no references to those that it is given. For a
    kernel that is called often and is given many, counting takes longer than its work: the rules of the game are three
    times as fast without. Where every nanosecond counts, index arrays are unsigned as well: at every access by a signed
    index numba looks whether it is negative.

    Further `options` are those of `numba.njit`, as in `@kernel(error_model="numpy")`. A helper with one call site takes
    less time to compile with `inline="always"`; it then borrows as its caller does.

    Machine code is kept in `NUMBA_CACHE_DIR` if that is set, else beside the package, else in the user's cache folder,
    else in a private folder for temporary files; where none can be written, each process compiles anew.

    Kernels have no annotations: numba infers the types of arguments, and their docstrings name them. A constant in a
    call of one kernel by another is passed as any value of its type: numba would compile the callee once for each.
    """
    if function is None:
        return partial(kernel, borrows=borrows, **options)
    # No kernel is called through a pointer of C, so none needs the wrapper for that, a tenth of its compilation.
    # Numba's runtime (`_nrt`) makes arrays and counts references; left out, this would be as in the first caller.
    settings: dict[str, Any] = {"nogil": True, "no_cfunc_wrapper": True, "_nrt": not borrows, **options}
    compiled: Any = numba.njit(**settings)(function)
    if compiled is function:  # numba is told to compile nothing (NUMBA_DISABLE_JIT)
        return compiled
    template_of = compiled.get_call_template
    compiled.get_call_template = lambda args, kws: template_of(
        tuple(map(_widened, args)), {name: _widened(kind) for name, kind in kws.items()}
    )
    with suppress(RuntimeError):  # raised by numba for a cache without a folder
        compiled._cache = _Cache(function)
    return compiled


class _Compilations(events.Listener):
    """Reports each compilation of a kernel or of a function of numba's library."""

    def on_start(self, event: events.Event) -> None:
        begin_preparation(compiling=True)

    def on_end(self, event: events.Event) -> None:
        end_preparation(compiling=True)


events.register("numba:compile", _Compilations())  # type: ignore[no-untyped-call]


def _widened(kind: types.Type) -> types.Type:
    """Return the type of any value where `kind` is that of one constant."""
    return types.unliteral(kind)  # type: ignore[no-any-return, no-untyped-call]


class _Locator(caching._SourceFileBackedLocatorMixin, caching._CacheLocator):
    """The folder of a kernel and the name of its files there, as numba needs them."""

    def __init__(self, function: Callable[..., Any], file: str, folder: Path) -> None:
        self._py_file = file
        self._lineno = f"{function.__code__.co_firstlineno}-{hashlib.sha256(file.encode()).hexdigest()[:8]}"
        self._folder = folder

    @classmethod
    def from_function(cls, function: Callable[..., Any], file: str) -> _Locator | None:
        folder = _folder(_package_root(function))
        return None if folder is None else cls(function, file, folder)

    def get_cache_path(self) -> str:
        return str(self._folder)


class _Implementation(caching.CompileResultCacheImpl):
    _locator_classes: list[type[object]] = [_Locator]  # noqa: RUF012


class _Files(caching.IndexDataCacheFile):
    """Machine code by signature. Numba numbers its files, so that two processes that compile at once could both take
    the same number, and one would run the other's code; here a file is called after its signature."""

    def load(self, key: Any) -> Any:
        with suppress(Exception):  # whatever is raised of a file that a crash has cut
            return super().load(key)  # type: ignore[no-untyped-call]
        return None

    def save(self, key: Any, data: Any) -> None:
        name = f"{self._index_name}.{hashlib.sha256(repr(key).encode()).hexdigest()[:16]}.nbc"
        self._save_data(name, data)  # type: ignore[no-untyped-call]
        index: dict[Any, str] = {}
        with suppress(Exception):
            index = self._load_index()  # type: ignore[no-untyped-call]
        self._save_index({**index, key: name})  # type: ignore[no-untyped-call]


class _Cache(caching.FunctionCache):
    _impl_class = _Implementation

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)  # type: ignore[no-untyped-call]
        locator = self._impl.locator
        stamp = locator.get_source_stamp()
        self._cache_file = _Files(locator.get_cache_path(), self._impl.filename_base, stamp)  # type: ignore[no-untyped-call]

    def load_overload(self, signature: Any, context: Any) -> Any:
        begin_preparation(compiling=False)
        try:
            return super().load_overload(signature, context)  # type: ignore[no-untyped-call]
        finally:
            end_preparation(compiling=False)

    def save_overload(self, signature: Any, result: Any) -> None:
        with suppress(OSError):  # a full disk, or a newer version of the package that cleared the folder away
            super().save_overload(signature, result)  # type: ignore[no-untyped-call]


@cache
def _folder(package: Path) -> Path | None:
    """Return the folder that keeps the kernels of a package, made if need be; None if nothing can be written."""
    digest = hashlib.sha256(str(package).encode()).hexdigest()[:8]
    folder = kept_folder(f"kernels-{package.name}-{digest}", _digest(package))
    if folder is None:
        LOGGER.warning("No folder can keep the compiled kernels of %s: each process compiles anew.", package.name)
    else:
        LOGGER.info("Compiled kernels of %s are kept in %s.", package.name, folder)
    return folder


def _package_root(function: Callable[..., Any]) -> Path:
    """Return the folder of the top-level package that defines the function; the file's own folder for scripts."""
    folder = Path(function.__code__.co_filename).resolve().parent
    depth = function.__module__.count(".")
    return folder.parents[depth - 2] if depth > 1 else folder


@cache
def _digest(package: Path) -> str:
    """Return the hex digest of the kernels in a package, of those in this one, and of all files that they import."""
    roots = {root.name: root for root in (package, _HERE)}
    todo = [path for root in roots.values() for path in root.rglob("*.py") if b"@kernel" in path.read_bytes()]
    sources: dict[Path, bytes] = {}
    while todo:
        path = todo.pop()
        if path not in sources:
            sources[path] = path.read_bytes()
            todo += _imported(path, sources[path].decode("utf-8", "replace"), roots)
    total = hashlib.sha256(numba.__version__.encode())
    for path in sorted(sources):
        total.update(hashlib.sha256(sources[path]).digest())
    return total.hexdigest()[:16]


def _imported(path: Path, source: str, roots: dict[str, Path]) -> Iterator[Path]:
    """Yield the files of these packages that a module imports."""
    for match in _IMPORT.finditer(_COMMENT.sub("", source)):
        dots, module, *names = match.groups()
        imported = [words[0] for part in (names[0] or names[1]).split(",") if (words := part.split())]
        for name in imported if module is None else [module, *(f"{module}.{inner}" for inner in imported)]:
            parts = [part for part in name.split(".") if part]
            if dots:
                folder = path.parents[len(dots) - 1]
            elif parts and parts[0] in roots:
                folder = roots[parts.pop(0)]
            else:
                continue
            target = folder.joinpath(*parts)
            for file in (target.with_suffix(".py"), target / "__init__.py"):
                if file.is_file():
                    yield file
