"""GitHub's side of the repository: workflows run the scripts in `.ci` and may do nothing else."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from memplace_env._lib.version import __version__
from tests.offenders import every
from tests.source import ROOT

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
FORMS = [path for path in sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml")) if path.name != "config.yml"]
SUBMISSION = Path("benchmarks") / "submissions" / "quick-exact"


def commands(workflow):
    """Return the shell commands of all steps."""
    jobs = yaml.safe_load(workflow.read_text("utf-8"))["jobs"].values()
    return [step["run"] for job in jobs for step in job["steps"] if "run" in step]


@every("workflow", WORKFLOWS)
def test_workflows_only_read(workflow):
    text = workflow.read_text("utf-8")
    content = yaml.safe_load(text)
    assert content["permissions"] == {"contents": "read"}
    assert "secrets" not in text.split("jobs:")[1]
    assert "pull_request_target" not in text
    assert all("timeout-minutes" in job for job in content["jobs"].values())
    assert not any("${{ github" in command for command in commands(workflow)), "a branch's name could run"
    rights = {name: job["permissions"] for name, job in content["jobs"].items() if "permissions" in job}
    assert (rights == {}) == (workflow.stem != "release")


def test_only_a_tag_publishes_and_by_jobs_that_run_no_code_of_ours():
    content = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text("utf-8"))
    assert content[True] == {"push": {"tags": ["v*"]}}  # YAML 1.1 reads `on` as true
    jobs = content["jobs"]
    rights = {name: job["permissions"] for name, job in jobs.items() if "permissions" in job}
    assert rights == {"publish": {"id-token": "write"}, "pages": {"pages": "write", "id-token": "write"}}
    assert all(jobs[name]["environment"] and not any("run" in step for step in jobs[name]["steps"]) for name in rights)
    assert [jobs[name]["needs"] for name in ("try", "publish", "pages")] == ["build", "try", "publish"]
    tried = jobs["try"]["strategy"]["matrix"]["python"]
    assert [f"Programming Language :: Python :: {python}" in (ROOT / "setup.cfg").read_text() for python in tried] == [
        True
    ] * 4


def test_a_release_compares_its_tag_before_anything_is_installed(tmp_path):
    (tmp_path / "python").write_text(f'#!/bin/sh\nexec {sys.executable} -S -E "$@"\n')
    (tmp_path / "python").chmod(0o755)
    (command,) = (line for line in commands(ROOT / ".github" / "workflows" / "release.yml") if "$TAG" in line)
    for tag, code in ((f"v{__version__}", 0), ("v0.1.0", 1), ("v", 1)):
        bare = {"PATH": f"{tmp_path}:/usr/bin:/bin", "TAG": tag}
        assert subprocess.run(["bash", "-c", command], cwd=ROOT, env=bare).returncode == code


def test_workflows_run_what_is_here():
    tests, submission = (
        " ".join(commands(ROOT / ".github" / "workflows" / f"{name}.yml")) for name in ("tests", "submission")
    )
    assert ".ci/run" in tests
    assert "make ${{ matrix.target }}" in tests
    targets = (ROOT / ".github" / "workflows" / "tests.yml").read_text("utf-8")
    assert all(f"target: {name}," in targets for name in ("test-min", "test-max"))
    assert ".ci/replay" in submission


@every("form", FORMS)
def test_forms_have_what_github_asks_for(form):
    content = yaml.safe_load(form.read_text("utf-8"))
    assert {"name", "description", "body"} <= set(content)
    names = [part["id"] for part in content["body"]]
    assert len(names) == len(set(names)) > 2
    assert all(part["attributes"]["label"] for part in content["body"])


@pytest.fixture
def proposed(tmp_path):
    """A repository whose second commit has one submission more, and a function that replays since the first."""

    def git(*arguments):
        who = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", *who, *arguments], cwd=tmp_path, check=True, capture_output=True)

    def replay():
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        command = ["bash", str(ROOT / ".ci" / "replay"), "HEAD~1"]
        return subprocess.run(command, cwd=tmp_path, env={**os.environ, "PATH": path}, capture_output=True, text=True)

    git("init", "-q")
    git("commit", "-q", "--allow-empty", "-m", "first")
    shutil.copytree(ROOT / SUBMISSION, tmp_path / SUBMISSION)
    git("add", ".")
    git("commit", "-q", "-m", "second")
    return tmp_path, git, replay


def test_a_proposed_submission_is_replayed(proposed):
    folder, git, replay = proposed
    ended = replay()
    assert (ended.returncode, str(SUBMISSION) in ended.stdout) == (0, True), ended.stderr
    meta = folder / SUBMISSION / "submission.toml"
    meta.write_text(meta.read_text().replace("suite_sha256 = ", "suite_sha256 = 0 #"))
    git("commit", "-q", "--amend", "-a", "-m", "second")
    assert (refused := replay()).returncode == 1
    assert refused.stdout.startswith(f"refused: {SUBMISSION}")
    git("commit", "-q", "--allow-empty", "-m", "third")
    assert replay().stdout == "No submission is changed.\n"
