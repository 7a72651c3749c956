"""The notebooks run without Jupyter, as they stand but for fewer steps of learning, and hold their outputs.

`python -m tests.test_notebooks` runs them all and writes what their cells give into the files.
"""

import ast
import base64
import io
import json
import os
from contextlib import redirect_stdout
from typing import Any

import pytest

from tests.source import ROOT
from tests.thorough import VARIABLE

NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))
MOST_BYTES = 300_000
SAME = {"plan_a_model"}
"""Notebooks that print the same on every machine and in every run."""
STEPS, FEWER = "200_000", "20_000"
"""Steps of learning as they stand in a notebook, and without `--thorough`: two rounds."""


def outputs_of(code: str, names: dict[str, Any]) -> list[dict[str, Any]]:
    """Run a cell, and return what it prints and the picture that its last line gives, in the notebook's format."""
    body, last = ast.parse(code).body, None
    if isinstance(body[-1], ast.Expr):
        last = ast.Expression(body.pop().value)
    with redirect_stdout(io.StringIO()) as printed:
        exec(compile(ast.Module(body, []), "cell", "exec"), names)
        value = eval(compile(last, "cell", "eval"), names) if last else None
    found: list[dict[str, Any]] = []
    if printed.getvalue():
        found.append({"name": "stdout", "output_type": "stream", "text": printed.getvalue().splitlines(True)})
    if value is not None:
        picture = base64.b64encode(value._repr_png_()).decode()
        data = {"image/png": picture, "text/plain": ["a picture"]}
        found.append({"output_type": "display_data", "data": data, "metadata": {}})
    return found


def run(notebook: dict[str, Any], steps: str = STEPS) -> list[list[dict[str, Any]]]:
    """Run all code cells in one namespace, learning for so many steps, and return the outputs of each."""
    names: dict[str, Any] = {"__name__": "__main__"}
    return [outputs_of("".join(cell["source"]).replace(STEPS, steps), names) for cell in code_cells(notebook)]


def code_cells(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def texts(outputs: list[dict[str, Any]]) -> list[Any]:
    return [output.get("text", sorted(output.get("data", ()))) for output in outputs]


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")
def test_the_notebook_runs_and_holds_its_outputs(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    notebook = json.loads(path.read_text("utf-8"))
    kept = [cell["outputs"] for cell in code_cells(notebook)]
    assert path.stat().st_size < MOST_BYTES
    given = run(notebook, STEPS if VARIABLE in os.environ else FEWER)
    assert [len(outputs) for outputs in given] == [len(outputs) for outputs in kept]
    if path.stem in SAME:
        assert [texts(outputs) for outputs in given] == [texts(outputs) for outputs in kept]


def main() -> None:
    for path in NOTEBOOKS:
        notebook = json.loads(path.read_text("utf-8"))
        for number, (cell, outputs) in enumerate(zip(code_cells(notebook), run(notebook), strict=True)):
            cell |= {"outputs": outputs, "execution_count": number + 1}
        path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    main()
