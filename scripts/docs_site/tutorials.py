"""Tutorials as pages: a script whose comments at the margin are prose, and below it what it prints."""

import ast
import re
from pathlib import Path


def tutorial_page(script: Path) -> str:
    """Return a script as Markdown.

    The first line of its docstring is the title, the rest of it the introduction. Comments at the margin that begin a
    paragraph are prose, everything else is code. What the script prints stands in `outputs/NAME.txt`, where a test
    compares it.
    """
    text = script.read_text("utf-8")
    module = ast.parse(text)
    title, _, introduction = (ast.get_docstring(module) or "").partition("\n")
    body = "\n".join(text.splitlines()[module.body[0].end_lineno :]).strip("\n")
    body = re.sub(r"  # noqa.*", "", body)  # for the linter, not for readers
    parts = [f"# {title.rstrip('.')}", introduction.strip(), *paragraphs(body)]
    printed = script.parent / "outputs" / f"{script.stem}.txt"
    if printed.exists():
        parts.append(f"It prints:\n\n```text\n{printed.read_text('utf-8').rstrip()}\n```")
    parts.append(f"The script is [examples/{script.name}]({script.name}); `python examples/{script.name}` runs it.")
    return "\n\n".join(part for part in parts if part) + "\n"


def paragraphs(code: str) -> list[str]:
    """Return prose and code in turn: a block of comments at the margin, after an empty line, is prose."""
    parts: list[str] = []
    lines, code_lines = code.splitlines(), list[str]()

    def finish() -> None:
        block = "\n".join(code_lines).strip("\n")
        if block:
            parts.append(f"```python\n{block}\n```")
        code_lines.clear()

    number = 0
    while number < len(lines):
        if lines[number].startswith("# ") and (number == 0 or not lines[number - 1].strip()):
            finish()
            prose = []
            while number < len(lines) and lines[number].startswith("#"):
                prose.append(lines[number].removeprefix("#").removeprefix(" "))
                number += 1
            parts.append("\n".join(prose))
        else:
            code_lines.append(lines[number])
            number += 1
    finish()
    return parts
