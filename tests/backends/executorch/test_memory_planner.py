"""Plans in ExecuTorch's runtime: outputs are those of its own plans, and arenas are no larger."""

import runpy
import subprocess
import sys
import warnings
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest

import memplace_env
from memplace_env._lib.errors import AcceleratorError, WorkloadError
from memplace_env.placement.addresses.memory_packing import pack
from memplace_env.program.blocks import aligned, with_ends
from tests.offenders import every
from tests.source import ROOT

pytest.importorskip("executorch", reason="needs the extra executorch; make executorch installs it")
torch = pytest.importorskip("torch", reason="needs the extra executorch; make executorch installs it")

from memplace_env.backends.executorch import MemPlacePlanner, memory_planner, target_memory_map  # noqa: E402
from tests.backends.executorch import arena_table  # noqa: E402
from tests.backends.executorch.torch_models import SMALL, Branches, Counter, built, exported  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
BOARD = Path(__file__).with_name("board.toml")
BANKS = [int(part) for part in version("executorch").split(".")[:2]] >= [1, 5]
needs_banks = pytest.mark.skipif(not BANKS, reason="ExecuTorch before 1.5 has no banks")


def outputs(program, inputs, runs=2):
    """The tensors that the runtime returns, run by run."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from executorch.runtime import Runtime

        method = Runtime.get().load_program(program.buffer).load_method("forward")
        return [tensor.clone() for _ in range(runs) for tensor in method.execute(inputs)]


def compare(network, inputs, planner, **options):
    """The program with a planner, after outputs were compared with those of ExecuTorch's own plan."""
    program = exported(network, inputs, planner, **options)
    ours, theirs = outputs(program, inputs), outputs(exported(network, inputs, **options), inputs)
    assert len(ours) == len(theirs)
    assert all(map(torch.equal, ours, theirs))
    return program


def sram(chip, size):
    """The board with so many bytes of SRAM."""
    chip.write_text(BOARD.read_text("utf-8").replace("98_304", str(size)))
    return chip


@every("make", SMALL.values())
def test_the_smallest_arena_has_the_same_outputs(make):
    planner = MemPlacePlanner()
    program = compare(*built(make), planner)
    (sizes,) = planner.sizes
    assert sizes.bound <= sum(sizes.planned) <= sum(sizes.default)
    assert program.executorch_program.execution_plan[0].non_const_buffer_sizes == sizes.planned
    workload = aligned(with_ends(memplace_env.from_executorch(program)), 16)
    assert workload.live_bytes.max() == sizes.bound


def test_an_arena_is_smaller():
    planner = MemPlacePlanner()
    exported(*built(SMALL["transformer"]), planner)
    assert sum(planner.sizes[0].planned) < sum(planner.sizes[0].default)


@every("options", [{"alloc_graph_input": False}, {"alloc_graph_output": False}])
def test_inputs_or_outputs_may_be_left_to_the_caller(options):
    for chip in (None, BOARD):
        planner = MemPlacePlanner(chip)
        if "alloc_graph_output" in options:  # the runtime's Python interface takes none
            exported(*built(SMALL["cnn"]), planner, **options)
        else:
            compare(*built(SMALL["cnn"]), planner, **options)
        assert chip or sum(planner.sizes[0].planned) <= sum(planner.sizes[0].default)


@every("make", SMALL.values())
def test_memories_of_a_chip_are_arenas(make, tmp_path):
    network, inputs = built(make)
    for size in (4_096, 40_000):
        planner = MemPlacePlanner(sram(tmp_path / "chip.toml", size), time_limit=20)
        program = compare(network, inputs, planner)
        (sizes,) = planner.sizes
        assert sizes.planned[1] <= size
        assert not sizes.latency_s[1] > sizes.latency_s[0]
        assert memplace_env.validate(planner.task.program, planner.task.accelerator, planner.plan) == []
        assert program.executorch_program.execution_plan[0].non_const_buffer_sizes == sizes.planned


@every("chip", [None, BOARD])
def test_what_stays_from_run_to_run_keeps_its_place(chip):
    inputs = (torch.randn(64),)
    compare(Counter(), inputs, MemPlacePlanner(chip))


def test_control_flow_is_refused():
    with pytest.raises(WorkloadError, match="control flow"):
        exported(Branches(), (torch.randn(4),), MemPlacePlanner())


def test_a_chip_without_room_is_refused(tmp_path):
    chip = tmp_path / "chip.toml"
    chip.write_text(BOARD.read_text("utf-8").replace("67_108_864", "1_024"))
    with pytest.raises(AcceleratorError, match="more than"):
        exported(*built(SMALL["cnn"]), MemPlacePlanner(chip))


@every("chip", [None, BOARD] if BANKS else [None])
def test_a_worse_plan_is_not_kept(chip, monkeypatch):
    """Neither is a larger arena, nor a plan with all in the slowest memory."""
    planner = MemPlacePlanner(chip)

    def worse(*columns, **options):
        packed = pack(*columns, **options)
        return packed._replace(offset=packed.offset + 1024)

    if chip is None:
        monkeypatch.setattr(memory_planner, "pack", worse)
    else:
        monkeypatch.setattr(memory_planner, "load_plugin", lambda *_: lambda task, *_: backing_plan(task))
    compare(*built(SMALL["cnn"]), planner)
    assert planner.sizes[0].planned == planner.sizes[0].default


@every("chip", [None, BOARD])
def test_a_tensor_that_has_an_arena_keeps_it(chip):
    planner = MemPlacePlanner(chip)
    kept = []

    def second(alignment, specs, *rest):
        specs = list(specs)
        kept.extend(spec for spec in specs if spec.nbytes() == max(one.nbytes() for one in specs))
        for spec in kept:
            spec.mem_id = 2
        return planner(alignment, specs, *rest)

    compare(*built(SMALL["cnn"]), second)
    assert {spec.mem_id for spec in kept} == {2}


def backing_plan(task):
    """All in the backing memory."""
    return task.make_plan(np.full(task.program.num_uses, task.backing), np.empty((0, 5)))


def test_a_plan_that_overlaps_is_noticed_by_executorch(monkeypatch):
    planner = MemPlacePlanner()

    def overlapping(*columns, **options):
        packed = pack(*columns, **options)
        return packed._replace(offset=np.zeros_like(packed.offset))

    monkeypatch.setattr(memory_planner, "pack", overlapping)
    with pytest.raises(Exception, match="overlap"):
        exported(*built(SMALL["cnn"]), planner)


@needs_banks
def test_a_memory_map_has_the_memories_of_the_chip():
    banks = target_memory_map(BOARD).banks
    assert [(bank.name, bank.size, bank.mem_id) for bank in banks] == [("SRAM", 98_304, 1), ("DRAM", 67_108_864, 2)]


@pytest.mark.slow
def test_the_table_is_what_the_command_prints():
    table = "\n".join(arena_table.rows())
    assert table in (ROOT / "docs" / "toolchains.md").read_text("utf-8")


def test_the_tutorial_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(ROOT / "examples" / "executorch_plan.py"), run_name="__main__")
    assert "before 196,608 bytes, after 172,032" in capsys.readouterr().out


def test_the_package_is_imported_when_it_is_used():
    code = (
        "import sys, memplace_env.backends.executorch; sys.exit('executorch' in sys.modules or 'torch' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
