"""The event simulator's rules in plain Python: a clock that ticks every picosecond, for costs of a few picoseconds.

At each tick, as long as anything can begin: the late loads of the next tile, the stores of the next tile, the loads of
the next tile, a descriptor of a copy, in this order of preference. Ports are queues: a request begins when it is issued
or, later, when those before it have ended. Without engines a copy gets the backing memory's port for a tick in which no
op's request has it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from memplace_env.machine.accelerator.event_description import Mechanisms
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.task import Task
from tests.references.reference_simulator import copy_time, uses_of

MOST_TILES, MOST_PIECES = 32, 64


@dataclass
class Tile:
    """One tile: what it loads early and late and what it stores, by level, and its unit's time."""

    op: int
    number: int
    of: int
    early: dict[int, int]
    late: dict[int, int]
    stores: dict[int, int]
    unit: int
    issued: bool = False
    loaded_by: int = 0
    computed_by: int | None = None
    freed_by: int | None = None


@dataclass
class Copy:
    """One copy, in picoseconds without engines, else in descriptors."""

    tensor: int
    start: int
    end: int
    writes: bool
    port_ps: list[int]
    engine_ps: list[int]
    left: int
    of: int
    done_by: int = 0


@dataclass
class Events:
    """Ends of ops, waits for copies, time of ports, and the end of everything."""

    end: list[int] = field(default_factory=list)
    waited_by: list[int] = field(default_factory=list)
    port_ps: list[list[int]] = field(default_factory=list)
    finish: int = 0

    @property
    def stalls(self) -> list[int]:
        return [max(0, due - before) for due, before in zip(self.waited_by, [0, *self.end[:-1]], strict=True)]

    @property
    def op_times(self) -> list[int]:
        before = [0, *self.end[:-1]]
        return [end - start - stall for end, start, stall in zip(self.end, before, self.stalls, strict=True)]

    @property
    def tail(self) -> int:
        return self.finish - self.end[-1]


