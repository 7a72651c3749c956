"""Pages of the site as a folder of Markdown files: which files they come from, and where their links lead."""

import posixpath
import re
import shutil
from pathlib import Path

from scripts.docs_site.episodes import animation
from scripts.docs_site.reference import ENVIRONMENTS, reference_pages
from scripts.docs_site.tutorials import tutorial_page

ROOT = Path(__file__).parents[2]
SOURCE_URL = "https://github.com/memplace/memplace/blob/main/"
"""Address of files that are no pages."""
INDEX = "docs/README.md"
FOLDERS = ("pictures", "data")
"""Folders of docs/ whose files belong to the site."""
DATA_PAGE = """# {name}

[As a file]({name}.csv)

```{{csv-table}}
:file: {name}.csv
:header-rows: 1
:class: data
```
"""
"""Page of a data file, whose columns the reader sorts."""
LINK = re.compile(r"(?<=\]\()([^)#\s]+)(#[^)\s]+)?(?=\))")
FENCE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
DIAGRAM = re.compile(r"^```mermaid\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ROOM = re.compile(r"(\w+)\[\"?(.*?)\"?\]")
ARROW = re.compile(r"^\s*(\w+)(?:\[.*?\])? --> (\w+)", re.MULTILINE)


def page_names() -> dict[str, str]:
    """Return the page of each file that is one, both as paths: the file's in the repository, the page's on the site."""
    pages = {path.name: f"{path.stem.lower()}.md" for path in sorted(ROOT.glob("*.md")) if path.stem != "README"}
    for path in sorted((ROOT / "docs").glob("*.md")):
        pages[f"docs/{path.name}"] = path.name
    for path in sorted((ROOT / "examples").glob("*.py")):
        pages[f"examples/{path.name}"] = f"tutorials/{path.stem}.md"
    for path in sorted((ROOT / "agents").rglob("README.md")):
        name = path.parent.name
        pages[str(path.relative_to(ROOT))] = f"agents/{'overview' if name == 'agents' else name}.md"
    for path in sorted((ROOT / "docs" / "data").glob("*.csv")):
        pages[f"docs/data/{path.name}"] = f"data/{path.stem}.md"
    return {**pages, INDEX: "index.md"}


def write_pages(folder: Path) -> None:
    """Write all pages, with their pictures and data files, into a folder that is made."""
    pages = page_names()
    texts = {page: page_of(path, pages) for path, page in pages.items()}
    reference = reference_pages()
    texts |= reference
    texts["index.md"] += contents(pages, list(reference))
    for page, text in texts.items():
        target = folder / page
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, "utf-8")
    for name in FOLDERS:  # data/ has pages already
        shutil.copytree(ROOT / "docs" / name, folder / name, dirs_exist_ok=True)
    for name in ENVIRONMENTS:
        (folder / "pictures" / f"{name}.gif").write_bytes(animation(name))


def page_of(path: str, pages: dict[str, str]) -> str:
    """Return the Markdown text of a page, with links as on the site."""
    file = ROOT / path
    if file.suffix == ".csv":
        return DATA_PAGE.format(name=file.stem)
    text = tutorial_page(file) if file.suffix == ".py" else file.read_text("utf-8")
    text = DIAGRAM.sub(lambda found: diagram_table(found[1]), text)
    parts = FENCE.split(text)  # prose and code in turn
    parts[::2] = [
        LINK.sub(lambda found: link_target(path, found[1], found[2] or "", pages), part) for part in parts[::2]
    ]
    return "".join(parts)


def link_target(path: str, target: str, anchor: str, pages: dict[str, str]) -> str:
    """Return where a link in a file leads on the site: to a page, a picture, a data file, or the repository's file."""
    if "://" in target:
        return target + anchor
    file = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
    here = posixpath.dirname(pages[path])
    if file in pages:
        return posixpath.relpath(pages[file], here or ".") + anchor
    if file.startswith(tuple(f"docs/{name}/" for name in FOLDERS)):
        return posixpath.relpath(file.removeprefix("docs/"), here or ".")
    return SOURCE_URL + file + anchor


def contents(pages: dict[str, str], reference: list[str]) -> str:
    """Return the site's table of contents: the sections of the index with the pages that their tables list."""
    lists, listed = [], {"index.md"}
    for section in re.split(r"^## ", (ROOT / INDEX).read_text("utf-8"), flags=re.MULTILINE)[1:]:
        rows = re.findall(r"^\| \[[^]]*\]\(([^)#\s]+)\)", section, re.MULTILINE)
        names = [pages[posixpath.normpath(posixpath.join("docs", target))] for target in rows]
        names = [name for name in dict.fromkeys(names) if name not in listed]
        listed.update(names)
        if names:
            lists.append((section.splitlines()[0], names))
    tables = {name for name in pages.values() if name.startswith("data/")} - listed
    lists.append(("Reference", reference))
    lists.append(("Data", sorted(tables)))
    lists.append(("More", sorted(set(pages.values()) - listed - tables)))
    trees = (f":hidden:\n:caption: {caption}\n\n" + "\n".join(names) for caption, names in lists)
    return "".join(f"\n\n```{{toctree}}\n{tree}\n```\n" for tree in trees)


def diagram_table(diagram: str) -> str:
    """Return a flow chart as a table, because a browser draws charts only with a program from the network."""
    names, arrows = dict(ROOM.findall(diagram)), ARROW.findall(diagram)
    rows = []
    for room, label in names.items():
        name, _, what = label.partition(": ")
        above = ", ".join(f"`{end}`" for start, end in arrows if start == room) or "nothing"
        rows.append(f"| `{name}` | {what} | {above} |")
    return "\n".join(["| room | holds | is imported by |", "|---|---|---|", *rows])
