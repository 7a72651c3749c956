"""The rules of the one-shot formulation, without Gymnasium: one program, one chip, maps in, scores out."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from memplace_env.compiler import Compiled, native_mapping, native_plan, native_report
from memplace_env.compiler.compile import place_choice
from memplace_env.compiler.evaluate import evaluate_choices
from memplace_env.compiler.schedule import Order, schedule_of
from memplace_env.envs.arguments import integers
from memplace_env.envs.one_shot.reward import Scores
from memplace_env.errors import ActionError
from memplace_env.plan import MemoryPlan
from memplace_env.simulator import Report, judge_plans
from memplace_env.task import Task
from memplace_env.threads import cached_property
from memplace_env.units import PJ, PS
from memplace_env.workload.program import Ints

_ORDER: Order = "weights-before-results"


class OneShotProblem:
    """A task whose tensors are all mapped at once.

    A map is what the environment takes as an action, int[2T]: entry 2t is the level of the weights that op t is the
    first to read, entry 2t+1 that of the results of op t. Entries of ops without such weights or with no other results
    than graph outputs decide nothing and are ignored. (A mapping, as the compiler takes it, is int[K]: a level for each
    tensor.)

    Attributes:
        task, program, accelerator: what is placed and where.
        slot: int64[K], the entry of the map that decides about each tensor, -1 for inputs and outputs.
        decides: bool[2T], entries that decide about something.
        judged: how many maps have been evaluated here so far.
    """

    def __init__(self, task: Task) -> None:
        self.judged = 0
        self.task, self.program, self.accelerator = task, task.program, task.accelerator
        entry = 2 * self.program.live_start + (self.program.producer >= 0)
        self.slot: Ints = np.where(self.program.is_placeable, entry, -1)
        self.decides: NDArray[np.bool_] = np.zeros(self.map_size, dtype=bool)
        self.decides[self.slot[self.slot >= 0]] = True
        self._mappable_bytes = max(int(self.program.tensor_bytes[self.program.is_placeable].sum()), 1)

    def __reduce__(self) -> tuple[Any, ...]:
        """A pickle holds the task; the copy derives the rest anew."""
        return OneShotProblem, (self.task,)

    @property
    def map_size(self) -> int:
        """2T."""
        return 2 * self.program.num_ops

    @property
    def native_plan(self) -> MemoryPlan:
        """The compiler's own plan, by this task's judge."""
        return native_plan(self.task)

    @property
    def native_report(self) -> Report:
        """What the baseline of all speed-ups costs."""
        return native_report(self.task)

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
        wanted: NDArray[np.int64] = self.maps_of(native_mapping(self.task)[None])[0]
        return wanted

    def check(self, maps: ArrayLike, batch: tuple[int | None, ...] = ()) -> NDArray[np.integer]:
        """The maps as an integer array of shape `batch + (2T,)`, where None is any number.

        Raises:
            ActionError: for another shape, a dtype that is no integer, or levels out of range.
        """
        shape = (*batch, self.map_size)
        array = integers(
            maps,
            shape,
            f"An action for {self.program.name!r} holds integers of shape {shape}, levels of memory, two for each "
            f"of its {self.program.num_ops} ops",
        )
        if array.size and (array.min() < 0 or array.max() > self.accelerator.backing):
            names = ", ".join(f"{i} = {level.name}" for i, level in enumerate(self.accelerator.levels))
            raise ActionError(f"An action holds levels {names}; this one has {array.min()}..{array.max()}.")
        return array

    def compile(self, one_map: NDArray[np.integer]) -> Compiled:
        """The plan that the compiler makes of one checked map."""
        return place_choice(self.task, one_map.astype(np.int64), self.slot, _ORDER)

    def evaluate(self, maps: NDArray[np.integer], threads: int | None = None) -> Scores:
        """Scores of checked maps int[B, 2T]; unless a black box judges, by compiled kernels on all cores."""
        self.judged += len(maps)
        if self.task.is_black_box:
            compiled = [self.compile(one_map) for one_map in maps]
            reports = judge_plans(self.task, [plan for plan, _ in compiled])
            latency = np.array([report.latency_s for report in reports])
            energy = np.array([report.energy_j for report in reports])
            moved = np.array([reassigned for _, reassigned in compiled])
            levels = np.zeros((len(maps), self.program.num_tensors), dtype=np.int8)
            for level, (plan, _) in zip(levels, compiled, strict=True):
                level[self.program.use_tensor] = plan.use_level
        else:
            result = evaluate_choices(schedule_of(self.task, _ORDER), maps, self.slot, threads)
            latency = result.latency_ps.astype(np.float64) * PS
            energy = result.dynamic_pj.astype(np.float64) * PJ + self.accelerator.static_power_w * latency
            moved, levels = result.reassigned_bytes, result.level
        base, epsilon = self.native_report, moved / self._mappable_bytes
        saving = np.divide(base.energy_j, energy, out=np.full(len(maps), np.nan), where=energy > 0)
        return Scores(latency, energy, epsilon, base.latency_s / latency, saving, levels)

    def maps_of(self, mappings: NDArray[np.integer]) -> NDArray[np.int64]:
        """Maps int64[B, 2T] that ask for the mappings int[B, K]; the largest tensor of an entry speaks for it."""
        maps = np.full((len(mappings), self.map_size), self.accelerator.backing)
        by_size = np.argsort(self.program.tensor_bytes, kind="stable")
        placed = by_size[self.slot[by_size] >= 0]
        maps[:, self.slot[placed]] = mappings[:, placed]  # the last writer wins
        return maps
