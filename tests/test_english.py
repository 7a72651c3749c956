"""The manner of docstrings and comments, as far as it can be counted; only reading checks the rest."""

import ast
import re

from tests.source import ROOT, modules, path_of

NO_BEGINNING = frozenset(
    "and as because but by for how if it likewise of or so that there these they this those to what when where whether "
    "which who whom whose with".split()
)
"""Words that begin no sentence which stands alone."""
COMMENTS_PER_1000_LINES = 40
"""At least, in files of kernels; mctx, pgx and jumanji have 115 to 158, Stable-Baselines3 and CompilerGym 66 to 76."""


def docstrings(tree: ast.Module) -> list[tuple[int, str]]:
    """Line and text of every docstring of a module, those below constants and attributes as well."""
    return [
        (node.lineno, node.value.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    ]


OTHERS = [path for name in ("tests", "benchmarks", "scripts") for path in (ROOT / name).rglob("*.py")]
FILES = sorted([*map(path_of, modules()), *OTHERS])


def test_first_lines_stand_alone():
    wrong = []
    for path in FILES:
        for line, text in docstrings(ast.parse(path.read_text("utf-8"))):
            first = text.strip().split("\n\n")[0].replace("\n", " ")
            word = re.sub(r"\W", "", first.split()[0]).lower() if first.split() else ""
            if word in NO_BEGINNING or not first.rstrip().endswith((".", ":", "!", "?", ".`")):
                wrong.append(f"{path.relative_to(ROOT)}:{line}: {first[:80]}")
    assert not wrong, "\n".join(wrong)


def test_kernels_are_explained():
    files = [
        path for path in map(path_of, modules()) if re.search(r"^@kernel\b", path.read_text("utf-8"), re.MULTILINE)
    ]
    lines = [line.strip() for path in files for line in path.read_text("utf-8").splitlines()]
    assert len(files) > 20
    assert 1000 * sum(line.startswith("#") for line in lines) >= COMMENTS_PER_1000_LINES * len(lines)
