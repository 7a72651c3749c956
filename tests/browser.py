"""A browser for the tests of pages, and tabs in which nothing may go wrong."""

from __future__ import annotations

import os
import shutil
from contextlib import contextmanager

import pytest

from tests.patience import patience

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
NEEDS_CHROMIUM = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium on the PATH; install it to test pages in a browser"),
]


@pytest.fixture(scope="module")  # not longer: its event loop would be in the way of other tests
def browser():
    from playwright.sync_api import sync_playwright

    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield chromium
        chromium.close()


@contextmanager
def tabs(browser):
    """Yield a function that opens an address in a tab; in the end, none may have had an error or asked a network."""
    contexts, faults = [], []

    def opened(address, *, width=1280, **options):
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
        page.goto(address)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert faults == []


def wait_for_picture(page):
    """Wait until plans are drawn: the canvas has its size, and blocks in it."""
    page.wait_for_function(
        """() => {
            const canvas = document.querySelector("#picture canvas");
            if (!canvas || canvas.width === 300 || !canvas.height) return false;
            const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
            return data.some((value, index) => index % 4 === 3 && value > 0);
        }"""
    )


def middle_of(page, name, side=0):
    """Return where the first block of a tensor is on the screen, in pixels."""
    page.locator("#picture").scroll_into_view_if_needed()
    return page.evaluate(
        """([name, side]) => {
            const scene = Memplace.viewer.shown(), tensor = scene.document_.tensors.indexOf(name);
            for (const panel of scene.panels.filter((each) => each.side === scene.sides[side] && each.blocks)) {
                const block = panel.blocks.find((each) => panel.side.plan.blocks.tensor[each] === tensor);
                if (block === undefined) continue;
                const [left, top, width, height] = Memplace.picture.rectangle(scene, panel, block);
                const box = document.getElementById("picture").getBoundingClientRect();
                return [box.left + left + width / 2, box.top + top + height / 2];
            }
        }""",
        [name, side],
    )


def ranges(page):
    """Return the range that the horizontal axis shows."""
    return page.evaluate("Memplace.viewer.shown().view.x")
