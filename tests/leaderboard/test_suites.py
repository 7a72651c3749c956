"""The splits: nothing in test shares a family with train, and every environment is in exactly one suite of a kind."""

from hypothesis import given
from hypothesis import strategies as st

import memplace_env
from memplace_env.envs.splits import FORMULATIONS, group_of
from memplace_env.leaderboard import SPLITS, chip_split, group_split, load_suite, suite_names, suites
from memplace_env.leaderboard.references import known
from memplace_env.leaderboard.suite import best_known
from memplace_env.machine.accelerator import accelerator_names
from memplace_env.program.zoo import catalogue


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
    "black-box-v2": "86298f0490f4391c48612f949a9987dd7588823a565f88378f6238857d0487d1",
    "game-v1": "8bd063c51f637f7f4b4256eada01d01b1a85f13e4344df14f014a34e799f1bde",
    "one-shot-v1": "2df9c31fcf8b9126ea43f07b919388615bb18f8c9ccbe488372edbd15d324381",
    "quick-v2": "ad30c7fe627c50ad330e372f9a1926fe24b48dfbb683e8e568f25ed6b816de68",
    "quick-v1": "7cf34fb3252ae5f6dd3d2c73c1188883f32880f149836e660e808575e9480f24",
    "sliced-v1": "afb4286b8b88b869818c95b6b8d1075f79bb1fa706f25f6a37e2f9d60875e13d",
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


def test_of_every_id_in_slices_a_plan_and_a_bound_are_known():
    for formulation in FORMULATIONS:
        for name in filter(lambda name: name.endswith("-Sliced"), formulation.traits.variants):
            row = best_known()[formulation.traits.env_id(name)]
            assert 0 < row.bound_ps <= row.best_ps <= row.cheap_ps, name
