"""Constants of a chip are found again from what they make of latencies, and no more is claimed than is known."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memplace_env._lib.errors import CalibrationError
from memplace_env.machine.accelerator import Accelerator, load_accelerator
from memplace_env.machine.accelerator.description import Description, Field
from memplace_env.machine.costs import Costs, Roofline
from memplace_env.placement.compiler import all_backing, native_report
from memplace_env.placement.resolve_task import make_task
from memplace_env.placement.simulator import evaluate_plan
from memplace_env.program.builder import ProgramBuilder
from memplace_env.program.program import Program, TensorKind
from memplace_env.report.calibration import Calibration, Measurement, calibrate, constant_names
from memplace_env.report.calibration.calibration import calibration_tables, error_text
from memplace_env.report.calibration.chip_constants import chosen_constants, values_at
from memplace_env.report.tables import plain_text
from tests.thorough import examples

COMPUTE, OVERHEAD = ("compute", "efficiency"), ("compute", "op_overhead_ns")
DRAM = ("memory", 2, "efficiency")
PLANTED = {COMPUTE: Decimal("0.61"), OVERHEAD: Decimal(1500), DRAM: Decimal("0.55")}
NAMES = ["compute.efficiency", "op_overhead_ns", "DRAM.efficiency"]


@cache
def layers(ops: int, rows: int, weight_bytes: int) -> Program:
    """A chain of products: many rows make it wait for compute, many bytes for DRAM, many ops for their overhead."""
    builder = ProgramBuilder(f"layers-{ops}-{rows}-{weight_bytes}", "int8")
    last = builder.tensor("x", 1000, TensorKind.INPUT)
    for op in range(ops):
        weight = builder.tensor(f"w{op}", weight_bytes, TensorKind.WEIGHT)
        result = builder.tensor(f"h{op}", 1000, TensorKind.OUTPUT if op == ops - 1 else TensorKind.ACTIVATION)
        builder.op("Gemm", [last, weight], [result], gemm=(1, rows, 1000, 1000))
        last = result
    return builder.build()


PROGRAMS = (
    layers(4, 4000, 1000),
    layers(4, 10, 40_000_000),
    layers(40, 10, 1000),
    layers(6, 500, 20_000_000),
    layers(20, 200, 3_000_000),
    layers(9, 900, 100_000),
)


def measured(
    description: Description,
    values: Mapping[Field, Decimal],
    programs: tuple[Program, ...] = PROGRAMS,
    noise: float = 0.0,
    costs: object = None,
) -> list[Measurement]:
    """Return latencies of a chip with these values, with an error."""
    real, chip = description.accelerator(values), description.accelerator({})
    errors = np.exp(noise * np.random.default_rng(1).normal(size=len(programs)))
    return [
        Measurement(
            program.name,
            make_task(program, chip, costs=costs),
            native_report(make_task(program, real, costs=costs)).latency_s * error,
        )
        for program, error in zip(programs, errors.tolist(), strict=True)
    ]


@pytest.fixture(scope="module")
def nnp() -> Description:
    return Description.read("nnp-i")


@pytest.fixture(scope="module")
def exact(nnp: Description) -> Calibration:
    return calibrate(nnp, measured(nnp, PLANTED, PROGRAMS[:5]), fit=NAMES)


def test_planted_constants_are_found_again(exact: Calibration) -> None:
    found = {fitted.constant.field: fitted for fitted in exact.constants}
    assert found.keys() == PLANTED.keys()
    for field, planted in PLANTED.items():
        assert found[field].after == pytest.approx(float(planted), rel=0.01)
        assert found[field].determined
        error = found[field].standard_error
        assert error is not None
        assert error < 0.02 * float(planted)
    assert exact.left == dict.fromkeys(["LLC.efficiency", "SRAM.efficiency"], "not asked for")
    assert exact.error(exact.before_s) > 0.5
    assert exact.error(exact.after_s) < 0.005
    assert exact.left_out_s is not None
    assert exact.error(exact.left_out_s) < 0.05


def test_what_does_not_matter_stays_as_it_was(nnp: Description) -> None:
    found = calibrate(
        nnp, measured(nnp, {DRAM: PLANTED[DRAM]}, PROGRAMS[:3]), fit=["DRAM.efficiency", "SRAM.efficiency"]
    )
    dram, fast = found.constants
    assert (fast.after, fast.determined, fast.standard_error) == (1, False, None)
    assert found.values.keys() == {DRAM}
    assert dram.determined
    assert "not determined by these measurements" in plain_text(calibration_tables(found)[0], 140)


def test_noise_is_not_fitted_away(nnp: Description) -> None:
    noise = 0.03
    found = calibrate(nnp, measured(nnp, PLANTED, PROGRAMS[:4], noise), fit=NAMES)
    assert found.error(found.after_s) < 1.5 * noise
    for fitted in found.constants:
        assert fitted.standard_error is not None
        planted = float(PLANTED[fitted.constant.field])
        assert abs(fitted.after - planted) < 4 * fitted.standard_error
        assert fitted.after == pytest.approx(planted, rel=4 * noise)


def test_the_written_file_is_the_fitted_chip(exact: Calibration, tmp_path: Path) -> None:
    path = tmp_path / "fitted.toml"
    path.write_text(exact.description.rewritten("fitted", exact.values, "Fitted."))
    chip = load_accelerator(path)
    assert chip == replace(exact.accelerator, name="fitted")
    again = [native_report(make_task(program, chip)).latency_s for program in PROGRAMS[:5]]
    assert again == exact.after_s.tolist()


def test_the_same_again(nnp: Description) -> None:
    first, second = (
        calibrate(nnp, measured(nnp, PLANTED, PROGRAMS[:3], 0.1)).to_json() for _ in range(2)
    )  # fmt: skip
    assert json.dumps(first, allow_nan=False) == json.dumps(second)


def test_as_many_constants_as_measurements(nnp: Description) -> None:
    measurements = measured(nnp, PLANTED, PROGRAMS[:2])
    found = calibrate(nnp, measurements)
    assert [fitted.constant.name for fitted in found.constants] == constant_names(nnp)[:2]
    assert found.left == dict.fromkeys(constant_names(nnp)[2:], "more constants than measurements")
    assert found.left_out_s is None
    assert "nothing is left out" in error_text(found)
    with pytest.raises(CalibrationError, match="2 measurements cannot determine 3 constants"):
        calibrate(nnp, measurements, fit=NAMES)


@pytest.mark.parametrize(
    ("fit", "message"),
    [
        (["dram.efficiency"], "did you mean DRAM.efficiency"),
        (["clock"], "is not a constant of 'nnp-i': it has compute.efficiency"),
        (["DRAM.efficiency", "DRAM.efficiency"], "once"),
        ([], "at least one"),
    ],
)
def test_names_that_cannot_be(nnp: Description, fit: list[str], message: str) -> None:
    with pytest.raises(CalibrationError, match=message):
        calibrate(nnp, measured(nnp, {}), fit=fit)
    with pytest.raises(CalibrationError, match="no measurements"):
        calibrate(nnp, [])


def test_what_cannot_be_told_apart_is_said(nnp: Description) -> None:
    """Ops that all move the same bytes are slow because of DRAM or of their overhead, who knows."""
    same = tuple(layers(ops, 1, 40_000_000) for ops in (4, 5, 8))
    found = calibrate(nnp, measured(nnp, {DRAM: Decimal("0.5")}, same), fit=["DRAM.efficiency", "op_overhead_ns"])
    assert found.error(found.after_s) < 0.01
    assert [fitted.determined for fitted in found.constants] == [False, False]
    assert "not determined by these measurements" in plain_text(calibration_tables(found)[0], 140)


def test_bounds_hold(nnp: Description) -> None:
    """A chip that is faster than its data sheet cannot be; the constant ends at its bound and says so."""
    faster = [each._replace(latency_s=each.latency_s / 2) for each in measured(nnp, {}, PROGRAMS[:2])]
    found = calibrate(nnp, faster, fit=["DRAM.efficiency"])
    (dram,) = found.constants
    assert (dram.after, dram.at_bound) == (1, True)
    assert found.values == {}
    assert found.accelerator == load_accelerator("nnp-i")
    assert "at its bound" in plain_text(calibration_tables(found)[0], 140)


def test_a_plan_that_was_measured(nnp: Description) -> None:
    """Its own latency counts, not that of the compiler's."""
    chip, real = nnp.accelerator({}), nnp.accelerator({DRAM: Decimal("0.5")})
    program = layers(9, 10, 200_000)
    task = make_task(program, chip)
    plan = all_backing(task)
    latency_s = evaluate_plan(make_task(program, real), plan, trusted=True).latency_s
    found = calibrate(nnp, [Measurement("saved", task, latency_s, plan)], fit=["DRAM.efficiency"])
    assert found.constants[0].after == pytest.approx(0.5, rel=1e-3)
    assert native_report(make_task(program, real)).latency_s < latency_s


