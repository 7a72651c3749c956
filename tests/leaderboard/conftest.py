"""Fixtures: a small submission; for the page's tests in a browser the page, the browser, and tabs without a fault."""

from __future__ import annotations

import shutil

import pytest

from tests.browser import browser, tabs, wait_for_picture

__all__ = ["browser"]
PLAN = "#view=plan&form=game&id=MallocGame-Evoformer-pairs-v0"


@pytest.fixture(scope="session")
def address(tmp_path_factory):
    from memplace_leaderboard.page.site import build_page
    from tests.leaderboard.boards import small_page

    return build_page(tmp_path_factory.mktemp("page") / "site", small_page()).as_uri()


@pytest.fixture
def visit(browser, address):
    """Opens the page in a tab of its own; in the end, no tab may have had an error or asked a network."""
    with tabs(browser) as opened:
        yield lambda part="", **options: opened(address + part, **options)


def picture(page):
    """Wait until a pair of plans is drawn."""
    from playwright.sync_api import expect

    wait_for_picture(page)
    expect(page.locator("#plan-message")).to_be_empty()


@pytest.fixture(scope="module")
def honest(tmp_path_factory):
    """A submission with five seeds, as it is made."""
    from memplace_leaderboard import running
    from tests.leaderboard.tampering import SUITE

    out = tmp_path_factory.mktemp("submissions") / "honest"
    running.run(running.describe(SUITE, SUITE.track("search"), "local-search", {}, ["10"]), out)
    return out


@pytest.fixture
def folder(honest, tmp_path):
    """A copy to tamper with."""
    return shutil.copytree(honest, tmp_path / "copy")
