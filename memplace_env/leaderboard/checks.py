"""What an entry, and a submission as a whole, must keep to, apart from what replaying its plans tells."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import pairwise, product
from typing import Final

from memplace_env.errors import LeaderboardError
from memplace_env.leaderboard.entry import Entry
from memplace_env.leaderboard.splits import Split, split_suites
from memplace_env.leaderboard.submission import Meta, Submission
from memplace_env.leaderboard.suite import OWN, Budget, Suite, Track, load_suite

Told = Callable[[int, int], None]
"""Told how many of how many are done."""
GRACE: Final = 0.5
GRACE_S: Final = 1.0
"""Share of a budget of seconds, and seconds, that a run may take besides: a round once begun is finished."""
LUCK: Final = 6.0
"""Standard deviations of the noise by which an agent may have believed too well of a plan."""


def check_meta(meta: Meta, version: str) -> tuple[Suite, Track]:
    """The suite and track of a submission.

    Args:
        meta: of it.
        version: of this code.

    Raises:
        LeaderboardError: if this code does not have that suite, or the submission leaves something out.
    """
    suite = load_suite(meta.suite)
    if meta.memplace != version:
        raise LeaderboardError(
            f"it was made with memplace {meta.memplace}, and this is {version}; run it again, or verify it there."
        )
    if meta.suite_sha256 != suite.sha256:
        raise LeaderboardError(
            f"it was made for another {suite.name}: that had the hash {meta.suite_sha256[:12]}..., the one here "
            f"has {suite.sha256[:12]}...; run it again on the suite as it is shipped."
        )
    track = suite.track(meta.track)
    allowed = [OWN, *(budget.text for budget in track.budgets)]
    for budget in meta.budgets:
        if budget not in allowed:
            raise LeaderboardError(f"the track {track.name} has no budget {budget!r}; it has {', '.join(allowed)}.")
    seeds = (0,) if meta.deterministic else tuple(range(suite.seeds))
    if meta.seeds != seeds:
        raise LeaderboardError(
            f"seeds must be {list(seeds)}, not {list(meta.seeds)}; only what is deterministic may have seed 0 alone."
        )
    if not suite.played(track, meta.formulations):
        raise LeaderboardError(f"{suite.name} has no {' or '.join(meta.formulations)} in the track {track.name}.")
    if meta.deterministic and track.is_black_box and not meta.nominal:
        raise LeaderboardError("what measures with noise is not deterministic: the seed is that of the noise, too.")
    if meta.nominal and not track.is_black_box:
        raise LeaderboardError(f"nominal means something in black-box tracks only, and {track.name} is none.")
    _check_training(meta, track)
    return suite, track


def expected(meta: Meta, suite: Suite, track: Track) -> Iterator[tuple[str, str, int]]:
    """Environment id, budget and seed of every entry that a submission must have, in order."""
    yield from product(suite.played(track, meta.formulations), meta.budgets, meta.seeds)


def check_complete(meta: Meta, suite: Suite, track: Track, entries: Mapping[str, list[Entry]]) -> None:
    """Raise a LeaderboardError unless a submission has each entry once, and no other.

    Args:
        meta, suite, track: of the submission.
        entries: by the environment id that their file is named after, in the file's order.
    """
    wanted = list(expected(meta, suite, track))
    for env_id in entries:
        if env_id not in {key[0] for key in wanted}:
            raise LeaderboardError(f"{env_id} is no instance of {suite.name} in the track {track.name}; leave it out.")
    seen = set()
    for env_id, some in entries.items():
        for entry in some:
            key = entry.key
            if entry.env_id != env_id:
                raise LeaderboardError(f"the file of {env_id} holds a run of {entry.env_id}.")
            if key in seen:
                raise LeaderboardError(f"there are two runs of {_told(key)}.")
            seen.add(key)
    for key in wanted:
        if key not in seen:
            raise LeaderboardError(f"the run of {_told(key)} is missing; there must be one for each seed and budget.")
    for key in sorted(seen - set(wanted)):
        raise LeaderboardError(f"the run of {_told(key)} is not one that submission.toml says there is.")
    for some in entries.values():
        _check_copies(some)


def check_spending(entry: Entry, noise: float | None = None) -> None:
    """Raise a LeaderboardError if a run spent more than its budget, or its curve cannot be.

    Args:
        entry: the run.
        noise: of the measurements, so that what was believed may rise; None where there is none.
    """
    budget = Budget(entry.budget)
    if budget.plans is not None and entry.evaluations > budget.plans:
        raise LeaderboardError(f"it evaluated {entry.evaluations} plans with a budget of {budget.plans}.")
    if budget.seconds is not None and entry.seconds > (1 + GRACE) * budget.seconds + GRACE_S:
        raise LeaderboardError(f"it took {entry.seconds:.1f} s with a budget of {budget.seconds:g} s.")
    if not entry.seconds > 0:
        raise LeaderboardError("it took 0 s, which nothing does.")
    for earlier, later in pairwise(entry.curve):
        if noise is None and later.latency_ps >= earlier.latency_ps:
            raise LeaderboardError(f"its curve does not improve from {list(earlier)} to {list(later)}.")
        if later.evaluations < earlier.evaluations or later.seconds < earlier.seconds:
            raise LeaderboardError(f"its curve goes back in time from {list(earlier)} to {list(later)}.")
    last = entry.curve[-1] if entry.curve else None
    if last is None or last.latency_ps != entry.latency_ps:
        raise LeaderboardError("its curve does not end with the latency of its plan.")
    least = entry.latency_ps * max(1 - LUCK * (noise or 0.0), 0.0)
    for point in entry.curve:
        if point.latency_ps < least or point.latency_ps == 0:
            raise LeaderboardError(f"its curve is faster than its plan at {list(point)}.")
    if last.evaluations > entry.evaluations or last.seconds > entry.seconds + 1e-6:
        raise LeaderboardError("its curve goes on after the end of the run.")


def check_unique(names: Iterable[str]) -> None:
    """Raise a LeaderboardError if two submissions on one leaderboard have the same name, but for the case."""
    seen = set()
    for name in names:
        if name.casefold() in seen:
            raise LeaderboardError(f"Two submissions are called {name!r}; each row needs a name of its own.")
        seen.add(name.casefold())


def check_originals(submissions: Iterable[Submission]) -> None:
    """Raise a LeaderboardError if two submissions hold one and the same run."""
    known: dict[tuple[object, ...], str] = {}
    for submission in submissions:
        meta = submission.meta
        for entry in submission.entries:
            key = meta.suite, meta.track, *entry.key, entry.seconds, entry.curve
            if known.setdefault(key, meta.name) != meta.name:
                raise LeaderboardError(
                    f"{meta.name!r} and {known[key]!r} hold the same run of {_told(entry.key)}, with the same times to "
                    "the last digit; leave one of them out."
                )


def _check_copies(entries: list[Entry]) -> None:
    """No run is another seed's copy: two searches may find the same, though not at the same microseconds."""
    known: dict[tuple[object, ...], Entry] = {}
    for entry in entries:
        key = entry.budget, entry.seconds, entry.curve
        if key in known:
            raise LeaderboardError(
                f"{entry.env_id}: seeds {known[key].seed} and {entry.seed} have the same times to the last digit, so "
                "one was copied from the other; run each, or say deterministic = true and keep seed 0."
            )
        known[key] = entry


def _check_training(meta: Meta, track: Track) -> None:
    if meta.training is None:
        return
    trained = {env_id for name, ids in split_suites().items() if name.endswith(f"-{Split.TRAIN}") for env_id in ids}
    foreign = [env_id for env_id in meta.training.ids if env_id not in trained]
    if track.split is not None and foreign:
        raise LeaderboardError(
            f"it was trained on {foreign[0]}, which is not in the train split; see 'memplace envs --suite "
            f"one-shot-{Split.TRAIN}'."
        )


def _told(key: tuple[str, str, int]) -> str:
    return f"{key[0]} with budget {key[1]} and seed {key[2]}"
