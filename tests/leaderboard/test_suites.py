"""The splits: nothing in test shares a family with train, and every environment is in exactly one suite of a kind."""

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

import memplace_env
from memplace_env._lib.errors import EnvError
from memplace_env.envs.best_known import known_results
from memplace_env.envs.splits import FORMULATIONS, SPLITS, chip_split, group_of, group_split, suites
from memplace_env.machine.accelerator import accelerator_names
from memplace_env.program.zoo import catalogue
from memplace_leaderboard import load_suite, suite_names
from memplace_leaderboard.references import known


def test_each_environment_is_once_in_each_kind_of_suite():
    for formulation in FORMULATIONS:
        traits = formulation.traits
        ids = sorted(traits.env_id(name) for name in traits.settings)
        for kind in ("", "-chips"):
            parts = [suites()[f"{formulation}-{split}{kind}"] for split in SPLITS]
            assert sorted(env_id for part in parts for env_id in part) == ids
    assert memplace_env.suites() == suites()


def test_no_group_is_in_two_splits():
    home = {}
    for formulation in FORMULATIONS:
        traits = formulation.traits
        for name, settings in traits.settings.items():
            group = group_of(name, settings)
            (split,) = [split for split in SPLITS if traits.env_id(name) in suites()[f"{formulation}-{split}"]]
            assert home.setdefault(group, split) == split
    assert set(home.values()) == set(SPLITS)


def test_a_line_of_chips_stays_together():
    splits = {chip: chip_split(chip) for chip in accelerator_names()}
    assert set(splits.values()) == set(SPLITS)
    assert len({split for chip, split in splits.items() if chip.startswith("ethos")}) == 1


@given(st.text())
def test_any_name_has_a_split(group):
    assert group_split(group) in SPLITS


def test_the_splits_stand():
    """A group never moves: results on a family for the test would be worth nothing if it had been trained on."""
    split = {listing.family: group_split(listing.group) for listing in catalogue().values()}
    assert {"BERT", "Swin", "Wav2Vec2", "Conformer", "DLRM", "DCN"} <= {each for each in split if split[each] == "test"}
    assert {"GPT-2", "ViT", "CLIP", "SAM"} <= {each for each in split if split[each] == "validation"}
    assert {"ResNet", "DETR", "T5", "Llama", "Gemma"} <= {each for each in split if split[each] == "train"}


FROZEN = {
    "compiled-v1": "31a558481dec155985eb8f6fa2fa8b8eaf189a926191206fa5917e015e21b1a5",
    "black-box-v2": "becb1b674fc7c96868af4203a90742e2410f86253ef615775b79799d784135b9",
    "game-v1": "4ab81fe678e60521614db58d33a933b959977388405772ab78751beee65204ef",
    "one-shot-v1": "5be9b6b7f79224288fddd53f9d242668557e9ea7e0c6512e19346aa2b7dff354",
    "quick-v2": "7b8ebc3a1059df1778d51bfd317c90b7ec5e3e87c98c3071b1e5c0a61cff9c7b",
    "quick-v1": "15ad9b73d18364f9b630dae3bf6934c8678e7719f053a384839e8693c79918c2",
    "sliced-v1": "adf128b9aa53a1772acc941c804db3da022be56ed0813f8c1669c38a77d78491",
}


def test_suites_never_change():
    """Submissions name these hashes; another choice is a suite of another version."""
    assert {name: load_suite(name).sha256 for name in suite_names()} == FROZEN


def test_of_every_instance_in_every_track_something_is_known():
    """Best known plans of a drawn machine come with the submissions to it."""
    for name in suite_names():
        suite = load_suite(name)
        for track in suite.tracks.values():
            if track.machine is None:
                assert set(known(suite, track)) == set(suite.instances), (name, track.name)


def test_of_every_variant_in_a_suite_a_plan_and_a_bound_are_known():
    for formulation in FORMULATIONS:
        for name in filter(lambda name: name.endswith(("-Sliced", "-Compiled")), formulation.traits.variants):
            row = known_results()[formulation.traits.env_id(name)]
            assert 0 < row.bound_ps <= row.best_ps <= row.cheap_ps, name
    for env_id, row in known_results().items():
        assert row.reachable_ps is None or row.best_ps <= row.reachable_ps, env_id


def test_a_bound_above_the_best_known_plan_is_refused(monkeypatch):
    rows = {"MemPlace-A-v0": {"cheap_ps": 9, "best_ps": 5, "bound_ps": 6}}
    monkeypatch.setattr(tomllib, "loads", lambda text: rows)
    known_results.cache_clear()
    try:
        with pytest.raises(EnvError, match="the bound of MemPlace-A-v0, 6 ps, is above its best plan, 5 ps"):
            known_results()
    finally:
        known_results.cache_clear()
