"""Machine code on disk: never older than what it was made of, and never in the way where nothing can be written."""

import io
import os
import shutil
import stat
import subprocess
import sys
import time
from pathlib import Path

import numba
import pytest

import memplace_env
from memplace_env._lib import compilation
from memplace_env._lib.compilation import announcing, preparation_seconds
from memplace_env._lib.kernel import kernel

PACKAGE = Path(memplace_env.__file__).parent
HEADER = "from memplace_env._lib.kernel import kernel\n"


def python(*arguments: object, path: Path, unprivileged: bool = False, **variables: str) -> subprocess.CompletedProcess:
    """A fresh Python that finds packages in `path` first, not in the test's own folder, and has no pytest in it."""
    command = [sys.executable, *map(str, arguments)]
    if unprivileged:
        command = [sys.executable, "-c", WITHOUT_OVERRIDE, *command]
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("NUMBA", "PYTEST", "XDG"))}
    environment = {**kept, "PYTHONPATH": str(path), "PYTHONDONTWRITEBYTECODE": "1", **variables}
    return subprocess.run(command, env=environment, cwd=path, capture_output=True, text=True, timeout=600)


def output(*arguments: object, path: Path, **options) -> str:
    """Return what it prints; nothing may go to stderr."""
    run = python(*arguments, path=path, **options)
    assert (run.returncode, run.stderr) == (0, "")
    return run.stdout.strip()


WITHOUT_OVERRIDE = """
import ctypes, os, sys
if os.geteuid() == 0:  # root that may write only where its files let it: drop the right to override permissions
    drop_from_bounding_set, overrides = 24, (1, 2)
    for capability in overrides:
        if ctypes.CDLL(None).prctl(drop_from_bounding_set, capability, 0, 0, 0):
            raise OSError("cannot drop capabilities")
os.execv(sys.argv[1], sys.argv[1:])
"""


@pytest.fixture(scope="module")
def unprivileged(tmp_path_factory):
    """Skips where nothing can be made unwritable."""
    folder = tmp_path_factory.mktemp("locked")
    folder.chmod(stat.S_IRUSR | stat.S_IXUSR)
    run = python("-c", f"open({str(folder / 'file')!r}, 'w')", path=folder, unprivileged=True)
    if "PermissionError" not in run.stderr:
        pytest.skip("this user can write everywhere")


@pytest.fixture
def tiny(tmp_path):
    """A package whose kernel calls another one and reads constants, each from a module of its own."""
    modules = {
        "__init__": "",
        "constants": "import numpy as np\nSCALE = np.int64(10)\n",
        "more/__init__": "",
        "more/offsets": "OFFSET = 1\n",
        "more/deeper": "FAR = 100\n",
        "helpers": HEADER + "@kernel\ndef double(value):\n    return 2 * value\n",
        "outer": "import os, tiny.more.offsets as offsets  # (not in brackets)\n"
        + HEADER
        + "from tiny.helpers import double\n"
        "from tiny.constants import (\n    SCALE,  # the scale (of all)\n)\n"
        "from .more import deeper\n"
        "FAR, OFFSET = deeper.FAR, offsets.OFFSET\n"
        "@kernel\ndef outer(value):\n    return FAR + SCALE * double(value) + OFFSET\n",
    }
    for name, text in modules.items():
        path = tmp_path / "tiny" / f"{name}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    needed = ("compilation", "kept_folder", "kernel", "logger", "threads")  # by the decorator
    for name in ("__init__", "_lib/__init__", *(f"_lib/{name}" for name in needed)):
        path = tmp_path / "memplace_env" / f"{name}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text((PACKAGE / f"{name}.py").read_text() if name.startswith("_lib/") else "")
    return tmp_path


TINY = "from tiny.outer import outer; print(outer(3), sum(outer.stats.cache_hits.values()))"
KERNELS = "kernels-tiny-*"


