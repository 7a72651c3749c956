"""`memplace warm-up` compiles what the first use would, once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import pytest

from memplace_agents.xla_msa.heap import pack
from memplace_env._lib.compilation import begin_preparation, compiled_kernels, end_preparation
from memplace_env.cli import warm_up
from memplace_env.envs.registration import Formulation
from memplace_env.placement.addresses.address_kernels import climb, place_in_order
from memplace_env.placement.addresses.address_tree import search
from memplace_env.placement.compiler import native_plan
from memplace_env.placement.resolve_task import resolve_task
from memplace_env.placement.simulator import evaluate_plan
from tests.cli.conftest import Run


def test_what_is_compiled_stays_so(run: Run, parsed: Callable[..., Any]) -> None:
    assert run("warm-up", "--formulation", "steps").exit_code == 0
    before = compiled_kernels()
    document = parsed("warm-up", "--formulation", "steps")
    assert document["kernels"] == compiled_kernels() - before == 0
    assert document["processor_seconds"] > 0
    assert "Every kernel was compiled already" in run("warm-up", "--formulation", "steps").stdout
    env = gym.make("MemPlaceSteps-v0", workload="synthetic:chain?ops=12&seed=3", accelerator="nnp-i")
    env.reset(seed=1)
    env.step(1)
    assert compiled_kernels() == before, "another program of the formulation needs no kernel more"


def test_kernels_that_small_programs_do_without() -> None:
    """The event simulator, `play` and packings that are hard to find have kernels of their own."""
    warm_up._simulate("event")
    warm_up._end_games()
    warm_up._pack()
    before = compiled_kernels()
    task = resolve_task("synthetic:random?ops=9&seed=1", "tpu-v4i", "event")
    evaluate_plan(task, native_plan(task))
    game: Any = gym.make("MallocGame-v0", workload="synthetic:chain?ops=12&seed=3", skip_forced=True).unwrapped
    game.reset(seed=1)
    game.set_state(game.get_state())
    assert compiled_kernels() == before
    assert all(kernel.signatures for kernel in (place_in_order, search, climb, pack))


def test_compiled_functions_are_counted(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def job() -> None:
        begin_preparation(compiling=True)
        end_preparation(compiling=True)

    monkeypatch.setattr(warm_up, "_JOBS", {Formulation.STEPS: lambda: [job, job]})
    assert "Compiled 2 functions;" in run("warm-up").stdout


def test_every_formulation_has_jobs() -> None:
    assert warm_up._JOBS.keys() == set(Formulation)
    assert all(jobs() for jobs in warm_up._JOBS.values())
