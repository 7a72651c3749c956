"""`memplace prove`."""

import json
import re
import sys

import pytest

from memplace_agents.exact import scip
from tests.cli.conftest import MODEL

OPTIMUM = ("prove", MODEL, "--second-opinion")


@pytest.fixture(scope="module", autouse=True)
def installed():
    pytest.importorskip("pyscipopt")


def test_it_says_what_is_proven_and_by_whom(run):
    result = run(*OPTIMUM)
    assert result.exit_code == 0, result.stderr
    plan, bound, second = result.stdout.splitlines()
    assert ", proven optimal, at most " in plan
    assert bound.startswith(
        "The bound is of plans with the ops in the order of the file, whole tensors, one level a tensor"
    )
    assert bound.endswith("by weak duality.") or "branch and bound of HiGHS" in bound
    spent = (
        re.escape(f"{scip.solver_name()} finds no plan faster by more than 0.01 %") + r" \(\d+ nodes?, \d+\.\d s\)\."
    )
    assert re.fullmatch(spent, second)


def test_json(parsed):
    found = parsed(*OPTIMUM, "--formulation", "game", "--accelerator", "edge-tpu")
    assert found["outcome"] == "optimal"
    assert found["problem"] == ["the ops in the order of the file", "whole tensors", "moving tensors"]
    assert found["second_opinion"]["answer"] == "no"
    assert found["second_opinion"]["latency_ps"] == round(found["report"]["latency_s"] * 1e12)
    assert found["faster_plan"] is None
    alone = parsed("prove", MODEL, "--formulation", "dynamic")
    assert alone["second_opinion"] is None
    assert alone.keys() == found.keys()


def test_a_slow_plan_is_answered_with_a_faster_one(run, parsed, saved, tmp_path):
    result = run(*OPTIMUM, "--plan", saved, "--json")
    assert result.exit_code == 1
    found = json.loads(result.stdout)
    assert (found["outcome"], found["second_opinion"]["answer"]) == ("feasible", "yes")
    assert not found["proof"]["checked"]
    assert found["backing_port_s"] is None
    assert found["report"] == parsed("simulate", MODEL, saved)["report"]
    faster = parsed("simulate", MODEL, found["faster_plan"])["report"]["latency_s"]
    assert round(faster * 1e12) == found["second_opinion"]["faster_ps"] < found["second_opinion"]["latency_ps"]
    assert faster >= found["bound_s"]
    assert (tmp_path / found["faster_plan"]).name == "plan.json"
    again = run(*OPTIMUM, "--plan", saved)
    assert " finds a plan of " in again.stdout
    assert f"Written: {found['faster_plan']}" in again.stderr


def test_a_plan_of_another_kind_is_refused(run):
    model = ("synthetic:random?ops=9&seed=1", "--accelerator", "tpu-v4i")
    moving = ("--formulation", "dynamic")
    assert run("solve", *model, *moving, "--out", "o").exit_code == 0
    result = run("prove", *model, "--plan", "o/plan.json")
    assert result.exit_code == 2
    assert "o/plan.json is faster than plans can be that move no tensors; pass --formulation dynamic" in result.stderr
    assert ", proven optimal, " in run("prove", *model, *moving, "--plan", "o/plan.json").stdout


def test_an_id_is_the_environment(parsed):
    found = parsed("prove", "MallocGame-Tiny-v0", "--second-opinion")
    assert (found["outcome"], found["problem"][-1]) == ("optimal", "moving tensors")
    assert found["second_opinion"]["answer"] == "no"


@pytest.mark.parametrize("arguments", [("--formulation", "steps"), ("--time-limit", "-1")])
def test_bad_input(run, arguments):
    result = run(*OPTIMUM, *arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert len(result.stderr.strip().splitlines()) == 1


def test_without_the_extra(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyscipopt", None)
    result = run(*OPTIMUM)
    assert result.exit_code == 2
    assert (
        result.stderr
        == 'memplace: A second opinion needs SCIP, which is not installed; run: pip install "memplace[audit]".\n'
    )
    assert run("prove", MODEL).exit_code == 0
