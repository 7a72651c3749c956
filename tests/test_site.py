"""The documentation site: built without a warning, readable on a phone, and nothing on it asks a network."""

import re
import subprocess
import sys

import pytest

from scripts.docs_site.docstrings import markdown_of
from scripts.docs_site.pages import diagram_table, link_target, page_names
from scripts.docs_site.tutorials import paragraphs
from tests.browser import CHROMIUM, browser, tabs  # noqa: F401  (a fixture)
from tests.source import ROOT

ADDRESS = re.compile(r"""(?:src|data-src)=["']https?:|<link[^>]+href=["']https?:|url\(["']?https?:|@import""")
"""Addresses that a browser asks for by itself; links that a reader follows are not among them."""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site in a folder; Sphinx ends with an error at the first warning."""
    out = tmp_path_factory.mktemp("docs") / "site"
    built = [sys.executable, "-m", "scripts.docs_site", str(out)]
    done = subprocess.run(built, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return out


@pytest.mark.slow
def test_every_page_is_built_and_reached(site):
    texts = {path: path.read_text("utf-8") for path in site.rglob("*.html")}
    menu = (site / "index.html").read_text("utf-8")
    for page in {*page_names().values(), "reference/command-line.md"} - {"index.md"}:
        html = page.removesuffix(".md") + ".html"
        assert (site / html).exists()
        assert f'href="{html}"' in menu, html
    assert len(texts) > 50
    assert [str(path) for path, text in texts.items() if ADDRESS.search(text)] == []


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no chromium on the PATH; install it to test pages in a browser")
def test_pages_fit_the_screen_and_ask_no_network(site, browser):  # noqa: F811
    with tabs(browser) as visit:
        page, wide = visit((site / "index.html").as_uri(), width=400), []
        for html in sorted(site.rglob("*.html")):
            page.goto(html.as_uri())
            for width in (1400, 400):  # so that the next one is loaded with the width of a phone
                page.set_viewport_size({"width": width, "height": 900})
                if page.evaluate("document.documentElement.scrollWidth > window.innerWidth"):
                    wide.append((html.name, width))
    assert wide == []


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no chromium on the PATH; install it to test pages in a browser")
def test_a_click_on_a_head_sorts_a_data_file(site, browser):  # noqa: F811
    with tabs(browser) as visit:
        page = visit((site / "data" / "ids.html").as_uri())
        column = page.locator("article th", has_text="best plan ms")
        cells = page.locator(f"article td:nth-child({column.evaluate('head => head.cellIndex + 1')})")
        for order in ("ascending", "descending"):
            column.click()
            shown = [float(text) for text in cells.all_inner_texts()]
            assert shown == sorted(shown, reverse=order == "descending")
            assert len(shown) > 100
            assert column.get_attribute("aria-sort") == order


def test_links_lead_to_pages_pictures_and_files():
    pages = page_names()
    assert link_target("docs/model.md", "programs.md", "#ids", pages) == "programs.md#ids"
    assert link_target("docs/model.md", "../agents/README.md", "", pages) == "agents/overview.md"
    assert link_target("agents/README.md", "../docs/README.md", "", pages) == "../index.md"
    assert link_target("examples/ppo.py", "../docs/pictures/proofs.png", "", pages) == "../pictures/proofs.png"
    assert link_target("docs/programs.md", "data/ids.csv", "", pages) == "data/ids.md"
    assert link_target("docs/model.md", "../setup.cfg", "", pages).endswith("/blob/main/setup.cfg")
    assert link_target("docs/model.md", "https://onnx.ai", "#x", pages) == "https://onnx.ai#x"


def test_comments_at_the_margin_are_prose():
    code = "# Prose,\n# two lines.\na = 1\n# of the code\nb = 2\n\n# ## Heading\n#\n#     command\nc = 3"
    first, second = "a = 1\n# of the code\nb = 2", "c = 3"
    assert paragraphs(code) == [
        "Prose,\ntwo lines.",
        f"```python\n{first}\n```",
        "## Heading\n\n    command",
        f"```python\n{second}\n```",
    ]


def test_sections_of_docstrings_become_lists():
    text = "Do it.\n\n    Args:\n        a, b: numbers,\n            both.\n\n    Raises:\n        TypeError: if not.\n"
    assert markdown_of(text) == (
        "Do it.\n\n**Arguments**\n\n- `a, b`: numbers,\n  both.\n\n**Errors**\n\n- `TypeError`: if not."
    )


def test_a_flow_chart_becomes_a_table():
    table = diagram_table('flowchart TD\n    a["a: first"] --> b\n    b["b: second"]\n')
    assert table.splitlines()[2:] == ["| `a` | first | `b` |", "| `b` | second | nothing |"]