def parts(whole: int, count: int) -> list[int]:
    """Equal parts of a number, the larger ones first."""
    return [whole // count + (part < whole % count) for part in range(count)]


class Clock:
    """The machine at a point in time."""

    def __init__(self, task: Task, on: Mechanisms, plan: MemoryPlan) -> None:
        self.task, self.on, self.plan, self.now = task, on, plan, 0
        self.out = Events(port_ps=[[0] * task.accelerator.num_levels for _ in range(task.program.num_ops)])
        self.port_free = [0] * task.accelerator.num_levels
        self.path_free = self.unit_free = 0
        self.bank, self.wrote = None, None
        self.taken: set[int] = set()
        sizes = task.program.tensor_bytes.tolist()
        self.address = [sum(sizes[:tensor]) for tensor in range(len(sizes))]
        self.tiles = [tile for op in range(task.program.num_ops) for tile in self.tiles_of(op)]
        self.copies = self.copies_of()
        self.engine_free = [0] * (on.dma.engines if on.dma else 0)
        self.heads = {"late": 0, "store": 0, "load": 0}

    def kind(self, op: int, use: int) -> str:
        program = self.task.program
        if program.use_is_result[use]:
            return "store"
        return "late" if op and program.producer[program.use_tensor[use]] == op - 1 else "early"

    def tiles_of(self, op: int) -> Iterator[Tile]:
        program, costs = self.task.program, self.task.costs
        count = 1
        if self.on.tiles:
            moved = sum(int(program.use_bytes[use]) for use in uses_of(program, op))
            buffer = max(self.on.tiles.local_bytes // self.on.tiles.buffers, 1)
            count = min(max(-(-moved // buffer), 1), MOST_TILES)
        sums: dict[str, dict[int, int]] = {"early": {}, "late": {}, "store": {}}
        for use in uses_of(program, op):
            level, of_kind = int(self.plan.use_level[use]), sums[self.kind(op, use)]
            of_kind[level] = of_kind.get(level, 0) + int(costs.use_ps[use, level])
        for level, latency in enumerate(costs.latency_ps.tolist()):
            first = next((of_kind for of_kind in sums.values() if level in of_kind), None)
            if first is not None:
                first[level] += latency
        unit = int(costs.compute_ps[op] + costs.overhead_ps[op])
        for number in range(count):
            shares = [
                {level: parts(whole, count)[number] for level, whole in of_kind.items()} for of_kind in sums.values()
            ]
            yield Tile(op, number, count, *shares, parts(unit, count)[number])

    def copies_of(self) -> list[Copy]:
        copies = []
        for tensor, source, _, start, end in self.plan.transfers.tolist():
            prefetch = source == self.task.backing
            port, size = copy_time(self.task, tensor, prefetch=prefetch), int(self.task.program.tensor_bytes[tensor])
            if self.on.dma is None:
                copies.append(Copy(tensor, start, end, not prefetch, [], [], port, 0))
                continue
            count = min(max(-(-size // self.on.dma.descriptor_bytes), 1), MOST_PIECES)
            engine = -(-size * 10**12 // self.on.dma.bytes_per_s)
            copies.append(
                Copy(tensor, start, end, not prefetch, parts(port, count), parts(engine, count), count, count)
            )
        return sorted(copies, key=lambda copy: (copy.end, copy.start))

    def ended(self, op: int) -> bool:
        return op < 0 or (op < len(self.out.end) and self.out.end[op] <= self.now)

    def released(self) -> list[Copy]:
        return [copy for copy in self.copies if copy.left and self.ended(copy.start - 1)]

    def bank_ps(self, address: int, writes: bool) -> int:
        if self.on.dram is None:
            return 0
        bank = address // self.on.dram.interleave_bytes % self.on.dram.banks
        extra = self.on.dram.same_bank_ps if bank == self.bank else 0
        if self.wrote is not None and self.wrote != writes:
            extra += self.on.dram.read_to_write_ps if writes else self.on.dram.write_to_read_ps
        self.bank, self.wrote = bank, writes
        return extra

    def place(self, op: int, kind: str) -> tuple[int, int]:
        """Address and bytes of the first use of a kind at the backing memory."""
        program = self.task.program
        for use in uses_of(program, op):
            if self.kind(op, use) == kind and self.plan.use_level[use] == self.task.backing:
                tensor = int(program.use_tensor[use])
                return self.address[tensor], int(program.tensor_bytes[tensor])
        raise AssertionError

    def request(self, tile: Tile, requests: list[tuple[str, dict[int, int]]]) -> int:
        """Queue requests, the backing memory's first; returns when the last one ends."""
        backing, ends = self.task.backing, [self.now]
        for level in [backing, *range(backing)]:
            for kind, by_level in requests:
                busy = by_level.get(level, 0)
                if not busy:
                    continue
                if level == backing:
                    address, size = self.place(tile.op, kind)
                    busy += self.bank_ps(address + size * tile.number // tile.of, kind == "store")
                begin = max(self.now, self.port_free[level], self.path_free if self.task.costs.serial else 0)
                self.port_free[level] = self.path_free = begin + busy
                self.out.port_ps[tile.op][level] += busy
                self.taken |= set(range(begin, begin + busy)) if level == backing else set()
                ends.append(begin + busy)
        return max(ends)

    def begin_late(self) -> bool:
        if self.heads["late"] >= self.heads["load"]:
            return False
        tile = self.tiles[self.heads["late"]]
        is_late = any(tile.late.values()) or any(self.whole(tile.op, "late"))
        if is_late and not self.ended(tile.op - 1):
            return False
        tile.loaded_by = max(tile.loaded_by, self.request(tile, [("late", tile.late)]))
        tile.computed_by = self.unit_free = max(tile.loaded_by, self.unit_free) + tile.unit
        self.heads["late"] += 1
        return True

    def whole(self, op: int, kind: str) -> list[bool]:
        return [self.kind(op, use) == kind for use in uses_of(self.task.program, op)]

    def begin_store(self) -> bool:
        if self.heads["store"] >= self.heads["late"]:
            return False
        tile, before = self.tiles[self.heads["store"]], self.tiles[self.heads["store"] - 1]
        assert tile.computed_by is not None
        if tile.computed_by > self.now:
            return False
        end = max(tile.computed_by, self.request(tile, [("store", tile.stores)]))
        tile.freed_by = max(end, before.freed_by or 0) if self.heads["store"] else end
        self.heads["store"] += 1
        if tile.number == tile.of - 1:
            self.out.end.append(tile.freed_by)
        return True

    def begin_load(self) -> bool:
        head = self.heads["load"]
        if head == len(self.tiles):
            return False
        tile, tiled = self.tiles[head], self.on.tiles
        if tiled and head >= tiled.buffers:
            freed = self.tiles[head - tiled.buffers].freed_by
            if freed is None or freed > self.now:
                return False
        if tile.number == 0:
            due = [copy for copy in self.copies if copy.end < tile.op]
            if any(copy.left or copy.done_by > self.now for copy in due):
                return False
            if not self.ended(tile.op - (tiled.ops_in_flight if tiled else 1)):
                return False
            self.out.waited_by.append(max((copy.done_by for copy in due), default=0))
        self.heads["load"] += 1
        if tiled:
            tile.loaded_by = self.request(tile, [("early", tile.early)])
            return True
        end = self.request(tile, [("early", tile.early), ("late", tile.late), ("store", tile.stores)])
        compute, overhead = (int(costs[tile.op]) for costs in (self.task.costs.compute_ps, self.task.costs.overhead_ps))
        self.out.end.append(max(end, self.now + compute) + overhead)
        self.heads["late"] = self.heads["store"] = self.heads["load"]
        return True

    def begin_descriptor(self) -> bool:
        released = self.released()
        if not released or min(self.engine_free, default=self.now + 1) > self.now:
            return False
        assert self.on.dma
        copy, engine = released[0], self.engine_free.index(min(self.engine_free))
        piece, backing = copy.of - copy.left, self.task.backing
        size = int(self.task.program.tensor_bytes[copy.tensor])
        begin = max(self.now, self.port_free[backing])
        extra = self.bank_ps(self.address[copy.tensor] + size * piece // copy.of, copy.writes)
        self.port_free[backing] = begin + copy.port_ps[piece] + extra
        own = self.now + copy.engine_ps[piece]
        self.engine_free[engine] = max(self.port_free[backing], own) + self.on.dma.descriptor_ps
        copy.left -= 1
        copy.done_by = max(copy.done_by, self.engine_free[engine])
        return True

    def tick(self) -> None:
        """Begin what can begin now, then let a copy have the port if no op has it."""
        begins = [self.begin_late, self.begin_store, self.begin_load, self.begin_descriptor]
        while any(begin() for begin in begins):
            pass
        released = self.released()
        idle = self.now not in self.taken
        self.now += 1
        if self.on.dma is None and released and idle:
            released[0].left -= 1
            released[0].done_by = self.now

    def running(self) -> bool:
        return len(self.out.end) < self.task.program.num_ops or any(copy.left for copy in self.copies)


def run_events(task: Task, on: Mechanisms, plan: MemoryPlan) -> Events:
    """Run a plan to its end."""
    clock = Clock(task, on, plan)
    while clock.running():
        clock.tick()
        assert clock.now < 10**6, "it stands still"
    clock.out.finish = max(clock.out.end[-1], *(copy.done_by for copy in clock.copies), 0)
    return clock.out
