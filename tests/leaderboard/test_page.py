"""The page's files: the same data gives the same bytes, hostile text stays text, and a folder is whole or untouched."""

import re
from dataclasses import replace

import pytest

from memplace_env._lib.errors import LeaderboardError, VisualizationError
from memplace_leaderboard import free_rules
from memplace_leaderboard.board import Board
from memplace_leaderboard.page.data import PageData
from memplace_leaderboard.page.site import build_page
from memplace_leaderboard.verifying import read
from tests.source import ROOT

STATIC = ROOT / "benchmarks" / "memplace_leaderboard" / "page" / "static"
SHARED = ROOT / "memplace_env" / "report" / "plan_page" / "static"


def page(**changes):
    empty = PageData(
        title="a title", versions={"memplace": "1"}, suites=[], submissions=[], rows=[], cells={}, curves={}
    )
    return replace(empty, **changes)


def contents(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_hostile_names_reach_the_files_escaped(tmp_path):
    name = "</script><script>alert(1)</script>\u2028"
    build_page(tmp_path / "site", page(title=name, plans=[("An-id-v0", {"ops": [name]})]))
    for file in ("data.js", "plans/An-id-v0.js"):
        text = (tmp_path / "site" / file).read_text(encoding="utf-8")
        assert "<" not in text
        assert "\u2028" not in text
        assert r"\u003c/script\u003e" in text


def test_same_data_same_bytes(tmp_path):
    plans = [("An-id-v0", {"ops": ["a"]})]
    build_page(tmp_path / "one", page(plans=plans))
    build_page(tmp_path / "two", page(plans=plans))
    assert contents(tmp_path / "one") == contents(tmp_path / "two")
    assert {"index.html", "data.js", "plotly.min.js", "page.css", "picture.js", "plans/An-id-v0.js"} <= set(
        contents(tmp_path / "one")
    )


def test_the_same_folders_have_the_same_page(honest, tmp_path):
    """Rules are played anew for each."""
    for name in ("one", "two"):
        free_rules._played.cache_clear()
        Board.of([read(honest)]).write_page(tmp_path / name, "a title", plan_seeds=1)
    assert contents(tmp_path / "one") == contents(tmp_path / "two")


def test_an_older_page_is_replaced_whole(tmp_path):
    build_page(tmp_path / "site", page(plans=[("Old-v0", {})]))
    build_page(tmp_path / "site", page(title="newer"))
    assert not (tmp_path / "site" / "plans" / "Old-v0.js").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["site"]


def test_a_failure_leaves_the_older_page_as_it_was(tmp_path):
    def plans():
        yield "An-id-v0", {}
        raise KeyboardInterrupt

    build_page(tmp_path / "site", page())
    before = contents(tmp_path / "site")
    with pytest.raises(KeyboardInterrupt):
        build_page(tmp_path / "site", page(title="never", plans=plans()))
    assert contents(tmp_path / "site") == before
    assert [path.name for path in tmp_path.iterdir()] == ["site"]


def test_a_folder_that_is_not_ours_is_refused_and_kept(tmp_path):
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(LeaderboardError, match=r"holds files that are not a page of ours; pass an empty or new folder"):
        build_page(tmp_path, page())
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]
    with pytest.raises(LeaderboardError, match=r"is not a folder; pass another one"):
        build_page(tmp_path / "thesis.txt", page())


def test_an_empty_folder_is_taken(tmp_path):
    assert build_page(tmp_path / "new" / "site", page()).is_file()
    (tmp_path / "empty").mkdir()
    assert build_page(tmp_path / "empty", page()).is_file()


@pytest.mark.parametrize("env_id", ["../../out", "a/b", ".hidden", "", "a b", "x\n"])
def test_ids_that_would_leave_the_folder_are_refused(tmp_path, env_id):
    with pytest.raises(LeaderboardError, match=r"cannot be the name of a file"):
        build_page(tmp_path / "site", page(plans=[(env_id, {})]))
    assert list(tmp_path.iterdir()) == []


def test_what_is_no_json_is_refused_in_a_sentence(tmp_path):
    with pytest.raises(VisualizationError, match=r"The page's data is not plain JSON: .*\.$"):
        build_page(tmp_path / "site", page(rows=[{"iqm": float("nan")}]))


def test_every_script_is_named_in_the_page_and_none_is_long():
    named = set(re.findall(r'(?:src|href)="([\w.]+\.(?:js|css))"', (STATIC / "index.html").read_text(encoding="utf-8")))
    files = [*STATIC.iterdir(), *SHARED.iterdir()]
    assert named == {path.name for path in files if path.suffix in (".js", ".css")} | {"data.js", "plotly.min.js"}
    assert max(len(path.read_text(encoding="utf-8").splitlines()) for path in files) < 300
