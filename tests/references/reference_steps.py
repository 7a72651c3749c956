"""MemPlaceSteps decided with plain lists: what `envs.steps` is held equal to.

Everything is computed anew at every decision: bytes op by op, times of the whole program by sums over all uses.
"""

from __future__ import annotations

from math import cos, log2, pi, sin

from memplace_env.placement.task import Task
from memplace_env.program.program import TensorKind

FAST, MIDDLE, BACKING = 0, 1, 2


class Steps:
    """An episode. Levels are the three of the actions; a chip with two levels has no middle one.

    Attributes:
        order: entries (indices in an assignment) in the order of deciding.
        levels: level of each decided entry.
    """

    def __init__(self, task: Task, order: str) -> None:
        self.task, self.levels = task, {}
        program = task.program
        self.ops = range(program.num_ops)
        self.size = [int(size) for size in program.tensor_bytes]
        self.members: dict[int, list[int]] = {}
        for tensor in range(program.num_tensors):
            kind = program.tensor_kind[tensor]
            if kind in (TensorKind.WEIGHT, TensorKind.ACTIVATION):
                is_result = int(program.producer[tensor] >= 0)
                entry = tensor if program.slices else 2 * int(program.live_start[tensor]) + is_result
                self.members.setdefault(entry, []).append(tensor)
        self.order: list[int] = []
        self.order = [entry for entry in sorted(self.members) if self.has_choice(entry)]
        if order == "density":
            density = {entry: self.density(entry) for entry in self.order}
            self.order = sorted(self.order, key=lambda entry: -density[entry])  # a stable sort
        self.all_backing = self.latency(dict.fromkeys(self.order, BACKING))
        self.all_fastest = self.latency({entry: self.fastest(entry) for entry in self.order})

    # What the chip has.

    def own(self, level: int) -> int | None:
        """The chip's number of a level, None for a middle one that it has not."""
        if level == BACKING:
            return self.task.backing
        return level if level < self.task.backing else None

    def room(self, level: int, op: int) -> int:
        """Bytes of a fast level that are free in an op before any decision."""
        if self.own(level) is None:
            return 0
        reserved = [int(bytes_) for bytes_ in self.task.costs.reserved_bytes[:, level]]
        lost = reserved[op] if self.task.streams_weights else max(reserved)
        return max(int(self.task.accelerator.levels[level].capacity_bytes) - lost, 0)

    def capacity(self, level: int) -> int:
        return max(self.room(level, op) for op in self.ops)

    # What an entry is.

    def life(self, tensor: int) -> range:
        program = self.task.program
        first, last = int(program.live_start[tensor]), int(program.live_end[tensor])
        if program.tensor_kind[tensor] == TensorKind.WEIGHT:
            if not self.task.streams_weights:
                return self.ops
            first = max(first - 1, 0)
        return range(first, last + 1)

    def held(self, entry: int, op: int) -> int:
        """Bytes that an entry's tensors hold in an op."""
        return sum(self.size[tensor] for tensor in self.members[entry] if op in self.life(tensor))

    def ops_of(self, entry: int) -> list[int]:
        return [op for op in self.ops if self.held(entry, op)]

    def fastest(self, entry: int) -> int:
        fits = (
            level for level in (FAST, MIDDLE) if all(self.held(entry, op) <= self.room(level, op) for op in self.ops)
        )
        return next((level for level in fits if self.own(level) is not None), BACKING)

    def has_choice(self, entry: int) -> bool:
        return self.fastest(entry) < BACKING and not self.comes_too_late(entry)

    def comes_too_late(self, entry: int) -> bool:
        """Return whether an entry is a streamed weight of the first op."""
        tensor = self.members[entry][0]
        first_op = self.task.program.live_start[tensor] == 0 and self.task.program.producer[tensor] < 0
        return self.task.streams_weights and bool(first_op)

    # Time.

    def latency(self, levels: dict[int, int]) -> int:
        """Picoseconds of the program, with what has no level in the backing memory."""
        return sum(self.op_time(op, levels) for op in self.ops)

    def op_time(self, op: int, levels: dict[int, int]) -> int:
        program, costs = self.task.program, self.task.costs
        port = [0] * self.task.accelerator.num_levels
        for use in range(program.use_ptr[op], program.use_ptr[op + 1]):
            tensor = int(program.use_tensor[use])
            entry = next((entry for entry, tensors in self.members.items() if tensor in tensors), None)
            level = self.own(levels.get(entry, BACKING))
            port[level] += int(costs.use_ps[use, level])
        busy = [time + int(costs.latency_ps[level]) if time else 0 for level, time in enumerate(port)]
        memory = sum(busy) if costs.serial else max(busy)
        return max(int(costs.compute_ps[op]), memory) + int(costs.overhead_ps[op])

    def saved(self, entry: int, level: int, others: dict[int, int]) -> int:
        """Picoseconds that an entry saves in a level against the backing memory; 0 in one that the chip has not."""
        if self.own(level) is None:
            return 0
        return self.latency({**others, entry: BACKING}) - self.latency({**others, entry: level})

    def density(self, entry: int) -> float:
        others = {other: self.fastest(other) for other in self.members if self.has_choice(other)}
        byte_ops = sum(self.held(entry, op) for op in self.ops)
        return (self.saved(entry, FAST, {}) + self.saved(entry, FAST, others)) / (2 * byte_ops)

    # The episode.

    @property
    def over(self) -> bool:
        return len(self.levels) == len(self.order)

    @property
    def entry(self) -> int:
        return self.order[len(self.levels)]

    @property
    def undecided(self) -> list[int]:
        return self.order[len(self.levels) :]

    def free(self, level: int, op: int) -> int:
        taken = sum(self.held(entry, op) for entry, got in self.levels.items() if got == level)
        return self.room(level, op) - taken + self.shared(level, op, self.levels)

    def shared(self, level: int, op: int, levels: dict[int, int]) -> int:
        """Bytes of operands in whose place results lie, if both are in a level; the first pairs count."""
        there = {tensor for entry, got in levels.items() if got == level for tensor in self.members[entry]}
        ends = set[int]()
        for operand, result, at in self.task.program.handovers.tolist():
            if at == op and {operand, result} <= there and not ends & {operand, ~result}:
                ends |= {operand, ~result}
        return sum(self.size[operand] for operand in ends if operand >= 0)

    def free_with(self, level: int, op: int) -> int:
        """Bytes that are free or that the next entry would share."""
        with_entry = {**self.levels, self.entry: level}
        return self.free(level, op) + self.shared(level, op, with_entry) - self.shared(level, op, self.levels)

    def legal(self) -> list[int]:
        if self.over:
            return []
        return [level for level in (FAST, MIDDLE, BACKING) if self.fits(level)]

    def fits(self, level: int) -> bool:
        if level == BACKING:
            return True
        if self.own(level) is None:
            return False
        return all(self.held(self.entry, op) <= self.free_with(level, op) for op in self.ops_of(self.entry))

    def estimate(self) -> int:
        return self.latency(self.levels)

    def play(self, action: int) -> tuple[int, int]:
        """Decide the next entry; return by how much the estimate falls, and the level given."""
        before, level = self.estimate(), next(level for level in self.legal() if level >= action)
        self.levels[self.entry] = level
        return before - self.estimate(), level

    def tensor_levels(self) -> list[int]:
        levels = [self.task.backing] * len(self.size)
        for entry, level in self.levels.items():
            own = self.own(level)
            assert own is not None
            for tensor in self.members[entry]:
                levels[tensor] = own
        return levels

    # What is seen.

    def observation(self, native_ps: int) -> list[float]:
        """The 71 numbers of `observation.flat_space`."""
        mask = [float(level in self.legal()) for level in (FAST, MIDDLE, BACKING)]
        entry_features = [0.0] * 43 if self.over else self.entry_features()
        return [*mask, *entry_features, *self.state_features(native_ps), *self.program_features()]

    def entry_features(self) -> list[float]:
        entry, ops, count = self.entry, self.ops_of(self.entry), len(self.ops)
        mean_op = self.all_backing / count
        density = {other: self.density(other) for other in self.order}
        by_density = sorted(self.order, key=lambda other: -density[other])
        denser = by_density[: by_density.index(entry)]
        program = self.task.program
        weight = program.tensor_kind[self.members[entry][0]] == TensorKind.WEIGHT
        users = {
            op
            for op in self.ops
            for use in range(program.use_ptr[op], program.use_ptr[op + 1])
            if program.use_tensor[use] in self.members[entry]
        }
        copies = sum(int(self.task.costs.prefetch_ps[tensor]) for tensor in self.members[entry])
        positive = {other: max(score, 0) for other, score in density.items()}
        others = {other: self.fastest(other) for other in self.order}
        most = max(self.held(entry, op) for op in ops)
        life = ops[-1] - ops[0] + 1
        peaks = [most]
        for rivals in (denser, self.undecided[1:]):
            there = dict.fromkeys(rivals, FAST)
            peaks.append(max(sum(self.held(each, op) for each in rivals) - self.shared(FAST, op, there) for op in ops))
        return [
            float(weight),
            log2(1 + most) / 40,
            life / count,
            log2(1 + life) / 20,
            int(program.live_start[self.members[entry][0]]) / count,
            len(denser) / len(self.order),
            squashed(positive[entry], sum(positive.values()) / len(positive)),
            len(users) / (len(users) + 4),
            squashed(copies, mean_op) if weight and self.task.streams_weights else 0.0,
            *(squashed(peak, self.capacity(level)) for peak in peaks for level in (FAST, MIDDLE)),
            *(squashed(self.saved(entry, level, {}), mean_op) for level in (FAST, MIDDLE)),
            *(squashed(self.saved(entry, level, others), mean_op) for level in (FAST, MIDDLE)),
            *waves(int(program.live_start[self.members[entry][0]]) / count),
            *waves(len(denser) / len(self.order)),
        ]

    def state_features(self, native_ps: int) -> list[float]:
        mean_op, estimate = self.all_backing / len(self.ops), self.estimate()
        pairs = [self.level_features(level, mean_op) for level in (FAST, MIDDLE)]
        return [
            *(value for pair in zip(*pairs, strict=True) for value in pair),
            len(self.levels) / len(self.order),
            min(estimate / self.all_backing, 1),
            min(max((self.all_backing - estimate) / max(self.all_backing - self.all_fastest, 1), 0), 1),
            native_ps / (native_ps + estimate),
        ]

    def level_features(self, level: int, mean_op: float) -> list[float]:
        capacity, count = max(self.capacity(level), 1), len(self.ops)
        held = sum(self.held(entry, op) for entry, got in self.levels.items() if got == level for op in self.ops)
        held -= sum(self.shared(level, op, self.levels) for op in self.ops)
        least = min(self.free(level, op) for op in self.ops)
        about_all = [held / (capacity * count), 1 - least / capacity]
        if self.over:
            return [0.0, 0.0, 0.0, 0.0, *about_all]
        ops = self.ops_of(self.entry)
        fewest, most = min(self.free_with(level, op) for op in ops), max(self.held(self.entry, op) for op in ops)
        optimistic = {**self.levels, **{other: self.fastest(other) for other in self.undecided}}
        return [
            fewest / capacity,
            max(fewest - most, 0) / capacity,
            squashed(self.saved(self.entry, level, self.levels), mean_op),
            squashed(self.saved(self.entry, level, optimistic), mean_op),
            *about_all,
        ]

    def program_features(self) -> list[float]:
        program, costs, task = self.task.program, self.task.costs, self.task
        placeable = sum(self.size[tensor] for tensors in self.members.values() for tensor in tensors)
        traffic = [
            0 if self.own(level) is None else sum(int(time) for time in costs.use_ps[:, self.own(level)])
            for level in (FAST, MIDDLE, BACKING)
        ]
        return [
            *(squashed(self.capacity(level), placeable) for level in (FAST, MIDDLE)),
            *(squashed(traffic[level], traffic[BACKING]) for level in (FAST, MIDDLE)),
            min(sum(int(time) for time in costs.compute_ps) / self.all_backing, 1),
            log2(1 + program.num_ops) / 20,
            log2(1 + len(self.order)) / 20,
            float(task.streams_weights),
            float(task.accelerator.num_levels > 2),
        ]


def waves(x: float) -> list[float]:
    """Return the sines, then the cosines, of 1, 2, 4, .. 32 half turns of x, between 0 and 1."""
    return [(1 + wave(2**octave * pi * x)) / 2 for wave in (sin, cos) for octave in range(6)]


def squashed(value: float, scale: float) -> float:
    """Return value / (value + scale), 0 for negative values."""
    return max(value, 0) / (max(value, 0) + scale) if max(value, 0) + scale > 0 else 0.0
