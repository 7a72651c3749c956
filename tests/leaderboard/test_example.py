"""The agent of examples/own_agent.py goes through all that a third party would do with it."""

import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from memplace_env.cli.app import app
from tests.source import ROOT

CODE = (ROOT / "examples" / "own_agent.py").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with the example in it."""
    folder = tmp_path_factory.mktemp("third party")
    (folder / "climber.py").write_text(CODE)
    return folder


def memplace(place, *arguments, code=0):
    run = subprocess.run(
        [sys.executable, "-m", "memplace", *arguments], cwd=place, capture_output=True, text=True, check=False
    )
    assert run.returncode == code, run.stderr
    return run


@pytest.mark.slow
def test_the_example_from_run_to_page(place):
    options = "--budget", "100", "--option", "changes=3"
    memplace(place, "leaderboard", "run", "climber:Climber", *options, "--out", "it's mine")
    again = "leaderboard", "rerun", "it's mine", "--record", "reruns.jsonl", "--json"
    (unknown,) = json.loads(memplace(place, *again, code=1).stdout)
    assert "names code of its own" in unknown["error"]
    (result,) = json.loads(memplace(place, "leaderboard", "verify", "it's mine", "--json").stdout)
    assert result == {"folder": "it's mine", "ok": True, "plans": 4 * 5, "error": None}
    rows = json.loads(memplace(place, "leaderboard", "table", "it's mine", "--json").stdout)["rows"]
    (own,) = [row for row in rows if row["submission"] == "climber" and row["budget"] == "100"]
    assert own["standing"] == "declared"
    assert own["share"] > 0
    memplace(place, "leaderboard", "page", "it's mine", "--out", "site")
    assert (place / "site" / "index.html").is_file()


@pytest.mark.thorough
def test_the_example_is_run_again(place):
    options = "--budget", "100", "--option", "changes=3"
    memplace(place, "leaderboard", "run", "climber:Climber", *options, "--out", "it's again")
    rerun = "leaderboard", "rerun", "it's again", "--record", "reruns.jsonl", "--budget", "100"
    memplace(place, *rerun, "--agent", "climber:Climber")
    table = memplace(place, "leaderboard", "table", "it's again", "--all", "--reruns", "reruns.jsonl").stdout
    assert "| ✓ **climber** (yours) |" in table


def test_an_agent_that_breaks_its_contract_is_refused_at_once(place):
    """Its seeds are those of a counter, so that both searches that are compared differ, by no chance."""
    code = CODE.replace("best[None]).latency_s[0]", "best[None]).latency_s[0] + rng.random()")
    code = code.replace("np.random.default_rng(seed)", "np.random.default_rng(next(CALLS))")
    (place / "endless.py").write_text(code + "\n\nimport itertools\n\nCALLS = itertools.count()\n")
    refused = memplace(place, "leaderboard", "run", "endless:Climber", "--out", "endless", code=2)
    assert "another plan with the same seed" in refused.stderr
    assert not (place / "endless").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nobody", "--out", "x"], "No agent is called 'nobody'"),
        (["climber:Nobody", "--out", "x"], "cannot be loaded"),
        (["nowhere:Climber", "--out", "x"], "cannot be loaded"),
        (["local-search", "--suite", "slow-v1", "--out", "x"], "There is no suite 'slow-v1'"),
        (["local-search", "--track", "race", "--out", "x"], "has no track 'race'"),
        (["local-search", "--budget", "11", "--out", "x"], "has no budget '11'"),
        (["local-search", "--budget", "ten", "--out", "x"], "'ten'"),
        (["local-search", "--option", "depth=3", "--out", "x"], "cannot be made"),
        (["local-search", "--option", "depth", "--out", "x"], "NAME=VALUE"),
        (["local-search", "--nominal", "--out", "x"], "black-box"),
        (["local-search", "--trained-on", "x", "--out", "x"], "--training-plans"),
        (["local-search", "--out", "climber.py"], "is not a folder"),
    ],
)
def test_what_makes_no_sense_is_said_at_once(place, arguments, said, monkeypatch):
    monkeypatch.chdir(place)
    monkeypatch.setattr(sys, "path", [*sys.path])
    refused = CliRunner().invoke(app, ["leaderboard", "run", *arguments])
    assert refused.exit_code == 2
    assert said in refused.stderr
    assert len(refused.stderr.splitlines()) == 1
    assert not (place / "x").exists()
