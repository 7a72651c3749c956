"""Small runs of EGRL, and what tells whether two are the same."""

from dataclasses import replace

import torch

from agents.egrl import EGRLConfig
from agents.egrl.config import CONFIGS
from agents.egrl.population import genome_of
from agents.learning import files
from agents.learning.graph_policy import GraphPolicy
from agents.learning.policy_file import load_policy
from agents.learning.training import CHECKPOINT, POLICY

KIND = "egrl-run/2"
SMALL = {"population": 6, "elites": 2, "hidden": 8, "depth": 2, "attention_heads": 2, "batch": 8}
VARIANTS = {
    **CONFIGS,
    "ea": EGRLConfig(gradient=False),
    "pg": EGRLConfig(evolution=False),
    "no-boltzmann": EGRLConfig(boltzmann=0.0),
    "no-refinement": EGRLConfig(refine=0.0),
    "refine-only": EGRLConfig(evolution=False, gradient=False),
    "write-back": EGRLConfig(write_back=True, refine=0.2),
}


def small(name="default", **changes):
    """A variant that is quick."""
    return replace(VARIANTS[name], **SMALL | changes)


def outcome(solution):
    """All of a solution but the seconds."""
    history = [(progress.evaluations, progress.latency_s) for progress in solution.history]
    return solution.plan, solution.report.latency_ps, history, solution.evaluations


def plain(state):
    """A state without seconds, in a form that == compares bit for bit."""
    if isinstance(state, torch.Tensor):
        return str(state.dtype), tuple(state.shape), state.numpy().tobytes()
    if isinstance(state, dict):
        kept = {key: plain(value) for key, value in state.items() if key != "seconds"}
        return kept | {"history": [entry[::2] for entry in state["history"]]} if "history" in kept else kept
    return [plain(value) for value in state] if isinstance(state, list | tuple) else state


def remembered(folder):
    """What the run in a folder has written: its whole state, and its policy."""
    return plain(files.load(folder / CHECKPOINT, KIND)), genome_of(load_policy(folder / POLICY, GraphPolicy)).tobytes()
