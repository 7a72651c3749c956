"""`MemPlacePlanner`: the smallest arena, or the best memories of a chip, as a planner of ExecuTorch."""

from __future__ import annotations

import math
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from memplace_env._lib.errors import AgentError, ExecutionError, PlanError, WorkloadError
from memplace_env._lib.plugins import PLANNERS, load_plugin
from memplace_env._lib.units import round_up
from memplace_env.backends.executorch.graph_program import bytes_of, graph_program, refuse_control_flow, root_of
from memplace_env.machine.accelerator import Accelerator, load_accelerator
from memplace_env.placement.addresses.memory_packing import pack
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.resolve_task import resolve_task
from memplace_env.placement.simulator import evaluate_plan
from memplace_env.placement.task import Task
from memplace_env.program.program import Ints


class ArenaSizes(NamedTuple):
    """Bytes of the arenas of one method; the first, of constants, is always 0.

    Attributes:
        default: those of ExecuTorch's own planner; empty if it has no plan for the chip.
        planned: those of the plan that was kept.
        bound: bytes that one arena is proven to need; None with a chip.
        latency_s: seconds of the default plan, NaN if there is none, and of the one that was kept, by the chip's cost
            model; None without a chip.
    """

    default: list[int]
    planned: list[int]
    bound: int | None
    latency_s: tuple[float, float] | None = None