class Slow:
    """The roofline, three times slower in compute."""

    def costs(self, program: Program, accelerator: Accelerator) -> Costs:
        costs = Roofline().costs(program, accelerator)
        return costs._replace(compute_ps=3 * costs.compute_ps)


def test_any_cost_model(nnp: Description) -> None:
    found = calibrate(
        nnp, measured(nnp, PLANTED, PROGRAMS[:3], costs=Slow()), costs=Slow(), fit=["compute.efficiency", *NAMES[1:]]
    )
    for fitted in found.constants:
        assert fitted.after == pytest.approx(float(PLANTED[fitted.constant.field]), rel=0.01)


def test_tables(exact: Calibration) -> None:
    constants, residuals = (plain_text(table, 140) for table in calibration_tables(exact))
    assert all(name in constants for name in constant_names(exact.description))
    assert all(program.name in residuals for program in PROGRAMS[:5])
    assert "where each is predicted from the others" in error_text(exact)


@examples(60)
@given(
    st.sampled_from(["nnp-i", "tpu-v4i", "ethos-u65", "intel-npu-4000"]),
    st.lists(st.booleans(), min_size=5, max_size=5).filter(any),
    st.lists(st.floats(0, 1), min_size=5, max_size=5),
    st.sampled_from([6, 12]),
)
def test_every_candidate_is_a_chip(chip: str, which: list[bool], shares: list[float], digits: int) -> None:
    """Wherever between its bounds a fit goes, levels stay in order and shares are shares."""
    description = Description.read(chip)
    names = [name for name, wanted in zip(constant_names(description), which, strict=False) if wanted]
    names = names or constant_names(description)
    constants, _ = chosen_constants(description, names, 9, 1000.0)
    ends = [(each.coordinate(each.low), each.coordinate(each.high)) for each in constants]
    at = [low + share * (high - low) for (low, high), share in zip(ends, shares, strict=False)]
    description.accelerator(values_at(description, constants, at, digits))
