"""The page of plans in a real browser: pointer, keys and search, long and hostile names, narrow and dark."""

from __future__ import annotations

import re

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from memplace_env.report.plan_page.plans_page import plans_page
from memplace_env.report.plans.evaluated_plan import native_baseline
from tests.browser import NEEDS_CHROMIUM, browser, middle_of, ranges, tabs, wait_for_picture
from tests.report.test_plans_page import HOSTILE, hostile_page
from tests.subjects import plan_with_copies

__all__ = ["browser"]
pytestmark = NEEDS_CHROMIUM


@pytest.fixture
def visit(browser, tmp_path):
    """Opens the page of native's plan and one with copies, or another page, in a tab of its own."""
    task, evaluated = plan_with_copies()
    own = plans_page(task, [native_baseline(task), evaluated])
    with tabs(browser) as opened:

        def visited(html=own, **options):
            path = tmp_path / "plans.html"
            path.write_text(html, encoding="utf-8")
            page = opened(path.as_uri(), **options)
            wait_for_picture(page)
            return page

        yield visited


WIDTHS = """() => {
    const scene = Memplace.viewer.shown();
    const panel = scene.panels.find((each) => each.side.letter === "B" && each.kind === "level");
    return panel.blocks.map((block) => Memplace.picture.rectangle(scene, panel, block)[2]);
}"""


def test_the_axis_is_time_and_can_be_ops(visit):
    page = visit()
    task, evaluated = plan_with_copies()
    assert ranges(page) == [0, max(evaluated.report.latency_ps, native_baseline(task).report.latency_ps)]
    by_time = page.evaluate(WIDTHS)
    page.get_by_role("button", name="Ops", exact=True).click()
    assert ranges(page) == [0, 7]
    by_op = page.evaluate(WIDTHS)
    assert [round(width / by_op[0], 3) for width in by_op] == [1, 0.5, 0.5, 0.75, 0.5]
    begin = [0, *evaluated.op_ps.cumsum().tolist()]
    shares = [width / by_time[0] for width in by_time]
    stall = evaluated.report.stall_ps
    assert shares[3] == pytest.approx((begin[4] + stall[4] - begin[1] - stall[1]) / (begin[4] + stall[4]), abs=1e-3)


def test_the_pointer_finds_a_tensor_and_what_it_saves(visit):
    page = visit()
    page.mouse.move(*middle_of(page, "w3", side=1))
    tip = page.locator("#tip")
    kind, begin = "87.9 KiB in SRAM, weight, copied in", r"from op 1 layer\[1\] \(Gemm\)"
    for words in ("w3", kind, r"saves .* against DRAM", begin, "in B"):
        expect(tip).to_contain_text(re.compile(words))
    page.mouse.click(*middle_of(page, "w3", side=1))
    expect(page.locator(".said")).to_contain_text("w3 (87.9 KiB). A: ")
    expect(page.locator(".said")).to_contain_text("B: SRAM in ops 1 to 3; saves")
    page.mouse.move(2, 2)
    expect(tip).to_be_hidden()


def test_keys_alone_are_enough(visit):
    page = visit()
    search = page.get_by_label("Find a tensor")
    search.focus()
    page.keyboard.type("H0")
    expect(page.locator(".found button")).to_have_text("h0 68.4 KiB")
    page.keyboard.press("Enter")
    expect(page.locator(".said")).to_contain_text("B: SRAM in ops 0 to 3, SRAM in ops 4 to 5; saves")
    picture = page.locator("#picture")
    picture.focus()
    expect(picture).to_be_focused()
    page.keyboard.press("0")
    whole = ranges(page)
    page.keyboard.press("+")
    low, high = ranges(page)
    assert high - low == pytest.approx(whole[1] / 2, rel=1e-3)
    page.keyboard.press("ArrowLeft")
    assert ranges(page)[0] < low
    upward = "Memplace.viewer.shown().view.y.B0"
    page.keyboard.press("Shift++")
    tall = page.evaluate(upward)
    page.keyboard.press("ArrowUp")
    assert page.evaluate(upward)[0] > tall[0]
    page.keyboard.press("Escape")
    expect(page.locator(".said")).to_be_empty()


def test_wheel_and_drag(visit):
    page = visit()
    x, y = middle_of(page, "w3", side=1)
    page.mouse.move(x, y)
    page.mouse.wheel(0, 100)  # scrolls the page
    assert ranges(page)[0] == 0
    page.keyboard.down("Control")
    page.mouse.wheel(0, -120)
    page.keyboard.up("Control")
    page.wait_for_function("Memplace.viewer.shown().view.x[0] > 0")
    low, high = ranges(page)
    page.mouse.down()
    page.mouse.move(x - 50, y, steps=4)
    page.mouse.up()
    assert ranges(page)[0] > low
    assert ranges(page)[1] - ranges(page)[0] == pytest.approx(high - low, rel=1e-6)
    expect(page.locator(".said")).to_be_empty()  # a drag marks nothing


def test_one_plan_alone(visit):
    page = visit()
    page.get_by_label("Plan B").select_option("none")
    expect(page.locator("#plan-summary thead th")).to_have_count(1)
    assert page.evaluate("Memplace.viewer.shown().sides.length") == 1


def test_hostile_names_are_text(visit):
    page = visit(hostile_page())
    expect(page.locator("h1")).to_contain_text(HOSTILE[:40])
    page.get_by_label("Find a tensor").fill("onerror")
    expect(page.locator(".found button")).to_have_count(3)
    page.locator(".found button").nth(1).click()
    expect(page.locator(".said")).to_contain_text("<b>bold</b>")
    page.locator("#plan-blocks summary").click()
    assert page.locator("img, b").count() == 0


@pytest.mark.parametrize(("width", "scheme"), [(400, "dark"), (1400, "light")])
def test_it_can_be_read(visit, width, scheme):
    page = visit(width=width, color_scheme=scheme, has_touch=width == 400, is_mobile=width == 400)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.locator("#plan-blocks summary").click()
    found = Axe().run(page, options={"preload": False}).response["violations"]
    assert [each["id"] for each in found if each["impact"] in ("serious", "critical")] == []
    button = page.get_by_role("button", name="Use light colours" if scheme == "dark" else "Use dark colours")
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    button.click()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != background
