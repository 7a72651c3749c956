"""`python -m tests.backends.executorch.arena_table`: arenas before and after, a table of docs/toolchains.md."""

import memplace_env
from memplace_env.backends.executorch import MemPlacePlanner
from memplace_env.report.quantities import percent
from tests.backends.executorch.torch_models import LARGE, built, exported


def rows():
    """The table's lines."""
    yield "| network | ops | ExecuTorch's planner, bytes | MemPlace, bytes | bytes proven to be needed | |"
    yield "| --- | --: | --: | --: | --: | --: |"
    for name, make in LARGE.items():
        planner = MemPlacePlanner()
        program = memplace_env.from_executorch(exported(*built(make), planner))
        sizes = planner.sizes[-1]
        before, after = sum(sizes.default), sum(sizes.planned)
        numbers = f"{program.num_ops} | {before:,} | {after:,} | {sizes.bound:,}"
        yield f"| {name} | {numbers} | {percent(after / before - 1)} |"


if __name__ == "__main__":
    print(*rows(), sep="\n")
