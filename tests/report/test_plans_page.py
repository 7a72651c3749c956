"""The page of plans in one file: what it says of plans, that foreign names stay text, and that it needs no network."""

from __future__ import annotations

import hashlib
import json
import re
from base64 import b64encode
from html import unescape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memplace_env.machine.accelerator import load_accelerator
from memplace_env.placement.resolve_task import make_task
from memplace_env.program.builder import ProgramBuilder
from memplace_env.program.program import TensorKind
from memplace_env.report.plan_page.plan_document import plan_document
from memplace_env.report.plan_page.plans_page import plans_page, script_json
from memplace_env.report.plans.evaluated_plan import all_backing_baseline, native_baseline
from tests.source import ROOT
from tests.subjects import DRAM, SRAM, copied_slices, plan_with_copies, sliced_layers

HOSTILE = "</script><img src=x onerror=alert(1)>&amp;<b>bold</b> SCRIPTS DATA"
STATIC = [
    path
    for folder in (
        "benchmarks/memplace_leaderboard/page/static",
        "memplace_env/report/plan_page/static",
        "memplace_env/report/plan_page/one_file",
    )
    for path in (ROOT / folder).iterdir()
]


def hostile_page():
    """The page of a program whose tensors, ops and plan are called like commands."""
    builder = ProgramBuilder(HOSTILE, "int8")
    x, h, y = (
        builder.tensor(f"{name} {HOSTILE}", 1000, kind)
        for name, kind in (("x", TensorKind.INPUT), ("h", TensorKind.ACTIVATION), ("y", TensorKind.OUTPUT))
    )
    builder.op("Relu", [x], [h], vector_ops=1000, name=HOSTILE)
    builder.op("Relu", [h], [y], vector_ops=1000, name=HOSTILE)
    task = make_task(builder.build(), load_accelerator("nnp-i"), costs="roofline")
    return plans_page(task, [native_baseline(task)._replace(name=HOSTILE), all_backing_baseline(task)])


def scripts_of(page):
    """The page's data, and its script."""
    data, script = re.findall(r"<script[^>]*>(.*?)</script>", page, re.DOTALL)
    return json.loads(data), script


@given(st.text())
def test_any_text_is_safe_within_a_script(text):
    written = script_json({"name": text})
    assert written.isascii()
    assert not set("<>&") & set(written)
    assert json.loads(written) == {"name": text}


def test_foreign_names_are_data_and_nothing_else():
    page = hostile_page()
    assert "onerror" in page
    assert "<img" not in page
    data, script = scripts_of(page)  # no more than these two, and the data is whole
    assert data["document"]["ops"] == [HOSTILE] * 2
    assert data["plans"][0]["name"] == HOSTILE
    assert "</script" not in script


