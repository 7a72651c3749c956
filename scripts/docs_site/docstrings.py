"""Docstrings as Markdown: they are Markdown already, apart from the sections on arguments and errors."""

import inspect
import re
import textwrap
from typing import Any

SECTION = re.compile(r"^(Args|Attributes|Raises|Returns|Yields|Example[^:\n]*):\n((?:    .*\n?|\n)+)", re.MULTILINE)
ITEM = re.compile(r"^(\S[^:\n]*): ", re.MULTILINE)
TITLES = {"Args": "Arguments", "Raises": "Errors"}


def markdown_of(docstring: str) -> str:
    """Return a docstring with lists instead of its sections, and with its examples as code."""
    return SECTION.sub(_section, f"{inspect.cleandoc(docstring)}\n").strip()


def _section(found: re.Match[str]) -> str:
    title, body = found[1], inspect.cleandoc(found[2])
    if title.startswith("Example"):
        return f"**{title}**\n\n```pycon\n{body}\n```\n\n"
    if title in ("Returns", "Yields"):
        return f"**{title}**: {body}\n\n"
    items = []
    for line in body.splitlines():
        named = ITEM.match(line)
        items.append(f"- `{named[1]}`: {line[named.end() :]}" if named else f"  {line.strip()}")
    return f"**{TITLES.get(title, title)}**\n\n" + "\n".join(items) + "\n\n"


def signature_of(name: str, part: Any) -> str:
    """Return a call with the names and defaults of its arguments, and no types, in lines of code."""
    try:
        signature = inspect.signature(part)
    except (TypeError, ValueError):  # protocols and types of the standard library
        return name
    bare = [each.replace(annotation=inspect.Parameter.empty) for each in signature.parameters.values()]
    kept = [each for each in bare if each.name not in ("self", "cls")]
    call = name + str(signature.replace(parameters=kept, return_annotation=inspect.Signature.empty))
    return textwrap.fill(call, 80, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)
