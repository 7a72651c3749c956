"""Planted programs hold what they promise; random ones are programs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memplace_env._lib.errors import WorkloadError
from memplace_env.machine.accelerator import load_accelerator
from memplace_env.placement.compiler import native_report, place_levels
from memplace_env.placement.resolve_task import make_task
from memplace_env.placement.simulator import evaluate_plan
from memplace_env.placement.synthetic import TOPOLOGIES, from_spec, planted, random_dag
from tests.offenders import every
from tests.thorough import examples

SETTINGS = {
    "topology": st.sampled_from(sorted(TOPOLOGIES)),
    "ops": st.integers(4, 40),
    "seed": st.integers(0, 10**6),
    "hot": st.sampled_from([0.0, 0.3, 0.5, 0.8, 1.0]),
}


@examples(60)
@given(**SETTINGS, chip=st.sampled_from(["nnp-i", "tpu-v4i", "edge-tpu"]))
def test_planted_mapping_reaches_the_sum_of_compute_times(topology, ops, seed, hot, chip):
    program, mapping = planted(topology, ops=ops, seed=seed, hot=hot, accelerator=chip)
    task = make_task(program, load_accelerator(chip), costs="roofline")
    plan, reassigned = place_levels(task, mapping)
    report = evaluate_plan(task, plan)
    assert reassigned == 0
    assert report.latency_ps == task.costs.compute_ps.sum()
    assert report.latency_ps >= report.traffic_bound_ps


def test_planted_optimum_is_worth_looking_for():
    chip = load_accelerator("nnp-i")
    for topology in TOPOLOGIES:
        program, mapping = planted(topology, seed=3)
        task = make_task(program, chip, costs="roofline")
        best = evaluate_plan(task, place_levels(task, mapping).plan).latency_ps
        assert native_report(task).latency_ps > 1.1 * best


def test_specs_name_programs():
    assert from_spec("synthetic:chain?ops=9&seed=2").sha256 == planted("chain", ops=9, seed=2).program.sha256
    assert from_spec("synthetic:random?ops=9&seed=2").sha256 == random_dag(2, ops=9).sha256
    program = planted("fan-out", ops=9, seed=2, hot=0.7).program
    assert from_spec(program.name).sha256 == program.sha256


@every(
    ("spec", "sentence"),
    [
        ("synthetic:star", "star.*chain"),
        ("synthetic:chain?opps=3", "opps.*ops"),
        ("synthetic:chain?ops=many", "many.*int"),
        ("synthetic:chain?ops=3", "4..100000 ops"),
        ("synthetic:chain?hot=2", "hot"),
        ("synthetic:random?ops=0", "1..100000 ops"),
        ("synthetic:chain?accelerator=/dev/zero", "names a shipped accelerator"),
        ("synthetic:chain?accelerator=mine.toml", "names a shipped accelerator"),
        ("synthetic:chain?accelerator=", "names a shipped accelerator"),
        ("synthetic://[", "No synthetic workload"),
        ("synthetic:random?ops=1000000000000", "1..100000 ops"),
        ("synthetic:chain?ops=1000000000000", "4..100000 ops"),
        (f"synthetic:chain?seed={2**64}", "seed of 0..2"),
        ("synthetic:chain?" + "&" * 10_001, "the limit is 10,000"),
        ("synthetic://[", "called '//\\['"),
        ("synthetic:chain?ops=" + "9" * 5_000, "not of type int"),
        ("synthetic:random?hot=1", "hot"),
    ],
)
def test_bad_specs_are_refused(spec, sentence):
    with pytest.raises(WorkloadError, match=sentence):
        from_spec(spec)


@given(st.integers(0, 10**6), st.integers(1, 30))
def test_random_programs_are_reproducible(seed, ops):
    assert random_dag(seed, ops=ops).sha256 == random_dag(seed, ops=ops).sha256
    assert random_dag(seed, ops=ops).num_ops == ops
