"""Documents: links and paths exist, pages form a chain, README stays short and its example runs."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs").glob("*.md"))
INDEX = ROOT / "docs" / "README.md"
LINK = re.compile(r"\]\(([^)#\s]+)(#[^)\s]+)?\)")
MOST_WORDS = 1100


def blocks(text, language):
    """Return the code blocks of a language."""
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def anchors(text):
    """Return the anchors that GitHub gives the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize(
    "page",
    [ROOT / "README.md", ROOT / "SECURITY.md", *PAGES, *sorted((ROOT / "agents").rglob("README.md"))],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_every_link_resolves(page):
    for target, anchor in LINK.findall(page.read_text("utf-8")):
        if "://" in target:
            continue
        file = page.parent / target
        assert file.exists(), target
        if anchor:
            assert anchor[1:] in anchors(file.read_text("utf-8")), target + anchor


def test_every_path_in_the_architecture_exists():
    text = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    paths = {word for word in re.findall(r"`([^`\s]+)`", text) if re.search(r"/|\.(py|json|toml|md)$", word)}
    assert len(paths) > 60
    missing = [
        path
        for path in paths
        if not {"<", "("} & set(path) and not any((base / path).exists() for base in (ROOT, ROOT / "memplace_env"))
    ]
    assert missing == []


def test_the_index_lists_every_page():
    listed = {target for target, _ in LINK.findall(INDEX.read_text("utf-8"))}
    assert {page.name for page in PAGES if page != INDEX} <= listed


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_page_ends_with_the_next_one(page):
    assert re.match(r"Next: .*\]\(\S+\.md\)", page.read_text("utf-8").rstrip().splitlines()[-1])


def test_the_pages_form_one_chain():
    page, visited = INDEX, set()
    while page not in visited:
        visited.add(page)
        target = LINK.findall(page.read_text("utf-8").rstrip().splitlines()[-1])[0][0]
        page = (page.parent / target).resolve()
    assert visited == set(PAGES)


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text("utf-8").split()) <= MOST_WORDS


def test_python_in_the_documents_is_python():
    for page in (ROOT / "README.md", *PAGES):
        for block in blocks(page.read_text("utf-8"), "python"):
            ast.parse(block)


def test_the_example_of_the_readme_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    example, learning = blocks((ROOT / "README.md").read_text("utf-8"), "python")
    exec(compile(example, "README.md", "exec"), {})
    assert (tmp_path / "plan.json").exists()
    assert "learn(" in learning
