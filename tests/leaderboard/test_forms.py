"""Texts of a submission have a form, and what verify would refuse is refused before a run."""

import pytest

from memplace_env._lib.errors import LeaderboardError
from memplace_leaderboard import running
from memplace_leaderboard.folder import META
from tests.leaderboard.tampering import SUITE, refused


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name = ", "not TOML"),
        ("x = " + "[" * 5000, "not TOML"),
        ('colour = "red"', "no field 'colour'"),
        ('name = "a\\nb"', "letters, digits"),
        ('name = "  "', "letters, digits"),
        ('link = "javascript:alert(1)"', "https://"),
        ('formulations = ["dynamic"]', "formulations"),
        ('budgets = ["10", "10"]', "twice"),
        ('deterministic = "yes"', "true or false"),
        ('link = "https://a b"', "an address without spaces"),
        (f'link = "https://{"a" * 200}"', "an address without spaces"),
        ('licence = "<b>"', "letters, digits and signs"),
        (f'licence = "{"a" * 61}"', "at most 60"),
        ('made = "soon"', "a day, as 2026-01-31"),
        ('memplace = "1.0 or so"', "a version, as 1.0.0"),
        ('suite_sha256 = "x"', "64 hexadecimal digits"),
        ('authors = ["a\u200bb"]', "one line of at most"),
        (f'authors = ["{"a" * 201}"]', "one line of at most"),
        (f"authors = {[str(n) for n in range(201)]}", "a list of texts"),
        (f"options = {{a = {list(range(201))}}}", "options.a must be a text, a number"),
        ("hardware = {" + ", ".join(f"a{n} = 1" for n in range(201)) + "}", "at most 200 items"),
        ('agent = "x"', "'name' is missing"),
        ("options = {a = {b = 1}}", "options.a must be a text, a number"),
        ("hardware = {cpu = 0x" + "f" * 9999 + "}", "hardware.cpu must be a text, a number"),
        ('hardware = {"\\u001b" = 1}', "a key of hardware must be one line"),
        ("seeds = [0x" + "f" * 9999 + "]", "seeds must be a list of whole numbers from 0"),
        ("x = " + "1" * 5000, "too many digits"),
        ('training = {ids = ["a"]}', "must have ids, plans and seconds"),
    ],
)
def test_descriptions_that_are_none(folder, text, said):
    (folder / META).write_text(text)
    refused(folder, META, said)


def test_an_agent_that_no_instance_poses_is_refused(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "stepper.py").write_text(
        "from memplace_agents import PolicyAgent\n\n"
        "class Best(PolicyAgent):\n    name, formulations = 'best', ('steps',)\n\n"
        "    def __init__(self):\n        super().__init__(lambda seen, masks: masks.argmax(1))\n"
    )
    with pytest.raises(LeaderboardError, match=r"plays steps, of which .* has nothing; suites have one-shot and game"):
        running.describe(SUITE, SUITE.track("search"), "stepper:Best", {}, ["10"])


@pytest.mark.parametrize("fields", [{"link": "x"}, {"authors": ("a\nb",)}, {"licence": "x" * 99}, {"name": "a|b"}])
def test_texts_that_verify_refuses_are_refused_before_hours_are_spent(fields):
    with pytest.raises(LeaderboardError, match=f"{next(iter(fields))} must be"):
        running.describe(SUITE, SUITE.track("search"), "local-search", {}, ["10"], **fields)