EDITS = (
    ("constants", "10", "20", 221),
    ("helpers", "2 * value", "3 * value", 281),
    ("more/offsets", "1", "2", 282),
    ("more/deeper", "100", "500", 682),
    ("outer", "FAR +", "FAR -", 322),
)


def test_every_edit_is_seen_but_those_elsewhere(tiny):
    assert output("-c", TINY, path=tiny) == "161 0"
    for name in ("tiny", "memplace_env"):
        (tiny / name / "unrelated.py").write_text("SCALE = 3\n")
    assert output("-c", TINY, path=tiny) == "161 1", "the second process finds the code of the first"
    for module, old, new, result in EDITS:
        path = tiny / "tiny" / f"{module}.py"
        before = path.stat()
        path.write_text(path.read_text().replace(old, new))
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))  # size and time say nothing
        assert output("-c", TINY, path=tiny) == f"{result} 0", module
        assert len(list((tiny / "memplace_env" / "__pycache__").glob(KERNELS))) == 1, "old code is cleared away"


def test_a_folder_for_the_cache_may_be_given(tiny):
    folder = tiny / "given"
    assert output("-c", TINY, path=tiny, NUMBA_CACHE_DIR=str(folder)) == "161 0"
    assert output("-c", TINY, path=tiny, NUMBA_CACHE_DIR=str(folder)) == "161 1"
    assert list(folder.glob(KERNELS))
    assert not (tiny / "memplace_env" / "__pycache__").exists()


def lock(*folders: Path) -> None:
    """Take the right to write from everybody, everywhere in these folders."""
    for folder in folders:
        for path in [folder, *folder.rglob("*")]:
            path.chmod(path.stat().st_mode & ~0o222)


@pytest.fixture
def places(tmp_path):
    """A home and a place for temporary files, outside the packages' folder; unlocked when the test is done."""
    made = {name: tmp_path.with_name(f"{tmp_path.name}-{name}") for name in ("home", "temporary")}
    for folder in made.values():
        folder.mkdir()
    yield made
    for folder in (*made.values(), tmp_path):
        for path in [folder, *folder.rglob("*")]:
            path.chmod(path.stat().st_mode | stat.S_IRWXU)
    for folder in made.values():
        shutil.rmtree(folder)


def confined(places: dict[str, Path]) -> str:
    """Python code that lets temporary files nowhere but there."""
    return f"import tempfile; tempfile.tempdir = {str(places['temporary'])!r}; "


@pytest.mark.usefixtures("unprivileged")
def test_where_code_is_kept_when_the_package_cannot_be_written(tiny, places):
    """In the user's cache folder, else in a private one for temporary files, else nowhere."""
    home, temporary = places["home"], places["temporary"]

    def run() -> str:
        return output("-c", confined(places) + TINY, path=tiny, unprivileged=True, HOME=str(home))

    lock(tiny)
    assert [run(), run()] == ["161 0", "161 1"]
    assert list(home.rglob(KERNELS))
    shutil.rmtree(home / ".cache")
    lock(home)
    assert [run(), run()] == ["161 0", "161 1"]
    (private,) = temporary.iterdir()
    assert (list(private.glob(KERNELS)), private.stat().st_mode & 0o777) != ([], 0o700)
    private.chmod(0o777)
    assert [run(), run()] == ["161 0", "161 0"], "machine code is not loaded from where anybody may put some"
    shutil.rmtree(private)
    lock(temporary)
    assert [run(), run()] == ["161 0", "161 0"]


GAME = """
import gymnasium as gym, memplace_env
env = gym.make("MallocGame-v0", workload="synthetic:diamond?ops=9&seed=1&accelerator=tpu-v4i")
env.reset(seed=0)
steps = [env.step(action) for action in (2, 1, 0, 1, 0, 1, 2, 1)]
print([step[4]["latency_s"] for step in steps], [step[4]["played"] for step in steps])
"""


