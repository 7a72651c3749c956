"""Whatever is wrong with the input: exit code 2, one sentence on stderr, nothing left behind."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.cli.conftest import MODEL, Run
from tests.offenders import every

GAME = f"{MODEL}&accelerator=tpu-v4i"
QUICK = ("--agent", "random", "--budget", "8")

CASES = {
    "unknown model": (["solve", "Bert2"], "BERT"),
    "missing file": (["inspect", "no/such.onnx"], "no/such.onnx"),
    "missing tflite file": (["inspect", "no/such.tflite"], "no/such.tflite"),
    "missing program file": (["inspect", "no/such.program"], "no/such.program"),
    "missing module": (["inspect", "no/such.mlir"], "no/such.mlir"),
    "not a program": (["inspect", "file.program"], "not a saved Program"),
    "not a module": (["solve", "file.mlir", *QUICK], "not a StableHLO module" if find_spec("jax") else "memplace[jax]"),
    "batch of a saved program": (
        ["inspect", "DLRM-train", "-a", "tpu-v4i", "--batch", "2"],
        "batch cannot apply; leave it out",
    ),
    "dtype of a saved program": (["inspect", "DLRM-train", "-a", "tpu-v4i", "--dtype", "int8"], "dtype cannot apply"),
    "chip without its dtype": (
        ["inspect", "DLRM-train", "-a", "edge-tpu"],
        "dtype is fixed; pass an accelerator that has one, such as 'tpu-v4i'",
    ),
    "not a model": (["solve", "file.onnx", *QUICK], "file.onnx"),
    "bad synthetic": (["inspect", "synthetic:chain?ops=x"], "ops"),
    "unknown agent": (["solve", MODEL, "--agent", "exakt"], "exact"),
    "empty agent": (["solve", MODEL, "--agent", ""], "No agent is called ''"),
    "unknown learner": (["train", "ergl", MODEL], "did you mean 'egrl'"),
    "unknown accelerator": (["solve", MODEL, "-a", "nnp"], "nnp"),
    "accelerator in capitals": (["solve", MODEL, "-a", "NNP-I"], "did you mean nnp-i?"),
    "no such chip file": (["solve", MODEL, "-a", "nnpi.toml"], "did you mean nnp-i?"),
    "empty accelerator": (["solve", MODEL, "-a", ""], "--accelerator is empty"),
    "empty dtype": (["inspect", "AlexNet", "--dtype", ""], "--dtype is empty"),
    "unknown id": (["solve", "MemPlace-BERR-v0"], "did you mean 'MemPlace-BERT-v0'?"),
    "id that draws programs": (["solve", "MallocGame-Train-v0"], "draws another program in each episode"),
    "generic id": (["solve", "MemPlaceSteps-v0"], "has no program of its own"),
    "game as a map": (["solve", "MallocGame-Tiny-v0", "--formulation", "one-shot"], "cannot be played as a one-shot"),
    "map as a game": (["play", "MemPlace-Tiny-v0"], "MemPlace-Tiny-v0 is the id of a one-shot environment"),
    "simulator to draw": (["render", MODEL, "--simulator", "evnt", "--out", "x.png"], "did you mean 'event'?"),
    "map to draw": (["render", "MemPlace-Tiny-v0", "--out", "x.png"], "cannot be played as a game"),
    "id in small letters": (["train", "egrl", "MemPlace-bert-v0"], "did you mean 'MemPlace-BERT-v0'?"),
    "unknown synthetic": (["inspect", "synthetic:chian?ops=4"], "did you mean 'chain'?"),
    "workers without a simulator": (["solve", MODEL, "--workers", "4"], "--workers needs --simulator"),
    "no workers": (["solve", MODEL, "--workers", "0"], "--workers"),
    "unknown simulator": (["solve", MODEL, "--simulator", "gem5"], "gem5"),
    "dim without value": (["solve", MODEL, "--dim", "sequence"], "NAME=VALUE"),
    "dim without number": (["solve", MODEL, "--dim", "sequence=long"], "NAME=VALUE"),
    "dim twice": (["inspect", "BERT", "--dim", "sequence=1", "--dim", "sequence=2"], "twice"),
    "value without number": (["solve", MODEL, "--value", "sr=fast"], "NAME=NUMBER"),
    "value twice": (["inspect", "BERT", "--value", "sr=1", "--value", "sr=2.5"], "once for each name"),
    "unknown dim": (["inspect", "BERT", "--dim", "width=1"], "width"),
    "batch no number": (["solve", MODEL, "--batch", "two"], "--batch"),
    "settings of a synthetic": (["solve", MODEL, "--batch", "2"], "batch"),
    "unsupported dtype": (["inspect", "AlexNet", "-a", "edge-tpu", "--dtype", "float32"], "float32"),
    "budget 0": (["solve", MODEL, "--budget", "0"], "--budget"),
    "time limit 0": (["solve", MODEL, "--time-limit", "0"], "--time-limit"),
    "negative seed": (["solve", MODEL, "--seed", "-1"], "--seed"),
    "out is a file": (["solve", MODEL, *QUICK, "--out", "file.onnx"], "file.onnx"),
    "out below a file": (["solve", MODEL, *QUICK, "--out", "file.onnx/deep"], "file.onnx"),
    "missing plan": (["simulate", MODEL, "plan.json"], "plan.json"),
    "truncated plan": (["validate", MODEL, "cut.json"], "cut.json"),
    "unknown split": (["workloads", "--split", "foo"], "Invalid value for '--split': 'foo' is not one of"),
    "no command": (["slove"], "slove"),
    "no model": (["solve"], "MODEL'; see 'memplace solve --help'."),
    "unknown flag": (["envs", "--jsn"], "--jsn"),
    "game agent": (["solve", GAME, "--agent", "game-local-search"], "--formulation game"),
    "one-shot agent": (["solve", GAME, "--formulation", "game", "--agent", "local-search"], "--formulation one-shot"),
    "three levels": (["play", "synthetic:chain", "-a", "nnp-i"], "two memory levels"),
    "three levels, drawn": (["render", "synthetic:chain", "-a", "nnp-i", "--out", "x.png"], "two memory levels"),
    "no picture": (["render", GAME, "--out", "x.jpg"], ".gif"),
    "plan and agent": (["render", GAME, "plan.json", "--agent", "exact", "--out", "x.png"], "not both"),
    "game: missing plan": (["render", GAME, "none.json", "--out", "x.png"], "none.json"),
    "game: unknown agent": (["render", GAME, "--agent", "nobody", "--out", "x.png"], "nobody"),
    "out is a folder": (["play", GAME, "--out", "."], "folder"),
    "unknown formulation": (["solve", GAME, "--formulation", "chess"], "one-shot"),
    "does not learn": (["train", "local-search", MODEL], "egrl, muzero, plan-gradient, ppo"),
    "training: unknown agent": (["train", "nobody", MODEL], "egrl, muzero, plan-gradient, ppo"),
    "other formulation": (["train", "egrl", GAME, "--formulation", "game"], "plays --formulation one-shot"),
    "game id": (["train", "egrl", "MallocGame-GPT2-v0"], "plays --formulation one-shot"),
    "training: unknown id": (["train", "egrl", "MemPlace-Alexnet-v0"], "MemPlace-AlexNet-v0"),
    "flag with an id that draws": (["train", "muzero", "MallocGame-Train-v0", "--batch", "2"], "draws another program"),
    "formulation of another id": (
        ["train", "plan-gradient", "MallocGame-Tiny-v0", "--formulation", "one-shot"],
        "cannot be played",
    ),
    "twice": (["train", "egrl", MODEL, MODEL], "twice"),
    "unknown config": (["train", "egrl", MODEL, "--config", "papr"], "'paper'"),
    "no configs": (["train", "plan-gradient", MODEL, "--config", "paper"], "there are default"),
    "unknown setting": (["solve", MODEL, "--agent", "egrl", "--set", "hiden=8"], "'hidden'"),
    "impossible setting": (["train", "egrl", MODEL, "--set", "elites=90"], "elites"),
    "policy for none": (["solve", MODEL, "--agent", "exact", "--policy", "policy.pt"], "does not learn"),
    "settings for a prior": (["solve", MODEL, "--agent", "cross-entropy", "--set", "hidden=8"], "takes no --set"),
    "missing prior": (["solve", MODEL, "--agent", "cross-entropy", "--policy", "none.pt"], "none.pt"),
    "settings for none": (["solve", MODEL, "--agent", "exact", "--set", "hidden=8"], "--set"),
    "policy for the default": (["solve", MODEL, "--policy", "policy.pt"], "these do: egrl, cross-entropy"),
    "missing policy": (["solve", MODEL, "--agent", "egrl", "--policy", "none.pt"], "none.pt"),
    "policy is no policy": (["solve", MODEL, "--agent", "egrl", "--policy", __file__], "test_bad_input.py"),
}


@every(("arguments", "named"), CASES.values())
def test_one_sentence(run: Run, tmp_path: Path, saved: Path, arguments: list[str], named: str) -> None:
    for name in ("file.onnx", "file.program", "file.mlir"):
        (tmp_path / name).write_text("no model")
    (tmp_path / "cut.json").write_text(saved.read_text()[:300])
    before = sorted(tmp_path.rglob("*"))
    result = run(*arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("memplace: ")
    assert result.stderr.count("\n") == 1
    assert named in result.stderr
    assert "Traceback" not in result.stderr
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (MemoryError(), "There is not enough memory: try a smaller problem.\n"),
        (MemoryError("no room for 8 GiB"), "There is not enough memory: no room for 8 GiB.\n"),
        (RuntimeError("can't start new thread"), "There is not enough memory for another thread"),
    ],
)
def test_a_machine_that_is_too_small(
    run: Run, monkeypatch: pytest.MonkeyPatch, error: Exception, sentence: str
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("memplace_agents.auto.Auto.run", fails)
    result = run("solve", MODEL)
    assert result.exit_code == 2
    assert f"memplace: {sentence}" in result.stderr