def test_only_its_own_script_may_run():
    page = hostile_page()
    digest = b64encode(hashlib.sha256(scripts_of(page)[1].encode()).digest()).decode()
    policy = unescape(re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1])
    assert policy == (f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; img-src data:")
    assert re.findall(r'(?:src|href)="([^"]*)"', page) == ["data:,", "#main"]


def test_same_plans_same_page():
    task, evaluated = plan_with_copies()
    pages = [plans_page(task, plans) for plans in ([evaluated], [evaluated], [evaluated, native_baseline(task)])]
    assert pages[0] == pages[1] != pages[2]
    assert [scripts_of(page)[0]["shown"] for page in pages[1:]] == [[0, "none"], [0, 1]]


@pytest.mark.parametrize("path", STATIC, ids=lambda path: path.name)
def test_files_put_foreign_text_into_pages_as_text_and_ask_no_network(path):
    text = path.read_text(encoding="utf-8")
    assert re.findall(r"\.(?:innerHTML|outerHTML|insertAdjacentHTML)\b|document\.write|\beval\(", text) == []
    addresses = re.findall(r"(?:https?:)?//[\w.-]+\.\w+[^\s\"']*", text)
    assert [each for each in addresses if "www.w3.org/2000/svg" not in each] == []
    assert len(text.splitlines()) < 300


def test_blocks_save_what_their_ops_save():
    """Against all in backing memory; what uses without a block do is not a block's."""
    task, evaluated = plan_with_copies()
    backing = all_backing_baseline(task)
    blocks = plan_document(task, backing, [evaluated])["plans"][evaluated.plan.key]["blocks"]
    saved = backing.report.op_time_ps - evaluated.report.op_time_ps
    assert sum(blocks["saved_ps"]) == pytest.approx(int(saved.sum()), abs=len(blocks["saved_ps"]))
    names = [task.program.tensor_name[tensor] for tensor in blocks["tensor"]]
    worth = dict(zip(reversed(names), reversed(blocks["saved_ps"]), strict=True))  # of each tensor's first block
    assert worth["w2"] == pytest.approx(saved[2], abs=1)
    assert worth["w3"] == pytest.approx(saved[3], abs=1)
    assert worth["h0"] == pytest.approx(saved[:2].sum(), abs=1)


def test_a_plans_document_says_what_the_plan_and_its_report_say():
    task, evaluated = plan_with_copies()
    backing = all_backing_baseline(task)
    document = plan_document(task, backing, [evaluated, backing, evaluated])
    assert set(document["plans"]) == {evaluated.plan.key, backing.plan.key}
    drawn = document["plans"][evaluated.plan.key]
    columns = ("tensor", "level", "offset", "start", "end")
    assert [list(row) for row in zip(*(drawn["blocks"][name] for name in columns), strict=True)] == (
        evaluated.plan.allocations.tolist()
    )
    assert sum(drawn["op_ps"]) + drawn["tail_ps"] == evaluated.report.latency_ps
    assert drawn["stall_ps"] == evaluated.report.stall_ps.tolist()
    assert len(drawn["copies"]["tensor"]) == len(evaluated.plan.transfers)
    assert document["plans"][backing.plan.key]["blocks"]["tensor"] == []
    assert drawn["blocks"]["bytes"] == task.program.tensor_bytes[evaluated.plan.allocations[:, 0]].tolist()
    assert set(drawn["blocks"]["part"]) == {""}
    for copy, tensor in enumerate(drawn["copies"]["tensor"]):
        block = max(drawn["copies"]["into"][copy], drawn["copies"]["out_of"][copy])
        assert drawn["blocks"]["tensor"][block] == tensor
    assert json.loads(script_json(document)) == document


def test_slices_of_a_tensor_are_that_tensor_on_the_page():
    task, evaluated = sliced_layers()
    document = plan_document(task, all_backing_baseline(task), [evaluated])
    blocks = document["plans"][evaluated.plan.key]["blocks"]
    names = [document["tensors"][tensor] for tensor in blocks["tensor"]]
    assert list(zip(names, blocks["part"], blocks["bytes"], strict=True)) == [
        ("layer.0.weight", "slices 1 to 3 of 6, 50 %", 2**20),
        ("layer.0.result", "slices 1 to 6 of 8, 75 %", 9 * 2**18),
        ("layer.2.result", "slices 1 to 3 of 8, 38 %", 9 * 2**17),
    ]
    assert json.loads(script_json(document)) == document


def test_copies_of_slices_into_one_block_are_one_on_the_page():
    task, evaluated = copied_slices()
    document = plan_document(task, all_backing_baseline(task), [evaluated])
    drawn = document["plans"][evaluated.plan.key]
    weight = document["tensors"].index("layer.1.weight")
    assert (drawn["blocks"]["tensor"], drawn["blocks"]["part"]) == ([weight], ["slices 1 to 3 of 6, 50 %"])
    assert drawn["copies"] == {
        **{"tensor": [weight], "source": [DRAM], "target": [SRAM], "start": [0], "end": [0]},
        **{"into": [0], "out_of": [-1]},
    }
