"""Distributions over settings, and the data that they draw from."""

import json
import math
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest

from memplace_env._lib.errors import AcceleratorError, EnvError, WorkloadError
from memplace_env.envs.malloc_game.env import drawn_game
from memplace_env.envs.many.drawn import LEAST_GAIN, MOST_LOADED
from memplace_env.envs.many.draws import LEAST_OPS, MOST_OPS, SplitDraws, SyntheticDraws, draws_of
from memplace_env.envs.many.setting import Setting, known_settings
from memplace_env.envs.registration import Formulation
from memplace_env.envs.splits import FORMULATIONS, SPLITS, Split, chip_split, group_of, group_split
from memplace_env.machine.accelerator import accelerator_names, load_accelerator
from memplace_env.machine.accelerator.load import find
from memplace_env.placement.compiler import all_backing_report
from memplace_env.placement.synthetic import planted_optimum_ps

DRAWS = 4000


@pytest.mark.parametrize("formulation", FORMULATIONS)
def test_splits_share_no_group_and_know_all_chips(formulation):
    splits = [SplitDraws(formulation, split) for split in SPLITS]
    groups = [group for draws in splits for group in draws.groups]
    assert len(groups) == len(set(groups))
    levels = 2 if formulation is Formulation.GAME else 3
    known = {setting.accelerator for setting in known_settings(Formulation.ONE_SHOT)}
    chips = {chip for chip in accelerator_names() if load_accelerator(chip).num_levels <= levels and chip in known}
    assert len(known) == 9
    assert set().union(*(draws.chips for draws in splits)) == splits[-1].chips == chips
    assert all(chip_split(chip) == Split.TRAIN for chip in splits[0].chips)
    for split, draws in zip(SPLITS, splits, strict=True):
        assert all(group_split(group) == split for group in draws.groups)


@pytest.mark.parametrize("formulation", FORMULATIONS)
@pytest.mark.parametrize("split", SPLITS)
def test_each_step_of_a_draw_is_uniform(formulation, split):
    draws = SplitDraws(formulation, split)
    assert draws.weights.sum() == pytest.approx(1)

    def group(one):
        return group_of(one.program, {})

    steps = (group, lambda one: one.program, lambda one: one.accelerator, lambda one: one)
    for number, step in enumerate(steps):
        total = {}
        for one, weight in zip(draws.settings, draws.weights, strict=True):
            above = tuple(key(one) for key in steps[:number])
            total.setdefault(above, Counter())[step(one)] += weight
        for shares in total.values():
            np.testing.assert_allclose(list(shares.values()), min(shares.values()))
    rng = np.random.default_rng(1)
    drawn = Counter(group(draws.draw(rng, {})) for _ in range(DRAWS))
    expected = DRAWS / len(draws.groups)
    assert all(abs(drawn[name] - expected) < 5 * math.sqrt(expected) for name in draws.groups)


@pytest.mark.parametrize("formulation", FORMULATIONS)
def test_references_are_latencies_of_today(formulation):
    for setting in [one for one in known_settings(formulation) if one.program in ("AlexNet", "ResNet18")]:
        backing_s = all_backing_report(setting.task()).latency_s
        assert backing_s == pytest.approx(known_settings(formulation)[setting].backing_s, rel=1e-12)


def test_options_narrow_the_draw():
    draws, rng = SplitDraws(Formulation.GAME, Split.TRAIN), np.random.default_rng(0)
    for options in ({"accelerator": "edge-tpu"}, {"program": "T5-base"}, {"dtype": "bfloat16", "batch": 128}):
        for _ in range(20):
            drawn = draws.draw(rng, {**options, "dims": None})
            assert options.items() <= drawn._asdict().items()
            assert drawn in draws.settings
    for setting in draws.settings[::17]:
        assert draws.draw(rng, setting.options) == setting
    assert draws.draw(rng, {"program": "BERT"}) == Setting("BERT", "tpu-v4i"), "outside the split defaults hold"
    sizes = {"batch": np.int64(3), "dims": {"sequence": np.int32(7)}}
    drawn = draws.draw(rng, {"program": "T5-base", **sizes})
    assert (drawn.batch, drawn.dims, type(drawn.batch)) == (3, (("sequence", 7),), int)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"accelerator": "nope"}, "name a 'program'"),
        ({"program": 3}, "'program' of a reset is a name, not 3"),
        ({"workload": "BERT"}, "takes the options program, accelerator, .*no 'workload'"),
        ({"program": "BERT", "dtype": b"int8"}, "'dtype' of a reset is a name"),
        ({"program": "BERT", "batch": "x"}, "'batch' and 'dims' of a reset are an integer and"),
        ({"program": "BERT", "batch": True}, "an integer and a dictionary"),
        ({"program": "BERT", "dims": ["sequence"]}, "an integer and a dictionary"),
        ({"program": "BERT", "dims": {"sequence": 1.5}}, "an integer and a dictionary"),
    ],
)
def test_wrong_options_get_a_sentence(options, sentence):
    for draws in (draws_of(Formulation.GAME, "train"), draws_of(Formulation.GAME, "synthetic")):
        if set(options) != {"accelerator"} or isinstance(draws, SplitDraws):
            with pytest.raises(EnvError, match=sentence):
                draws.draw(np.random.default_rng(0), options)
    with pytest.raises(AcceleratorError, match="nope"):
        SyntheticDraws(Formulation.GAME).draw(np.random.default_rng(0), {"accelerator": "nope"})


