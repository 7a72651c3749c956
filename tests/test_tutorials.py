"""The tutorials run as they stand, in less than half a minute each, and print what their pages show.

`python examples/NAME.py > examples/outputs/NAME.txt` records what a changed one prints.
"""

import runpy
import time

import pytest

from memplace_env._lib.compilation import preparation_seconds
from tests.source import ROOT

EXAMPLES = ROOT / "examples"
OUTPUTS = {path.stem: path for path in sorted((EXAMPLES / "outputs").glob("*.txt"))}
LONGEST_S = 30
"""Processor seconds of one tutorial where all kernels are compiled."""
COMPILED_S = 5
"""Seconds in which compiled kernels are loaded; who needs longer compiles some."""
SLOW = {"export_models", "first_policy", "submission"}
"""Tutorials that import large packages, learn, or start processes."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in sorted(OUTPUTS)]
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")
def test_the_tutorial_prints_what_its_page_shows(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    began, prepared = time.process_time(), preparation_seconds()
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    seconds, prepared = time.process_time() - began, preparation_seconds() - prepared
    assert capsys.readouterr().out == OUTPUTS[name].read_text("utf-8")
    assert seconds < LONGEST_S or prepared > COMPILED_S


def test_every_tutorial_has_an_output_or_a_test_of_its_own():
    own = {
        "vela_budget",
        "mcts",
        "ppo",
        "graph_policy",
        "policy_to_row",
        "ppo_jax",
        "executorch_plan",
        "own_network",
    }  # tests/test_learning_examples.py, tests/backends/executorch, tests/agents/test_egrl.py
    assert {path.stem for path in EXAMPLES.glob("*.py")} == own | set(OUTPUTS)
