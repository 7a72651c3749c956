"""The rules of the one-shot formulation, without Gymnasium: one program, one chip, maps in, scores out."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from memplace_env.accelerator import Accelerator
from memplace_env.compiler import Compiled, native
from memplace_env.compiler.compile import compile_choice
from memplace_env.compiler.evaluate import evaluate
from memplace_env.compiler.heuristics import native_mapping
from memplace_env.compiler.schedule import is_placeable, placeable_bytes, schedule
from memplace_env.envs.one_shot.reward import Scores
from memplace_env.errors import ActionError
from memplace_env.plan import MemoryPlan
from memplace_env.simulator import BuiltinSimulator, Report, Simulator
from memplace_env.simulator.report import SECONDS
from memplace_env.workload.program import Ints, Program


class OneShotProblem:
    """A program to map onto an accelerator.

    A map is int[2T]: entry 2t is the level of the weights that op t is the first to read, entry 2t+1 that of the
    results of op t. Entries of ops without such weights or with no other results than graph outputs decide
    nothing and are ignored.

    Attributes:
        program, accelerator, simulator: what was passed in.
        slot: int64[K], the entry of the map that decides about each tensor, -1 for inputs and outputs.
        decides: bool[2T], entries that decide about something.
    """

    def __init__(self, program: Program, accelerator: Accelerator, simulator: Simulator) -> None:
        self.program = program
        self.accelerator = accelerator
        self.simulator = simulator
        is_result = program.producer >= 0
        entry = 2 * program.live_start + is_result
        self.slot: Ints = np.where(is_placeable(program), entry, -1)
        self.decides: NDArray[np.bool_] = np.zeros(self.map_size, dtype=bool)
        self.decides[self.slot[self.slot >= 0]] = True
        self._schedule = schedule(program, accelerator)
        self._mappable_bytes = max(placeable_bytes(program), 1)

    @property
    def map_size(self) -> int:
        """2T."""
        return 2 * self.program.num_ops

    @cached_property
    def native_plan(self) -> MemoryPlan:
        """The compiler's own plan, by this problem's simulator."""
        return native(self.program, self.accelerator, self.simulator)

    @cached_property
    def native_report(self) -> Report:
        """What the baseline of all speed-ups costs."""
        return self.simulator.run(self.program, self.accelerator, self.native_plan)

    @cached_property
    def mask(self) -> NDArray[np.bool_]:
        """bool[2T, L], levels worth asking for.

        A level is left out if the smallest tensor that the entry decides about could not fit into it even if it
        were empty. An entry that decides nothing has only the backing memory.
        """
        smallest = np.full(self.map_size, np.iinfo(np.int64).max)
        decided = self.slot >= 0
        np.minimum.at(smallest, self.slot[decided], self.program.tensor_bytes[decided])
        capacity = np.array([level.capacity_bytes for level in self.accelerator.levels])
        mask = smallest[:, None] <= capacity
        mask[:, -1] = True
        return mask

    @cached_property
    def native_map(self) -> NDArray[np.int64]:
        """int64[2T], what native asks for, see `native_mapping`."""
        wanted: NDArray[np.int64] = self.entries_of(native_mapping(self.program, self.accelerator)[None])[0]
        return wanted

    def check(self, maps: ArrayLike, batch: tuple[int, ...] = ()) -> NDArray[np.integer]:
        """The maps as an integer array of shape `batch + (2T,)`.

        Raises:
            ActionError: for another shape, a dtype that is no integer, or levels out of range.
        """
        array = np.asarray(maps)
        if array.shape != (*batch, self.map_size):
            raise ActionError(
                f"An action for {self.program.name!r} has shape {(*batch, self.map_size)}, two entries for each of its "
                f"{self.program.num_ops} ops; this one has shape {array.shape}."
            )
        if not np.issubdtype(array.dtype, np.integer):
            raise ActionError(
                f"An action holds integers, the numbers of memory levels; this one has dtype {array.dtype}."
            )
        if array.size and (array.min() < 0 or array.max() > self.accelerator.backing):
            names = ", ".join(f"{i} = {level.name}" for i, level in enumerate(self.accelerator.levels))
            raise ActionError(f"An action holds levels {names}; this one has {array.min()}..{array.max()}.")
        return array

    def compile(self, entries: NDArray[np.integer]) -> Compiled:
        """The plan that the compiler makes of one checked map."""
        choice = entries.astype(np.int64)
        return compile_choice(self.program, self.accelerator, choice, self.slot, "weights-before-results")

    def evaluate(self, maps: NDArray[np.integer], threads: int | None = None) -> Scores:
        """Scores of checked maps int[B, 2T]; with the built-in simulator by compiled kernels on all cores."""
        if isinstance(self.simulator, BuiltinSimulator):
            result = evaluate(self._schedule, maps, self.slot, threads)
            latency = result.latency_ps.astype(np.float64) * SECONDS
            energy = result.dynamic_pj.astype(np.float64) * 1e-12 + self.accelerator.static_power_w * latency
            reassigned, level = result.reassigned_bytes / self._mappable_bytes, result.level
        else:
            compiled = [self.compile(row) for row in maps]
            reports = [self.simulator.run(self.program, self.accelerator, plan) for plan, _ in compiled]
            latency = np.array([report.latency_s for report in reports])
            energy = np.array([report.energy_j for report in reports])
            reassigned = np.array([moved for _, moved in compiled]) / self._mappable_bytes
            level = np.zeros((len(maps), self.program.num_tensors), dtype=np.int8)
            for row, (plan, _) in zip(level, compiled, strict=True):
                row[self.program.use_tensor] = plan.use_level
        base = self.native_report
        return Scores(latency, energy, reassigned, base.latency_s / latency, base.energy_j / energy, level)

    def entries_of(self, level: NDArray[np.integer]) -> NDArray[np.int64]:
        """Maps int64[B, 2T] that ask for the levels int[B, K]; the largest tensor of an entry speaks for it."""
        maps = np.full((len(level), self.map_size), self.accelerator.backing)
        by_size = np.argsort(self.program.tensor_bytes, kind="stable")
        placed = by_size[self.slot[by_size] >= 0]
        maps[:, self.slot[placed]] = level[:, placed]  # the last writer wins
        return maps