def test_synthetic_programs_are_planted_where_they_are_played(tmp_path):
    draws, rng = SyntheticDraws(Formulation.GAME), np.random.default_rng(0)
    drawn = draws.draw(rng, {"accelerator": "edge-tpu"})
    assert drawn.accelerator == "edge-tpu-streamed"
    assert planted_optimum_ps(drawn.task())
    own = tmp_path / "own.toml"
    own.write_text(find("tpu-v4i").read_text())
    with pytest.raises(EnvError, match="on shipped chips, not"):
        draws.draw(rng, {"accelerator": str(own)})


@pytest.mark.parametrize("name", ["all", None, 3, "Train", ["train"]])
def test_there_are_four_distributions(name):
    with pytest.raises(EnvError, match="programs must be one of train, validation, test, synthetic"):
        draws_of(Formulation.GAME, name)


@pytest.mark.parametrize("formulation", FORMULATIONS)
def test_synthetic_programs_fit_and_have_an_optimum(formulation):
    draws, rng = SyntheticDraws(formulation), np.random.default_rng(7)
    drawn = [draws.draw(rng, {}) for _ in range(60)]
    assert len(set(drawn)) == 60, "endless"
    assert {one.accelerator for one in drawn} == {*draws._chips}
    for setting in [draws.first, *drawn]:
        task = setting.task()
        assert LEAST_OPS <= task.program.num_ops <= MOST_OPS
        assert 0 < planted_optimum_ps(task) <= all_backing_report(task).latency_ps


@pytest.mark.parametrize("chip", ["nnp-i", "tpu-v4i", "edge-tpu", "ethos-u65"])
def test_largest_synthetic_programs_fit(chip):
    level = load_accelerator(chip).levels
    ops = min(MOST_OPS, level[-1].capacity_bytes // level[0].capacity_bytes - 8)
    for topology in ("chain", "diamond", "fan-out"):
        for hot in (0.3, 0.9):
            Setting(f"synthetic:{topology}?ops={ops}&seed=3&hot={hot}&accelerator={chip}", chip).task()


def test_units():
    wasteful = Setting.of({"program": "synthetic:random?ops=1&seed=0", "accelerator": "tpu-v4i"})
    assert drawn_game(wasteful).gain >= LEAST_GAIN
    assert MOST_LOADED >= max(
        len(SplitDraws(formulation, split).settings) for formulation in FORMULATIONS for split in SPLITS
    )


def test_settings_are_told_in_infos_and_options():
    setting = Setting.of(
        {"program": "T5-small", "accelerator": "tpu-v4i", "dims": {"sequence": 8, "decoder_sequence": 4}}
    )
    assert setting.info["dims"] == "decoder_sequence=4, sequence=8"
    assert (setting.info["batch"], setting.info["dtype"]) == (0, "")
    assert Setting.of(setting.options) == setting
    with pytest.raises(WorkloadError, match="NoSuch"):
        Setting.of({"program": "NoSuch", "accelerator": "tpu-v4i"}).task()


def test_draws_are_the_same_in_every_process():
    code = (
        "import json, numpy as np\n"
        "from memplace_env.envs.many.draws import draws_of\n"
        "from memplace_env.envs.registration import Formulation\n"
        "rng = np.random.default_rng(3)\n"
        "print(json.dumps([draws_of(Formulation.GAME, name).draw(rng, {}) for name in ('train', 'test', 'synthetic')]))"
    )
    runs = [subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, env=None) for _ in range(2)]
    assert json.loads(runs[0].stdout) == json.loads(runs[1].stdout)