class MemPlacePlanner:
    """A planner of ExecuTorch: pass it to `MemoryPlanningPass` as its `memory_planning_algo`, and not in a suite.

    Without a chip all tensors lie in one arena, the smallest that is found. With a chip each memory is an arena: 1 is
    the fastest, the last one the backing memory, and the plan is the fastest that an agent finds for the chip. Graph
    inputs and outputs are tensors as others are, unless the pass leaves them to the caller: then they are outside.

    ExecuTorch's own plan is kept if ours is not smaller, or with a chip not as fast: the greedy one, with a chip that
    of its banks (1.5 and later). Whichever is kept has passed ExecuTorch's own verifier. Weights are not planned, as
    the runtime reads them where the model lies, nor is the inside of delegates. Tensors with a `mem_id` of their own
    keep it.

    Attributes:
        sizes: an `ArenaSizes` for each method planned so far.
        task, plan: the last `Task` and `MemoryPlan` with a chip, for `memplace_env.validate` and pictures.

    Args:
        chip: shipped name, path of a .toml file or an Accelerator; None: one arena.
        agent: name of the agent that chooses memories on a chip, or "module:Class".
        time_limit: seconds that it has; None: as many as it takes.

    Raises:
        AcceleratorError: if the chip cannot be read, or when planning does not hold the tensors.
        AgentError: when planning finds no such agent.
        ExecutionError: when planning lacks ExecuTorch.
        WorkloadError: when planning meets control flow, or tensors on other devices than the CPU.
    """

    def __init__(
        self, chip: str | Path | Accelerator | None = None, agent: str = "exact", time_limit: float | None = None
    ) -> None:
        self.chip = None if chip is None else load_accelerator(chip)
        self._agent, self._time_limit = agent, time_limit
        self.sizes: list[ArenaSizes] = []
        self.task: Task | None = None
        self.plan: MemoryPlan | None = None

    def __call__(
        self, alignment: int, specs: Any, graph_module: Any, graph_signature: Any = None, extra_padding: int = 0
    ) -> list[int]:
        """Give each spec its `mem_id` and `mem_offset`, and return the bytes of each arena; ExecuTorch calls it."""
        if find_spec("executorch") is None:
            needed = "Planning needs ExecuTorch, which is not installed"
            raise ExecutionError(f'{needed}; run: pip install "memplace[executorch]".')
        specs, chip = list(specs), self.chip
        refuse_control_flow(graph_module)
        if elsewhere := [spec for spec in specs if getattr(getattr(spec, "device", None), "name", "CPU") != "CPU"]:
            raise WorkloadError(f"A tensor lies on {elsewhere[0].device.name}; only those of the CPU are planned.")
        roots = list({id(root): root for root, _ in map(root_of, specs)}.values())
        roots.sort(key=lambda root: (*root.lifetime, bytes_of(root)))
        unit = alignment if chip is None else max(alignment, chip.alignment_bytes)
        size = round_up(np.array([bytes_of(root) for root in roots], dtype=np.int64), unit)
        life = np.array([root.lifetime for root in roots], dtype=np.int64).reshape(-1, 2)
        fixed = np.array([root.mem_id or 0 for root in roots], dtype=np.int64)
        default = self._default(alignment, specs, graph_module, graph_signature, extra_padding)
        bound = latency = None
        if chip is None:
            bound, place = 0, np.stack([np.maximum(fixed, 1), np.zeros_like(fixed)], axis=1)
        else:
            number = self._pose(chip, roots, fixed, graph_module, unit, extra_padding)
            theirs = np.array([(root.mem_id, root.mem_offset) for root in roots]) if default else None
            place = self._fastest(number)
            latency = math.nan if theirs is None else self._seconds(number, theirs), self._seconds(number, place)
        for arena in np.unique(place[:, 0]).tolist():
            rows = np.flatnonzero(place[:, 0] == arena)
            packed = pack(size[rows], *life[rows].T, align=unit)
            # The agent's own offsets fit into a fast memory; in the backing memory it gives none.
            if chip is None or arena == chip.num_levels or packed.arena < (place[rows, 1] + size[rows]).max():
                place[rows, 1] = packed.offset
            bound = None if bound is None else bound + packed.bound
        planned = np.zeros(1 + max([chip.num_levels if chip else 1, *place[:, 0].tolist()]), dtype=np.int64)
        np.maximum.at(planned, place[:, 0], place[:, 1] + size + extra_padding)
        sizes: list[int] = planned.tolist()
        if default and (
            sum(sizes) >= sum(default) if latency is None else math.isnan(latency[1]) or latency[0] < latency[1]
        ):
            sizes, latency = default, latency and (latency[0], latency[0])
        else:
            for root, (arena, offset) in zip(roots, place.tolist(), strict=True):
                root.realign(unit)
                root.mem_id, root.mem_offset, root.mem_obj_id = arena, offset, None
            for spec in specs:
                root, shift = root_of(spec)
                spec.mem_id, spec.mem_obj_id = root.mem_id, None
                if spec is not root:
                    spec.mem_offset = root.mem_offset + shift
        _verify(specs, graph_module, graph_signature)
        self.sizes.append(ArenaSizes(default, sizes, bound, latency))
        return sizes

    def _default(self, alignment: int, specs: Any, *graph: Any) -> list[int]:
        """Give specs the places that ExecuTorch's own planner finds, and return its arenas; empty if it has none."""
        from executorch.exir.memory_planning import MemoryPlanningAlgorithmSuite

        if self.chip is None:
            return list(MemoryPlanningAlgorithmSuite()(alignment, specs, *graph))
        try:
            from executorch.exir.banked_memory_planning import BankedGreedy, BankPlacementError
        except ImportError:  # before 1.5
            return []
        banks = BankedGreedy(target_memory_map(self.chip))
        try:
            return list(MemoryPlanningAlgorithmSuite(algo_list=[banks])(alignment, specs, *graph))
        except BankPlacementError:
            return []

    def _pose(self, chip: Accelerator, roots: list[Any], fixed: Ints, graph_module: Any, unit: int, pad: int) -> Ints:
        """Make the task on the chip, less the padding, and return int64[N], the tensor that each root is, or -1."""
        levels = [replace(one, capacity_bytes=max(one.capacity_bytes - pad, 1)) for one in chip.levels]
        made = graph_program(graph_module, "method", ends=True)
        arena = {id(root): int(mem_id) for root, mem_id in zip(roots, fixed, strict=True)}
        if max(arena.values(), default=0) > len(levels):
            raise WorkloadError(f"A tensor has mem_id {fixed.max()}; {chip.name!r} has arenas 1 to {len(levels)}.")
        pins, number = dict[str, str](), dict[int, int]()
        for tensor, (spec, name) in enumerate(zip(made.specs, made.program.tensor_name, strict=True)):
            number[id(spec)] = tensor
            outside = id(spec) not in arena or tensor in made.strays
            if at := arena.get(id(spec)) or len(levels) * outside:
                pins[name] = levels[at - 1].name
        self.task = resolve_task(made.program, replace(chip, levels=tuple(levels)), pins=pins, alignment=unit)
        return np.array([number.get(id(root), -1) for root in roots], dtype=np.int64)

    def _fastest(self, number: Ints) -> Ints:
        """Return int64[N, 2], arena and offset of each tensor in the agent's plan; 0 in the backing memory."""
        assert self.task is not None
        best_plan = load_plugin(PLANNERS, "best-plan", "planner", [], AgentError)
        self.plan = best_plan(self.task, self._agent, self._time_limit)
        place = np.tile([self.task.backing + 1, 0], (self.task.program.num_tensors + 1, 1))
        tensor, level, offset, *_ = self.plan.allocations.T
        place[tensor] = np.stack([level + 1, offset], axis=1)
        return place[number]  # the last row is of those that the program does not have

    def _seconds(self, number: Ints, place: Ints) -> float:
        """Return the latency with these places by the task's costs; NaN if the chip cannot have them."""
        assert self.task is not None
        program, backing = self.task.program, self.task.backing
        level, inside = np.full(program.num_tensors, backing), number >= 0
        level[number[inside]] = place[inside, 0] - 1
        fast = number[inside & (place[:, 0] <= backing)]
        offset = place[inside & (place[:, 0] <= backing), 1]
        blocks = np.stack([fast, level[fast], offset, program.live_start[fast], program.live_end[fast]], axis=1)
        try:
            return evaluate_plan(self.task, self.task.make_plan(level[program.use_tensor], blocks)).latency_s
        except PlanError:
            return math.nan


