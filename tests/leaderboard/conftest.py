"""Fixtures: a small submission; for the page's tests in a browser the page, the browser, and tabs without a fault."""

from __future__ import annotations

import os
import shutil

import pytest

from tests.patience import patience

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
NEEDS_CHROMIUM = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium on the PATH; install it to test the page in a browser"),
]
PLAN = "#view=plan&form=game&id=MallocGame-Evoformer-pairs-v0"


@pytest.fixture(scope="session")
def address(tmp_path_factory):
    from memplace_env.leaderboard.page import build_page
    from tests.leaderboard.boards import small_page

    return build_page(tmp_path_factory.mktemp("page") / "site", small_page()).as_uri()


@pytest.fixture(scope="module")  # not longer: its event loop would be in the way of other tests
def browser():
    from playwright.sync_api import sync_playwright

    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield chromium
        chromium.close()


@pytest.fixture
def visit(browser, address):
    """Opens the page in a tab of its own; in the end, no tab may have had an error or asked a network."""
    contexts, faults = [], []

    def opened(part="", *, width=1280, **options):
        context = browser.new_context(viewport={"width": width, "height": 900}, **options)
        contexts.append(context)
        for pattern in ("http://**", "https://**"):
            context.route(pattern, lambda route: (faults.append(f"asked {route.request.url}"), route.abort()))
        page = context.new_page()
        page.set_default_timeout(1000 * patience(15))
        page.on("console", lambda said: faults.append(said.text) if said.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("requestfailed", lambda request: faults.append(f"failed {request.url}"))
        page.on("dialog", lambda dialog: (faults.append(f"dialog {dialog.message}"), dialog.dismiss()))
        page.goto(address + part)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert faults == []


def picture(page):
    """Wait until a pair of plans is drawn."""
    from playwright.sync_api import expect

    page.locator("#picture .xaxislayer-above, #picture .xaxislayer-below").first.wait_for(state="attached")
    expect(page.locator("#plan-message")).to_be_empty()
    expect(page.locator("#picture .fills path, #picture .js-fill").first).to_be_attached()


@pytest.fixture(scope="module")
def honest(tmp_path_factory):
    """A submission with five seeds, as it is made."""
    from memplace_env.leaderboard import running
    from tests.leaderboard.tampering import SUITE

    out = tmp_path_factory.mktemp("submissions") / "honest"
    running.run(running.describe(SUITE, SUITE.track("search"), "local-search", {}, ["10"]), out)
    return out


@pytest.fixture
def folder(honest, tmp_path):
    """A copy to tamper with."""
    return shutil.copytree(honest, tmp_path / "copy")
