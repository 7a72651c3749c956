"""compile_mapping: kernels equal the readable reference, and every plan they make can run."""

import multiprocessing

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memplace_env.accelerator import load_accelerator
from memplace_env.compiler import compile_mapping, native, weights_first
from memplace_env.compiler.evaluate import evaluate
from memplace_env.compiler.schedule import placeable_bytes, schedule
from memplace_env.errors import ActionError
from memplace_env.plan import validate
from memplace_env.simulator import simulate
from memplace_env.simulator.builtin import energy_j
from memplace_env.workload.program import TensorKind
from memplace_env.workload.synthetic import random_dag
from tests import reference
from tests.strategies import accelerators, mappings, programs

ORDERS = ["weights-before-results", "results-before-weights", "all-weights-first"]


@settings(max_examples=400)
@given(st.data())
def test_kernel_equals_reference(data):
    program, chip = data.draw(programs()), data.draw(accelerators())
    mapping, order = data.draw(mappings(program, chip)), data.draw(st.sampled_from(ORDERS))
    compiled = compile_mapping(program, chip, mapping, order)
    plan, reassigned = reference.compile_mapping(program, chip, mapping, order)
    assert compiled.plan == plan
    assert compiled.reassigned_bytes == reassigned


@settings(max_examples=200)
@given(st.data())
def test_plans_are_valid_and_their_latency_is_the_simulators(data):
    program, chip = data.draw(programs()), data.draw(accelerators())
    rows = np.array([data.draw(mappings(program, chip)) for _ in range(3)])
    batch = evaluate(schedule(program, chip), rows, np.arange(program.num_tensors))
    results = zip(rows, batch.latency_ps, batch.reassigned_bytes, batch.level, strict=True)
    for row, latency, reassigned, level in results:
        plan, moved = compile_mapping(program, chip, row)
        assert validate(program, chip, plan) == []
        report = simulate(program, chip, plan)
        assert report.latency_ps == latency
        assert np.array_equal(level[program.use_tensor], plan.use_level)
        assert moved == reassigned <= placeable_bytes(program)
        assert report.stall_ps.sum() == 0
        assert report.tail_ps == 0


@given(st.data())
def test_energy_of_the_kernel_is_the_simulators(data):
    program, chip = data.draw(programs()), data.draw(accelerators())
    mapping = data.draw(mappings(program, chip))
    batch = evaluate(schedule(program, chip), np.array([mapping]), np.arange(program.num_tensors))
    report = simulate(program, chip, compile_mapping(program, chip, mapping).plan)
    assert report.energy_j == energy_j(int(batch.dynamic_pj[0]), int(batch.latency_ps[0]), chip)


@pytest.mark.parametrize("name", ["nnp-i", "tpu-v4i"])
def test_threads_do_not_change_results(name):
    chip = load_accelerator(name)
    program = random_dag(5, ops=60)
    rows = np.random.default_rng(0).integers(0, chip.num_levels, (1000, program.num_tensors))
    one, two = (evaluate(schedule(program, chip), rows, np.arange(program.num_tensors), n) for n in (1, 2))
    assert all((a == b).all() for a, b in zip(one, two, strict=True))


def test_forked_processes_evaluate_too():
    """As AsyncVectorEnv does it: the parent has used its threads, the child must make its own."""
    chip, program = load_accelerator("nnp-i"), random_dag(5, ops=10)
    rows = np.zeros((300, program.num_tensors), dtype=np.int64)
    slot = np.arange(program.num_tensors)
    expected = evaluate(schedule(program, chip), rows, slot, 2).latency_ps.tolist()
    context = multiprocessing.get_context("fork")
    receive, send = context.Pipe(duplex=False)

    def child() -> None:
        send.send(evaluate(schedule(program, chip), rows, slot, 2).latency_ps.tolist())

    process = context.Process(target=child)
    process.start()
    try:
        assert receive.poll(60), "the child hangs"
        assert receive.recv() == expected
    finally:
        process.kill()
        process.join()


@settings(max_examples=100)
@given(st.data())
def test_native_is_the_faster_of_its_two_orders(data):
    program, chip = data.draw(programs()), data.draw(accelerators())
    reads = [program.use_bytes[program.use_tensor == k].max() for k in range(program.num_tensors)]
    weight = program.tensor_kind == TensorKind.WEIGHT
    wanted = np.where(weight & (reads < program.tensor_bytes), chip.backing, 0)
    both = [simulate(program, chip, compile_mapping(program, chip, wanted, order).plan) for order in ORDERS[:2]]
    assert simulate(program, chip, native(program, chip)).latency_ps == min(report.latency_ps for report in both)
    assert validate(program, chip, weights_first(program, chip)) == []


def test_bad_mappings_are_refused():
    program, chip = random_dag(1), load_accelerator("nnp-i")
    good = np.zeros(program.num_tensors, dtype=np.int64)
    for bad in (good[:-1], good.astype(float), good - 1, good + 3, good[None]):
        with pytest.raises(ActionError, match="mapping"):
            compile_mapping(program, chip, bad)
