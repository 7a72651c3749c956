"""The rule that gives ids, replayed from what was measured."""

import pytest

from benchmarks import sliced_ids, suite
from benchmarks.ids_file import registered
from benchmarks.ledger import Ledger
from memplace_env._lib.units import PS
from memplace_env.envs.registration import Formulation
from memplace_env.envs.splits import FORMULATIONS
from memplace_env.leaderboard.suite import load_suite
from memplace_env.machine.accelerator import load_accelerator
from memplace_env.placement.workloads import resolve_workload

RECORDS = Ledger(suite.RESULTS, suite.FIELDS).of(suite.candidates())


def test_the_ids_are_those_that_the_rule_gives():
    entries = registered()
    del entries["variants"]
    assert entries == suite.ids(RECORDS)


def test_the_sliced_ids_are_those_that_the_rule_gives():
    variant = {"settings": {"slices": sliced_ids.SHARE}, **sliced_ids.chosen(sliced_ids.measured())}
    assert registered()["variants"]["Sliced"] == variant


def test_what_was_measured_is_what_is_registered():
    """A program that was exported anew, or costs that changed, would leave figures of something else."""
    pinned = {**load_suite("one-shot-v1").instances, **load_suite("game-v1").instances}
    for record in suite.chosen(RECORDS):
        formulation = Formulation(record["formulation"])
        instance = pinned[formulation.traits.env_id(suite.id_name(record))]
        assert record["ops"] == instance.ops, instance.env_id
        if formulation is Formulation.ONE_SHOT:
            assert round(record["native_s"] / PS) == instance.baseline_ps, instance.env_id


def test_there_are_as_many_as_there_should_be():
    """52 games, as mallocMuZero was measured on, and 40 maps, on four chips or more, that leave what the rule asks."""
    for formulation, least in zip(FORMULATIONS, (40, 52), strict=True):
        left = [
            each for each in suite.chosen(RECORDS) if each["formulation"] == formulation and suite.passes(each, each)
        ]
        assert len(left) >= least
        assert len({each["accelerator"] for each in left}) >= 4
        assert all(each["plan_s"] < each["cheap_s"] for each in left)
        assert all(each["bound_s"] <= each["plan_s"] * (1 + 1e-9) for each in left)


def test_settings_were_tried_in_the_order_of_the_rule():
    for record in RECORDS[::6]:  # contended batches take a look at the program
        order = suite.settings({key: record[key] for key in suite.FIELDS})
        tried = [suite.bare(each) for each in record["tried"]]
        assert [setting for setting in order if setting in tried] == tried
        assert not any(suite.passes(record, each) for each in record["tried"][:-1])


def test_contended_batches_fill_fast_memory():
    place = {"formulation": "game", "workload": "ResNet18", "accelerator": "edge-tpu"}
    room = load_accelerator("edge-tpu").levels[0].capacity_bytes
    for times, batch in zip(suite.CONTENTION, suite.contended(place, "int8", {}), strict=True):
        filled = resolve_workload("ResNet18", batch=batch, dtype="int8").live_bytes.max() / room
        assert times / 2 <= filled <= 2 * times


def test_a_candidate_continues_where_it_was_stopped(monkeypatch):
    place = {"formulation": "game", "workload": "AlexNet", "accelerator": "edge-tpu"}
    order = suite.settings(place)
    measured = []
    monkeypatch.setattr(suite, "_measure_game", lambda setting, enough: measured.append(setting) or {"ops": 1})
    begun = {**place, "tried": [{**order[0], "ops": 1}, {**order[1], "ops": 1000, "searched": 6.0}]}
    assert not suite.finished(begun)
    whole = suite.measure(begun)
    assert [suite.bare(each) for each in measured] == order[1:], "the second was not searched for long enough"
    assert whole["tried"][0] == begun["tried"][0]
    assert suite.finished(whole)


@pytest.mark.parametrize(("headroom", "chip", "passes"), [(1.015, "nnp-i", True), (1.015, "tpu-v4i", False)])
def test_one_shot_ids_need_less_at_home(headroom, chip, passes):
    place = {"formulation": "one-shot", "workload": "AlexNet", "accelerator": chip}
    assert suite.passes(place, {"cheap_s": headroom, "plan_s": 1.0}) is passes