@pytest.mark.usefixtures("unprivileged")
def test_a_read_only_installation_plays(tmp_path, places):
    """Play in another user's site-packages: no right to write there, nor in one's home, nor even for temporary files.

    That kernels are compiled there too is seen of the tiny package; here they run as Python. Its workloads are listed.
    """
    shutil.copytree(PACKAGE, tmp_path / "memplace_env", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(PACKAGE.parent / "agents", tmp_path / "agents", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(PACKAGE.parent / "memplace.py", tmp_path)
    lock(tmp_path, *places.values())
    said = output(
        "-c", confined(places) + GAME, path=tmp_path, unprivileged=True, HOME=str(places["home"]), NUMBA_DISABLE_JIT="1"
    )
    assert said.startswith("[")
    home = {"HOME": str(places["home"]), "TMPDIR": str(places["home"])}
    assert "ResNet50" in output("-m", "memplace", "workloads", path=tmp_path, unprivileged=True, **home)


def test_two_processes_that_save_at_once(tmp_path, monkeypatch):
    """Neither knows of the other: each code is still found under its own signature, and a damaged file is none."""
    from memplace_env._lib.kernel import _Files

    files = _Files(str(tmp_path), "function", "stamp")
    with monkeypatch.context() as together:
        together.setattr(files, "_load_index", dict)
        files.save(("int64",), "first")
        files.save(("float64",), "second")
    assert files.load(("int64",)) is None
    assert files.load(("float64",)) == "second"
    files.save(("int64",), "first")
    assert [files.load((kind,)) for kind in ("int64", "float64")] == ["first", "second"]
    for path in tmp_path.iterdir():
        path.write_bytes(path.read_bytes()[:-3])
    assert files.load(("int64",)) is None
    files.save(("int64",), "first")
    assert files.load(("int64",)) == "first"


def test_preparation_is_timed():
    """Compiling a kernel, with the kernels that it calls, counts once; running it does not count."""
    begin, before = time.perf_counter(), preparation_seconds()

    @kernel
    def called(value):
        return value + 1

    @kernel
    def calling(value):
        return called(value) * 2

    assert calling(1) == 4
    prepared = preparation_seconds() - before
    assert 0 < prepared <= time.perf_counter() - begin
    assert calling(2) == 6
    assert preparation_seconds() - before == prepared


def test_constants_in_calls_compile_one_callee():
    @kernel
    def scaled(value, factor):
        return value * factor if factor > 2 else value

    @kernel
    def total(value):
        return scaled(value, 2) + scaled(value, 3) + scaled(value, value)

    assert total(5) == 5 + 15 + 25
    for factor in (numba.types.literal(2), numba.types.literal(3), numba.types.int64):
        scaled.get_call_template((numba.types.int64, factor), {})
    assert len(scaled.signatures) == 1


class Screen(io.StringIO):
    """Standard error; a terminal or not."""

    def __init__(self, terminal):
        super().__init__()
        self.isatty = lambda: terminal


@pytest.mark.parametrize(("terminal", "aloud", "lines"), [(True, False, 1), (False, False, 0), (False, True, 1)])
def test_a_line_says_that_kernels_are_compiled(monkeypatch, terminal, aloud, lines):
    """Once in a process, to a terminal or from the command line, and not for what takes no time."""
    heard, fresh = [], compilation._Preparation()
    monkeypatch.setattr(compilation, "_preparation", fresh)
    monkeypatch.setattr(sys, "stderr", Screen(terminal))
    if aloud:
        compilation.say_when_compiling()

    def compile_one():
        fresh.begin(compiling=True)
        fresh.end(compiling=True)

    with announcing(heard.append):
        compile_one()
        assert sys.stderr.getvalue() == ""
        monkeypatch.setattr(compilation, "QUIET_S", -1.0)
        fresh.begin(compiling=False)  # machine code is loaded
        assert sys.stderr.getvalue() == ""
        compile_one()
        fresh.end(compiling=False)
        compile_one()
    compile_one()
    assert heard == [1, 2, 3]
    assert compilation.compiled_kernels() == 4
    assert sys.stderr.getvalue().count("compiling kernels") == sys.stderr.getvalue().count("\n") == lines
