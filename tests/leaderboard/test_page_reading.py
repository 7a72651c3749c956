"""The page in a real browser can be read: on a phone, in the dark, and by those who do not see it."""

import re

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from tests.browser import NEEDS_CHROMIUM
from tests.leaderboard.boards import IDS
from tests.leaderboard.conftest import PLAN, picture

pytestmark = NEEDS_CHROMIUM
VIEWS = ("#view=standings", "#view=curves", "#view=instances", PLAN)


@pytest.mark.parametrize("part", VIEWS)
def test_a_phone_scrolls_tables_and_not_the_page(visit, part):
    page = visit(part, width=400, has_touch=True, is_mobile=True)
    if part == PLAN:
        picture(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    sizes = page.evaluate(
        """() => [...document.querySelectorAll("body, main p, td, th, footer p, label")]
            .filter((each) => each.offsetParent).map((each) => parseFloat(getComputedStyle(each).fontSize))"""
    )
    assert min(sizes) >= 14


def test_a_wide_table_scrolls_in_its_frame_with_its_first_column_fixed(visit):
    page = visit("#budget=all", width=400)
    frame = page.locator("#standings-table .scroll")
    assert frame.evaluate("each => each.scrollWidth > each.clientWidth")
    first = page.locator("#standings-table tbody th").first
    before = first.bounding_box()["x"]
    frame.evaluate("each => { each.scrollLeft = 200; }")
    assert first.bounding_box()["x"] == pytest.approx(before, abs=1)


def test_dark_follows_the_system_and_the_button(visit):
    background = "getComputedStyle(document.body).backgroundColor"
    page = visit("#view=curves", color_scheme="dark")
    dark = page.evaluate(background)
    assert max(map(int, re.findall(r"\d+", dark))) < 60
    ink = "document.getElementById('profile').layout.font.color"
    assert page.evaluate(ink) == "#e8ebef"
    page.get_by_role("button", name="Use light colours").click()
    assert page.evaluate(background) == "rgb(255, 255, 255)"
    assert page.evaluate(ink) == "#1b2026"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("part", VIEWS)
def test_axe_finds_nothing_serious(visit, part, scheme):
    page = visit(part, color_scheme=scheme)
    if part == PLAN:
        picture(page)
        page.locator("#plan-blocks summary").click()
    found = Axe().run(page, options={"preload": False}).response["violations"]
    serious = [
        (each["id"], [node["html"][:120] for node in each["nodes"]])
        for each in found
        if each["impact"] in ("serious", "critical")
    ]
    assert serious == []


def test_every_id_has_plans_that_draw(visit):
    for env_id in IDS:
        page = visit(f"#view=plan&id={env_id}")
        expect(page.locator("#h-plan")).to_have_text(env_id)
        picture(page)