def target_memory_map(chip: str | Path | Accelerator) -> Any:
    """Return the memories of a chip as ExecuTorch's `TargetMemoryMap`: arenas 1, 2, ..., the fastest first.

    Args:
        chip: shipped name, path of a .toml file or an Accelerator.

    Raises:
        AcceleratorError: if it cannot be read.
        ExecutionError: if ExecuTorch is older than 1.5, which first had such maps.
    """
    try:
        from executorch.exir.banked_memory_planning import Bank, TargetMemoryMap
        from executorch.exir.tensor import ALIGNMENT
    except ImportError:
        raise ExecutionError("A TargetMemoryMap needs ExecuTorch 1.5 or later: pip install -U executorch") from None
    return TargetMemoryMap(
        [
            Bank(level.name, level.capacity_bytes, arena, max(level.alignment_bytes, ALIGNMENT))
            for arena, level in enumerate(load_accelerator(chip).levels, 1)
        ]
    )


def _verify(specs: list[Any], graph_module: Any, graph_signature: Any) -> None:
    """Let ExecuTorch's verifier look at the places of the specs that were to be planned."""
    from executorch.exir import memory_planning

    nodes = graph_module.graph.nodes
    given = set(map(id, specs))
    inputs = memory_planning.get_graph_input_tensors(nodes, graph_signature)
    outputs = memory_planning.get_graph_output_tensors(nodes)
    mutable = [node for node in nodes if memory_planning._is_mutable_buffer(node, graph_signature)]
    buffers = {spec for node in mutable for spec in memory_planning.get_node_tensor_specs(node)}
    planned = (
        all(id(spec) in given for spec in group if not spec.const)
        for group in (inputs - outputs, outputs - inputs, buffers)
    )
    memory_planning.Verifier(graph_module, *planned, graph_signature).verify_storage_reuse()
