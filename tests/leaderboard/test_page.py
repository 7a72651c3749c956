"""The page's files: the same data gives the same bytes, hostile text stays text, and a folder is whole or untouched."""

import json
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memplace_env._lib.errors import LeaderboardError
from memplace_env.leaderboard.page import PageData, build_page
from memplace_env.leaderboard.page.content import script_json
from memplace_env.leaderboard.page.page_plans import plan_document, plan_key
from memplace_env.placement.compiler import all_backing
from tests.source import ROOT
from tests.subjects import DRAM, SRAM, copied_slices, plan_with_copies, sliced_layers

STATIC = ROOT / "memplace_env" / "leaderboard" / "page" / "static"


def page(**changes):
    empty = PageData(
        title="a title", versions={"memplace": "1"}, suites=[], submissions=[], rows=[], cells={}, curves={}, kinds=[]
    )
    return replace(empty, **changes)


def contents(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@given(st.text())
def test_any_text_is_safe_within_a_script(text):
    written = script_json({"name": text})
    assert written.isascii()
    assert not set("<>&") & set(written)
    assert json.loads(written) == {"name": text}


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
    assert {"index.html", "data.js", "plotly.min.js", "page.css", "plans/An-id-v0.js"} <= set(
        contents(tmp_path / "one")
    )


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
    with pytest.raises(LeaderboardError, match=r"The page's data is not plain JSON: .*\.$"):
        build_page(tmp_path / "site", page(rows=[{"iqm": float("nan")}]))


def test_scripts_put_foreign_text_into_the_page_as_text_only():
    for path in STATIC.glob("*.js"):
        said = re.findall(r"\.(?:innerHTML|outerHTML|insertAdjacentHTML)\b|document\.write|\beval\(", path.read_text())
        assert said == [], path.name


def test_nothing_is_asked_of_a_network():
    for path in STATIC.iterdir():
        addresses = re.findall(r"(?:https?:)?//[\w.-]+\.\w+[^\s\"']*", path.read_text(encoding="utf-8"))
        assert [each for each in addresses if "www.w3.org/2000/svg" not in each] == [], path.name


def test_every_script_is_named_in_the_page_and_none_is_long():
    named = set(re.findall(r'(?:src|href)="([\w.]+\.(?:js|css))"', (STATIC / "index.html").read_text(encoding="utf-8")))
    present = {path.name for path in STATIC.iterdir() if path.suffix in (".js", ".css")}
    assert named == present | {"data.js", "plotly.min.js"}
    assert max(len(path.read_text(encoding="utf-8").splitlines()) for path in STATIC.iterdir()) < 300


def test_a_plans_document_says_what_the_plan_and_its_report_say():
    task, evaluated = plan_with_copies()
    backing = all_backing(task)
    document = plan_document(task, [evaluated.plan, backing, evaluated.plan])
    assert set(document["plans"]) == {plan_key(evaluated.plan), plan_key(backing)}
    drawn = document["plans"][plan_key(evaluated.plan)]
    columns = ("tensor", "level", "offset", "start", "end")
    assert [list(row) for row in zip(*(drawn["blocks"][name] for name in columns), strict=True)] == (
        evaluated.plan.allocations.tolist()
    )
    assert sum(drawn["op_ps"]) + drawn["tail_ps"] == evaluated.report.latency_ps
    assert drawn["stall_ps"] == evaluated.report.stall_ps.sum() > 0
    assert len(drawn["copies"]["tensor"]) == len(evaluated.plan.transfers)
    assert document["plans"][plan_key(backing)]["blocks"]["tensor"] == []
    assert drawn["blocks"]["bytes"] == task.program.tensor_bytes[evaluated.plan.allocations[:, 0]].tolist()
    assert set(drawn["blocks"]["part"]) == {""}
    for copy, tensor in enumerate(drawn["copies"]["tensor"]):
        block = max(drawn["copies"]["into"][copy], drawn["copies"]["out_of"][copy])
        assert drawn["blocks"]["tensor"][block] == tensor
    assert json.loads(script_json(document)) == document


def test_slices_of_a_tensor_are_that_tensor_on_the_page():
    task, evaluated = sliced_layers()
    document = plan_document(task, [evaluated.plan])
    blocks = document["plans"][plan_key(evaluated.plan)]["blocks"]
    names = [document["tensors"][tensor] for tensor in blocks["tensor"]]
    assert list(zip(names, blocks["part"], blocks["bytes"], strict=True)) == [
        ("layer.0.weight", "slices 1 to 3 of 6, 50 %", 2**20),
        ("layer.0.result", "slices 1 to 6 of 8, 75 %", 9 * 2**18),
        ("layer.2.result", "slices 1 to 3 of 8, 38 %", 9 * 2**17),
    ]
    assert json.loads(script_json(document)) == document


def test_copies_of_slices_into_one_block_are_one_on_the_page():
    task, evaluated = copied_slices()
    document = plan_document(task, [evaluated.plan])
    drawn = document["plans"][plan_key(evaluated.plan)]
    weight = document["tensors"].index("layer.1.weight")
    assert (drawn["blocks"]["tensor"], drawn["blocks"]["part"]) == ([weight], ["slices 1 to 3 of 6, 50 %"])
    assert drawn["copies"] == {
        **{"tensor": [weight], "source": [DRAM], "target": [SRAM], "start": [0], "end": [0]},
        **{"into": [0], "out_of": [-1]},
    }
