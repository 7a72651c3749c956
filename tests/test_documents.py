"""Documents: links, paths, commands and flags exist, pages form a chain, README stays short and its example runs."""

import ast
import re
import shlex
from pathlib import Path

import typer

from memplace_env.cli.app import app
from scripts.docs_site.pages import FENCE
from scripts.docs_site.tutorials import tutorial_page
from tests.offenders import every

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs").glob("*.md"))
TUTORIALS = sorted((ROOT / "examples").glob("*.py"))
INDEX = ROOT / "docs" / "README.md"
LINK = re.compile(r"\]\(([^)#\s]+)(#[^)\s]+)?\)")
DOCUMENTS = [*sorted(ROOT.glob("*.md")), *PAGES, *sorted((ROOT / "agents").rglob("README.md"))]
COMMAND = re.compile(r"^(?:    |)(memplace .*)$|`(memplace [^`]*)`", re.MULTILINE)
ROOT_COMMAND = typer.main.get_command(app)
MOST_WORDS, MOST_WORDS_OF_PAGES = 1_000, 30_000


def text_of(page):
    """Return the Markdown of a document, or of a tutorial's page."""
    return tutorial_page(page) if page.suffix == ".py" else page.read_text("utf-8")


def words_of(page):
    """Return the number of words that are not between the markers of an experiment."""
    return len(re.sub(r"<!-- (\S+):begin -->.*?<!-- \1:end -->", "", text_of(page), flags=re.DOTALL).split())


def blocks(text, language):
    """Return the code blocks of a language."""
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def anchors(text):
    """Return the anchors that GitHub gives the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@every(
    "page",
    [*DOCUMENTS, *TUTORIALS],
)
def test_every_link_resolves(page):
    for target, anchor in LINK.findall(FENCE.sub("", text_of(page))):
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


@every("page", PAGES)
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
    """Words have a letter or a digit; those in tables count, too."""
    words = (ROOT / "README.md").read_text("utf-8").split()
    assert sum(any(map(str.isalnum, word)) for word in words) <= MOST_WORDS


def test_the_pages_are_short():
    assert sum(map(words_of, PAGES)) <= MOST_WORDS_OF_PAGES


@every("page", [*DOCUMENTS, *TUTORIALS])
def test_commands_and_flags_exist(page):
    root, unknown = ROOT_COMMAND, []
    for found in COMMAND.findall(text_of(page)):
        line = " ".join("".join(found).split())
        words = shlex.split(line, comments=True)[1:]
        command = root
        while words and words[0] in getattr(command, "commands", {}):
            command = command.commands[words.pop(0)]
        flags = {flag for each in command.params for flag in each.opts} | {"--help", "-h"}
        given = {word.partition("=")[0] for word in words if word.startswith("-") and word != "-"}
        is_named = command is not root or not words or words[0].startswith("-")
        unknown += [line] if not is_named or given - flags else []
    assert unknown == []


def test_python_in_the_documents_is_python():
    for page in (*DOCUMENTS, *TUTORIALS):
        for block in blocks(text_of(page), "python"):
            ast.parse(block)


def test_the_example_of_the_readme_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    example, learning = blocks((ROOT / "README.md").read_text("utf-8"), "python")
    exec(compile(example, "README.md", "exec"), {})
    assert (tmp_path / "plan.json").exists()
    assert "learn(" in learning
