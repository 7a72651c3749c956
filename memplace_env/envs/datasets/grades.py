"""Offline data in three grades: the games of a small suite, how each grade plays them, and its scores."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from memplace_env.envs.datasets.plan_episodes import PlanEpisode, PlanFollower
from memplace_env.envs.malloc_game import MallocGameEnv
from memplace_env.placement.memory_plan import MemoryPlan

OFFLINE: Final = (
    "MallocGame-GraphSAGE-edge-tpu-v0",
    "MallocGame-NeRF-intel-npu-4000-v0",
    "MallocGame-UNet-medical-edge-tpu-v0",
    "MallocGame-MobileNetV3-intel-npu-4000-v0",
    "MallocGame-ResNet50-intel-npu-4000-v0",
    "MallocGame-DistilBERT-v0",
)
"""Games of the suite: of the leaderboard's quick-v2 the six whose ids have the lowest SHA-256, played with
`skip_forced`."""
EPISODES: Final = 40
"""Episodes of a grade, our choice, so that all data take less than 20 MB."""


GRADES: Final = {
    "random": (("best-rule",), 1.0),
    "rule": (("best-rule",), 0.02),
    "expert": (("exact", "game-local-search"), 0.02),
}
"""Grades by name: agents, of whose plans the one whose game returns most is followed, and the chance of a random
decision, which the first episode has none of unless all are random. A game cannot always follow an exact plan closely,
so the expert has an agent of games, too."""


def graded_episodes(
    env: MallocGameEnv, plans: Iterable[MemoryPlan], epsilon: float, count: int = EPISODES
) -> Iterator[PlanEpisode]:
    """Yield so many episodes of a grade with these plans of its agents, with the seeds 0, 1 and so on.

    Raises:
        PlanError: if a plan is for another program.
    """
    followers = [PlanFollower(env, plan) for plan in plans]
    follower = max(followers, key=lambda one: sum(one.episode(0).rewards))
    for seed in range(count):
        yield follower.episode(seed, epsilon if seed or epsilon == 1 else 0.0)
