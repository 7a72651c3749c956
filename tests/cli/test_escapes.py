"""Nothing foreign is obeyed: names with escapes, line breaks, markup and mathematics are only shown."""

from __future__ import annotations

import json
import shutil
import warnings
from pathlib import Path

import pytest

from memplace_env.cli.console import note, stdout
from memplace_env.machine.accelerator import load_accelerator
from memplace_env.placement.resolve_task import make_task
from memplace_env.placement.synthetic import planted
from memplace_env.report.explanation.comparison_figure import two_maps
from memplace_env.report.explanation.explanation import explain_plan
from memplace_env.report.explanation.explanation_figure import explanation_figure
from memplace_env.report.plans.evaluated_plan import all_backing_baseline, native_baseline
from memplace_env.report.plans.memory_map import memory_map
from memplace_env.report.style import to_png
from memplace_env.report.tables import add_row, new_table, plain_text
from tests.cli.conftest import MODEL, Run

HOSTILE = "\x1b[31m[red]:smile:\n\u202e\udc80$x$ é"
SHOWN = r"\x1b[31m[red]:smile:\n\u202e\udc80$x$ é"


def test_a_console_shows_texts_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    stdout().print(f"Written: {HOSTILE}", soft_wrap=True)
    note(HOSTILE)
    captured = capsys.readouterr()
    assert captured.out == f"Written: {SHOWN}\n"
    assert captured.err == f"{SHOWN}\n"


def test_tables_escape_and_shorten() -> None:
    table = new_table(HOSTILE, HOSTILE, "b", caption=HOSTILE)
    add_row(table, HOSTILE, "x" * 10_000)
    text = plain_text(table, 400)
    assert all(line.isprintable() for line in text.splitlines())
    assert text.count("[red]:smile:") == 4
    assert len(text) < 3000


@pytest.mark.parametrize("width", [1, 40])
def test_tables_are_folded_not_cut(width: int) -> None:
    table = new_table(None, "name", "number")
    add_row(table, "abcdefghijklmnopqrstuvwxyz", "123456789")
    lines = plain_text(table, max(width, 20)).splitlines()
    letters = "".join(letter for line in lines for letter in line if letter.islower())
    assert sorted(letters) == sorted("namenumber" + "abcdefghijklmnopqrstuvwxyz")
    assert "…" not in "".join(lines)


def test_sentences_about_files(run: Run, tmp_path: Path, saved: Path) -> None:
    shutil.copy(saved, tmp_path / HOSTILE)
    done = run("validate", MODEL, HOSTILE)
    assert done.exit_code == 0
    assert done.stdout.startswith(f"{SHOWN} is valid")
    assert json.loads(run("validate", MODEL, HOSTILE, "--json").stdout)["plan"] == HOSTILE
    for arguments in (["validate", MODEL, HOSTILE + "x"], ["solve", HOSTILE], ["envs", "--" + HOSTILE], [HOSTILE]):
        done = run(*arguments)
        assert done.exit_code == 2
        assert done.stderr.startswith("memplace: ")
        assert done.stderr.removesuffix("\n").isprintable()
        assert len(done.stderr) < 4000


def test_pictures_of_a_chip_with_hostile_names(tmp_path: Path) -> None:
    preset = Path(__file__).parents[2] / "memplace_env/machine/accelerator/presets/nnp-i.toml"
    text = preset.read_text(encoding="utf-8").replace('"nnp-i"', "'$\\frac{a$'")
    for level in load_accelerator("nnp-i").levels:
        text = text.replace(f'"{level.name}"', f"'_$\\{level.name}$中'")
    (tmp_path / "chip.toml").write_text(text, encoding="utf-8")
    task = make_task(planted("chain", ops=4).program, load_accelerator(tmp_path / "chip.toml"))
    plans = native_baseline(task)._replace(name=HOSTILE * 500), all_backing_baseline(task)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for figure in (
            memory_map(task, plans[1]),
            two_maps(task, *plans),
            explanation_figure(explain_plan(task, plans[1])),
        ):
            assert to_png(figure).startswith(b"\x89PNG")
