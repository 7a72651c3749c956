"""Small runs of EGRL, and their comparison bit for bit."""

from dataclasses import replace

from memplace_agents.egrl import EGRLConfig
from memplace_agents.egrl.egrl_config import CONFIGS

SMALL = {"population": 6, "elites": 2, "hidden": 8, "depth": 2, "batch": 8}
FEW_IMAGINED = 2_000
VARIANTS = {
    **CONFIGS,
    "ea": EGRLConfig(gradient=False),
    "pg": EGRLConfig(evolution=False),
    "no-boltzmann": EGRLConfig(boltzmann=0.0),
    "no-refinement": EGRLConfig(refine=0.0),
    "refine-only": EGRLConfig(evolution=False, gradient=False),
}


def small(name="default", **changes):
    """Return a variant that is quick."""
    variant = VARIANTS[name]
    few = {"imagined": min(variant.imagined, FEW_IMAGINED), "practice": min(variant.practice, 2)}
    return replace(variant, **SMALL | few | changes)
