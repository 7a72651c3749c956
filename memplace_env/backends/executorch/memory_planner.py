"""`MemPlacePlanner`: the smallest arena, or the best memories of a chip, as a planner of ExecuTorch."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from memplace_env._lib.errors import AgentError, ExecutionError, PlanError, WorkloadError
from memplace_env._lib.plugins import PLANNERS, load_plugin
from memplace_env._lib.units import round_up
from memplace_env.backends.executorch.graph_program import bytes_of, graph_program, refuse_control_flow, root_of
from memplace_env.machine.accelerator import Accelerator, load_accelerator
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.resolve_task import resolve_task
from memplace_env.placement.simulator import evaluate_plan
from memplace_env.placement.task import Task

Places = dict[int, tuple[int, int]]
"""`mem_id` and `mem_offset` of tensors, by the `id` of their specs."""


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
        AgentError: if the package of the agents is not installed.
        AcceleratorError: if the chip cannot be read, or when planning does not hold the tensors.
        WorkloadError: when planning meets control flow, or tensors on other devices than the CPU.
    """

    def __init__(
        self, chip: str | Path | Accelerator | None = None, agent: str = "exact", time_limit: float | None = None
    ) -> None:
        self.chip = None if chip is None else load_accelerator(chip)
        self._agent, self._time_limit = agent, time_limit
        self._pack, self._best_plan = (
            load_plugin(PLANNERS, name, "planner", [], AgentError) for name in ("pack", "best-plan")
        )
        self.sizes: list[ArenaSizes] = []
        self.task: Task | None = None
        self.plan: MemoryPlan | None = None

    def __call__(
        self, alignment: int, specs: Any, graph_module: Any, graph_signature: Any = None, extra_padding: int = 0
    ) -> list[int]:
        """Give each spec its `mem_id` and `mem_offset`, and return the bytes of each arena; ExecuTorch calls it."""
        specs = list(specs)
        refuse_control_flow(graph_module)
        for spec in specs:
            device = getattr(getattr(spec, "device", None), "name", "CPU")
            if device != "CPU":
                raise WorkloadError(f"A tensor lies on {device}; only those of the CPU are planned.")
        fixed = {id(root_of(spec)[0]): int(spec.mem_id) for spec in specs if spec.mem_id is not None}
        default = self._default(alignment, specs, graph_module, graph_signature, extra_padding)
        unit = alignment if self.chip is None else max(alignment, self.chip.alignment_bytes)
        tensors = _Tensors(specs, unit)
        if self.chip is None:
            arenas = {root: fixed.get(root, 1) for root in tensors.row}
            places, bound = self._packed(tensors, arenas)
            latency = None
        else:
            self.task = self._posed(tensors, fixed, graph_module, extra_padding)
            places, bound = self._fastest(tensors), None
            theirs = {id(root): (root.mem_id, root.mem_offset) for root in tensors.roots} if default else {}
            latency = self._seconds(tensors, theirs) if theirs else math.nan, self._seconds(tensors, places)
        planned = [0] * (1 + (1 if self.chip is None else self.chip.num_levels))
        for root, (arena, offset) in places.items():
            planned += [0] * (arena + 1 - len(planned))
            planned[arena] = max(planned[arena], offset + int(tensors.size[tensors.row[root]]) + extra_padding)
        better = sum(planned) < sum(default) if latency is None else not latency[0] < latency[1]
        if default and not better:
            planned, latency = default, latency and (latency[0], latency[0])
        else:
            for spec in specs:
                root, shift = root_of(spec)
                arena, offset = places[id(root)]
                root.realign(unit)
                spec.mem_id, spec.mem_offset, spec.mem_obj_id = arena, offset + shift, None
        _verify(specs, graph_module, graph_signature)
        self.sizes.append(ArenaSizes(default, planned, bound, latency))
        return planned

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

    def _packed(self, tensors: _Tensors, arenas: dict[int, int]) -> tuple[Places, int]:
        """Return the places of tensors in given arenas, each as small as is found, and the sum of their bounds."""
        places, bound = Places(), 0
        for arena in sorted(set(arenas.values())):
            members = [root for root in tensors.row if arenas.get(root) == arena]
            rows = [tensors.row[root] for root in members]
            packed = self._pack(tensors.size[rows], *tensors.life[rows].T, align=tensors.unit)
            places |= {root: (arena, int(offset)) for root, offset in zip(members, packed.offset, strict=True)}
            bound += packed.bound
        return places, bound

    def _posed(self, tensors: _Tensors, fixed: dict[int, int], graph_module: Any, padding: int) -> Task:
        """Return the task of a graph on the chip without the padding, and note which tensor each root is."""
        assert self.chip is not None
        levels = [replace(one, capacity_bytes=max(one.capacity_bytes - padding, 1)) for one in self.chip.levels]
        chip, names = replace(self.chip, levels=tuple(levels)), [level.name for level in levels]
        made = graph_program(graph_module, "method", ends=True)
        pins = dict[str, str]()
        for tensor, spec in enumerate(made.specs):
            root, level = id(spec), None
            if root in tensors.row:
                tensors.number[root] = tensor
            if root not in tensors.row or tensor in made.strays:
                level = len(names)
            level = fixed.get(root, level)
            if level is not None and not 1 <= level <= len(names):
                raise WorkloadError(f"A tensor has mem_id {level}; {self.chip.name!r} has arenas 1 to {len(names)}.")
            if level is not None:
                pins[made.program.tensor_name[tensor]] = names[level - 1]
        return resolve_task(made.program, chip, pins=pins, alignment=tensors.unit)

    def _fastest(self, tensors: _Tensors) -> Places:
        """Return the places of the agent's plan, in arenas that are no larger than they need be."""
        task = self.task
        assert task is not None
        self.plan = self._best_plan(task, self._agent, self._time_limit)
        at = {tensor: (level + 1, offset) for tensor, level, offset, *_ in self.plan.allocations.tolist()}
        last = task.backing + 1
        chosen = {root: at.get(tensors.number.get(root, -1), (last, 0)) for root in tensors.row}
        places, _ = self._packed(tensors, {root: arena for root, (arena, _) in chosen.items()})
        full = {
            arena
            for root, (arena, offset) in places.items()
            if arena < last and offset + tensors.size[tensors.row[root]] > task.capacities[arena - 1]
        }
        return places | {root: place for root, place in chosen.items() if place[0] in full}

    def _seconds(self, tensors: _Tensors, places: Places) -> float:
        """Return the latency with these places by the task's costs; NaN if the chip cannot have them."""
        task = self.task
        assert task is not None
        program = task.program
        level, offset = np.full(program.num_tensors, task.backing), np.zeros(program.num_tensors, dtype=np.int64)
        for root, tensor in tensors.number.items():
            level[tensor], offset[tensor] = places[root][0] - 1, places[root][1]
        fast = np.flatnonzero(level < task.backing)
        columns = fast, level[fast], offset[fast], program.live_start[fast], program.live_end[fast]
        try:
            return evaluate_plan(task, task.make_plan(level[program.use_tensor], np.stack(columns, axis=1))).latency_s
        except PlanError:
            return math.nan


