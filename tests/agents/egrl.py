"""Small runs of EGRL, and their comparison bit for bit."""

from dataclasses import replace

import torch

from memplace_agents.built_in_agents import CHECKPOINT, POLICY
from memplace_agents.egrl import EGRLConfig
from memplace_agents.egrl.egrl_config import CONFIGS
from memplace_agents.egrl.population import genome_of
from memplace_agents.learning import safe_files
from memplace_agents.learning.graph_policy import GraphPolicy
from memplace_agents.learning.policy_file import load_policy

KIND = "egrl-run/2"
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
    return replace(variant, **SMALL | {"imagined": min(variant.imagined, FEW_IMAGINED)} | changes)


def outcome(solution):
    """Return all of a solution but the seconds."""
    history = [(progress.evaluations, progress.latency_s) for progress in solution.history]
    return solution.plan, solution.report.latency_ps, history, solution.evaluations


def plain(state):
    """Return a state without seconds, in a form that == compares bit for bit."""
    if isinstance(state, torch.Tensor):
        return str(state.dtype), tuple(state.shape), state.numpy().tobytes()
    if isinstance(state, dict):
        values = {key: plain(value) for key, value in state.items() if key != "seconds"}
        return values | {"history": [entry[::2] for entry in state["history"]]} if "history" in values else values
    return [plain(value) for value in state] if isinstance(state, list | tuple) else state


def remembered(folder):
    """Return the files of a run in a folder: its whole state, and its policy."""
    return plain(safe_files.load(folder / CHECKPOINT, KIND)), genome_of(
        load_policy(folder / POLICY, GraphPolicy)
    ).tobytes()
