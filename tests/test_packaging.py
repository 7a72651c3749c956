"""Packages: all files are in the source distribution, and metadata are right away from the repository."""

import os
import re
import subprocess
import sys
from email.parser import Parser
from importlib.metadata import PackageNotFoundError, distribution

import pytest
from setuptools.command.egg_info import FileList

from memplace_env._lib.version import __version__
from tests.source import PACKAGES, ROOT
from tests.test_documents import LINK

ADDED = {"MANIFEST.in", "memplace.py", "pyproject.toml", "setup.cfg", "setup.py"}
"""Files that setuptools adds by itself."""


@pytest.fixture(scope="module")
def metadata(tmp_path_factory):
    """The package's metadata as an index of packages reads them."""
    folder = tmp_path_factory.mktemp("metadata")
    command = [sys.executable, "setup.py", "--quiet", "egg_info", "--egg-base", folder]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return Parser().parsestr((folder / "memplace.egg-info" / "PKG-INFO").read_text("utf-8"))


def test_links_of_the_description_are_absolute(metadata):
    links = [target for target, _ in LINK.findall(metadata.get_payload())]
    assert [link for link in links if not link.startswith("https://")] == []
    ours = [path for link in links if (path := link.partition("/memplace/memplace/")[2])]
    assert len(ours) > 20
    assert [path for path in ours if not (ROOT / re.sub("^(blob/)?main/", "", path)).exists()] == []


def test_the_metadata_are_whole(metadata):
    assert metadata["Version"] == __version__
    named = {value.rpartition(" ")[2] for value in metadata.get_all("Classifier") if "Python :: 3." in value}
    assert named == {"3.11", "3.12", "3.13", "3.14"}
    assert {"agents", "viz"} <= set(metadata.get_all("Provides-Extra"))


def test_the_source_distribution_is_whole(monkeypatch):
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("not a git repository")
    monkeypatch.chdir(ROOT)
    packed = FileList()
    for line in (ROOT / "MANIFEST.in").read_text("utf-8").splitlines():
        packed.process_template_line(line)
    tracked = {name for name in listed.stdout.splitlines() if os.path.exists(name)}
    assert tracked - set(packed.files) - ADDED == {".gitignore"}
    assert [name for name in packed.files if name.endswith((".pyc", ".nbi", ".nbc"))] == []


def test_the_wheel_has_all_data(tmp_path):
    """Every file of the three packages is in it, but for pages that people read in the repository."""
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if tracked.returncode:
        pytest.skip("not a git repository")
    command = [sys.executable, "setup.py", "--quiet", "egg_info", "--egg-base", tmp_path, "build_py", "-d", tmp_path]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    built = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    homes = {str(folder.relative_to(ROOT)): package for package, folder in PACKAGES.items()}
    files = {
        name.replace(home, package, 1)
        for name in tracked.stdout.splitlines()
        for home, package in homes.items()
        if name.startswith(f"{home}/") and (ROOT / name).exists()
    }
    assert {name for name in files - built if not name.endswith("README.md")} == set()


def test_the_citation_has_the_version():
    assert f"version: {__version__}\n" in (ROOT / "CITATION.cff").read_text("utf-8")


BARE = "numpy", "numba", "gymnasium", "onnx"
PLAYED = """
import memplace, memplace_env, memplace_agents
import gymnasium as gym
for env_id in ("MemPlace-BERT-v0", "MallocGame-Tiny-v0", "MemPlaceSteps-Tiny-v0"):
    env = gym.make(env_id)
    env.reset(seed=0)
    env.step(env.action_space.sample())
gym.make_vec("MemPlace-BERT-v0", num_envs=2).reset(seed=0)
print(memplace_agents.make_agent("local-search").solve(gym.make("MemPlace-Tiny-v0"), budget=1).plan is not None)
for needs in (lambda: memplace_agents.EGRL, lambda: memplace_agents.make_agent("exact"), memplace.main):
    try:
        needs()
    except (ImportError, memplace_env.MemPlaceError, SystemExit) as error:
        print(error)
"""


@pytest.fixture
def bare(tmp_path):
    """A folder with links to what pip installs for the four packages, and to nothing else."""
    names, seen = list(BARE), set()
    while names:
        try:
            package = distribution(names.pop())
        except PackageNotFoundError:  # an older Python needs it
            continue
        if package.name in seen:
            continue
        seen.add(package.name)
        names += [re.match(r"[\w.-]+", line)[0] for line in package.requires or () if "extra ==" not in line]
        for top in {file.parts[0] for file in package.files} - {"..", "__pycache__"}:
            if not (tmp_path / top).exists():
                (tmp_path / top).symlink_to(package.locate_file(top))
    return tmp_path


def test_four_packages_make_every_environment_play(bare):
    path = os.pathsep.join(map(str, (bare, *dict.fromkeys(folder.parent for folder in PACKAGES.values()))))
    run = subprocess.run(
        [sys.executable, "-S", "-c", PLAYED], env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True
    )
    assert run.stdout.splitlines() == [
        "True",
        'EGRL needs torch, which is not installed; run: pip install "memplace[agents]".',
        "exact needs highspy, which is not installed; run: pip install memplace.",
        "memplace: the command line needs typer, which is not installed; run: pip install memplace.",
    ], run.stderr