class _Tensors:
    """The tensors that have places: of all that share bytes the one in whose bytes they lie, by the `id` of its spec.

    Attributes:
        unit: bytes that sizes and offsets are multiples of.
        roots: N specs by the time from which they live.
        row: number of each in `roots`.
        size: int64[N], bytes, multiples of `unit`.
        life: int64[N, 2], first and last node at which each is alive.
        number: the tensor of the program that each is, if it is any.
    """

    def __init__(self, specs: list[Any], unit: int) -> None:
        roots = {id(root): root for root, _ in map(root_of, specs)}
        self.unit = unit
        self.roots = sorted(roots.values(), key=lambda root: (*root.lifetime, bytes_of(root)))
        self.row = {id(root): row for row, root in enumerate(self.roots)}
        self.size = round_up(np.array([*map(bytes_of, self.roots)], dtype=np.int64), unit)
        self.life = np.array([root.lifetime for root in self.roots], dtype=np.int64).reshape(-1, 2)
        self.number = dict[int, int]()


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
    buffers = memory_planning._get_mutable_buffer_specs(nodes, graph_signature)
    planned = (
        all(id(spec) in given for spec in group if not spec.const)
        for group in (inputs - outputs, outputs - inputs, buffers)
    )
    memory_planning.Verifier(graph_module, *planned, graph_signature).verify_storage_reuse()
