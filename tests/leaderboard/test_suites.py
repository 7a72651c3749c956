"""The splits: nothing in test shares a family with train, and every environment is in exactly one suite of a kind."""

from hypothesis import given
from hypothesis import strategies as st

import memplace_env
from memplace_env.accelerator import accelerator_names
from memplace_env.leaderboard import SPLITS, chip_split, group_split, suites
from memplace_env.leaderboard.splits import FORMULATIONS, group_of
from memplace_env.workload.zoo import catalogue


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
