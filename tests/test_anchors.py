"""Published figures that the simulator must agree with."""

import pytest

from benchmarks.experiments import anchors, nnp_i, tpu_cmem
from benchmarks.harness import ROOT
from memplace_env.machine.accelerator import load_accelerator
from memplace_env.machine.costs import Roofline
from memplace_env.machine.costs.tiled import Tiled

DERATED = ROOT / "benchmarks" / "data" / "tpu-v4i-derated.toml"


@pytest.mark.parametrize("anchor", [*anchors.NNP_I, *anchors.TPU_V4I])
def test_bounds_are_met(anchor):
    assert abs(anchor.error(anchor.simulate(Tiled()))) <= (anchor.bound or 0.05)


@pytest.mark.slow
@pytest.mark.parametrize("anchor", anchors.TPU_V4I_BERT)
def test_bounds_are_met_by_bert(anchor):
    assert abs(anchor.error(anchor.simulate(Tiled()))) <= (anchor.bound or 0.05)


def test_one_assumption_about_loads_meets_both_rates_of_the_nnp_i_and_the_other_neither():
    hidden = nnp_i.THROUGHPUT._replace(loads="hidden")
    for tops, published in nnp_i.PUBLISHED.items():
        assert nnp_i.images_per_s(hidden, tops, Tiled()) > 1.2 * published
        assert abs(nnp_i.images_per_s(nnp_i.THROUGHPUT, tops, Tiled()) / published - 1) < 0.2


def test_one_tile_buffer_meets_both_rates_of_the_nnp_i_and_two_neither():
    for tops, published in nnp_i.PUBLISHED.items():
        assert anchors.event_images_per_s(tops, 2) > 1.2 * published
        assert abs(anchors.event_images_per_s(tops, 1) / published - 1) < 0.2


@pytest.mark.parametrize("case", [tpu_cmem.SERVER, tpu_cmem.OFFLINE])
def test_events_keep_the_gain_of_cmem(case):
    assert anchors.cmem_gain(case) == pytest.approx(case.published, rel=0.1)


def test_the_registered_nnp_i_lies_within_the_bound_too():
    alone = nnp_i.Mode(groups=1, batch=1)
    assert nnp_i.group_of(load_accelerator("nnp-i"), alone) == load_accelerator("nnp-i")
    for tops, published in nnp_i.PUBLISHED.items():
        assert nnp_i.images_per_s(alone, tops, Tiled()) == pytest.approx(published, rel=0.2)


def test_tiled_is_closer_to_the_nnp_i_than_the_roofline():
    for anchor in anchors.NNP_I:
        tiled, ideal = (abs(anchor.error(anchor.simulate(model))) for model in (Tiled(), Roofline()))
        assert tiled < ideal


def test_derated_hbm_gains_too_much_by_cmem():
    derated = tpu_cmem.with_memory("0.75", 0)
    assert tpu_cmem.speedup(tpu_cmem.SERVER, Tiled(), derated) > 1.1 * tpu_cmem.SERVER.published


def test_the_derated_chip_is_still_at_hand():
    old, derated = load_accelerator(DERATED), tpu_cmem.with_memory("0.75", 0)
    assert old.levels == derated.levels
    assert old.dma_bytes_per_s == derated.dma_bytes_per_s == (460_500_000_000, 460_500_000_000)


def test_more_cmem_is_never_slower_and_the_curve_is_that_of_the_paper():
    curve = tpu_cmem.performance_by_capacity(tpu_cmem.SERVER, Tiled())
    shares = list(curve.values())
    assert shares == sorted(shares)
    for mib, published in tpu_cmem.CAPACITY.items():
        assert curve[mib] == pytest.approx(published, abs=0.1)


@pytest.mark.parametrize("layer", anchors.SCALE_SIM)
def test_scale_sim_is_met_exactly(layer):
    assert anchors.closed_form(layer) == layer.cycles


def test_zigzag_lies_above_the_roofline_of_the_same_bytes():
    assert anchors.zigzag_cycles(Roofline(), 2) == pytest.approx(anchors.ZIGZAG_ROOFLINE, rel=0.02)
    assert anchors.zigzag_cycles(Roofline()) <= anchors.zigzag_cycles(Tiled()) < anchors.ZIGZAG_CYCLES


def test_the_edge_tpu_says_nothing_of_its_unit_and_is_faster_than_measured():
    anchor = anchors.EDGE_TPU[0]
    assert load_accelerator("edge-tpu").tiling is None
    assert list(anchor.simulated()) == ["roofline"]
    assert anchor.simulate(Roofline()) < anchor.published
