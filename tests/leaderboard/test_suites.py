"""The splits: nothing in test shares a family with train, and every environment is in exactly one suite of a kind."""

from hypothesis import given
from hypothesis import strategies as st

import memplace_env
from memplace_env.accelerator import accelerator_names
from memplace_env.leaderboard import SPLITS, chip_split, family_split, suites
from memplace_env.leaderboard.splits import FORMULATIONS, family_of
from memplace_env.workload.zoo import catalogue


def test_each_environment_is_once_in_each_kind_of_suite():
    for formulation in FORMULATIONS:
        traits = formulation.traits
        ids = sorted(traits.env_id(name) for name in traits.settings)
        for kind in ("", "-chips"):
            parts = [suites()[f"{formulation}-{split}{kind}"] for split in SPLITS]
            assert sorted(env_id for part in parts for env_id in part) == ids
    assert memplace_env.suites() == suites()


def test_no_family_is_in_two_splits():
    home = {}
    for formulation in FORMULATIONS:
        traits = formulation.traits
        for name, settings in traits.settings.items():
            family = family_of(name, settings)
            (split,) = [split for split in SPLITS if traits.env_id(name) in suites()[f"{formulation}-{split}"]]
            assert home.setdefault(family, split) == split
    assert set(home.values()) == set(SPLITS)


def test_a_line_of_chips_stays_together():
    splits = {chip: chip_split(chip) for chip in accelerator_names()}
    assert set(splits.values()) == set(SPLITS)
    assert len({split for chip, split in splits.items() if chip.startswith("ethos")}) == 1


@given(st.text())
def test_any_name_has_a_split(family):
    assert family_split(family) in SPLITS


def test_the_splits_stand():
    """A family never moves: results on a test family would be worth nothing if it had been trained on."""
    families = {listing.family for listing in catalogue().values()}
    assert {"BERT", "Swin"} <= {family for family in families if family_split(family) == "test"}
    assert {"GPT-2", "ViT"} <= {family for family in families if family_split(family) == "validation"}
    assert {"ResNet", "T5", "Llama"} <= {family for family in families if family_split(family) == "train"}
