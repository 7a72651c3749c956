"""Published figures that the simulator must agree with."""

from benchmarks.anchors import PUBLISHED_IMAGES_PER_S, images_per_s


def test_published_resnet50_rate_lies_between_the_extremes():
    rates = images_per_s()
    assert rates["all in DRAM"] < PUBLISHED_IMAGES_PER_S < rates["all in SRAM, unlimited"]
    assert rates["all in DRAM"] < rates["native"] < rates["all in SRAM, unlimited"]
