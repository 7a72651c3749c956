"""Rules for a run, and for a submission as a whole, apart from the replay of its plans."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise, product
from typing import Final

from memplace_env._lib.errors import LeaderboardError
from memplace_env.envs.registration import Formulation
from memplace_env.envs.splits import Split, split_suites
from memplace_leaderboard.entry import Entry, RunKey
from memplace_leaderboard.row_names import check_name
from memplace_leaderboard.submission import Meta, Submission
from memplace_leaderboard.suite import OWN, REFERENCE, Budget, Suite, Track, load_suite

OnProgress = Callable[[int, int], None]
"""Called with the number of finished steps and of all."""
GRACE: Final = 0.5
GRACE_S: Final = 1.0
"""Allowance over a budget of seconds, as a fraction and in seconds: a round once begun is finished. Our choice."""
LATEST: Final = 4.0
LATEST_S: Final = 30.0
"""Wall time after which a judged run is given up, as a multiple of its budget and in seconds: the time of processors is
what counts, and on a loaded machine wall time is more. Our choice."""
FASTEST_USE_S: Final = 4e-9
"""Seconds per use of a tensor below which no plan is made: the compiled placer takes more, and a search begins with one
plan. Our choice; the shortest run of ours took 3e-6."""
LUCK: Final = 6.0
"""Standard deviations of the noise by which a curve may underestimate a latency. Our choice."""


def check_meta(meta: Meta) -> tuple[Suite, Track]:
    """Return the suite and the track of a submission, whatever version of this package made it: hashes tell whether
    suite and costs are the same.

    Raises:
        LeaderboardError: if this code does not have that suite, or the submission leaves something out.
    """
    suite = load_suite(meta.suite)
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
    seeds = seeds_of(suite, track, meta.deterministic)
    if meta.seeds != seeds:
        raise LeaderboardError(
            f"seeds must be {list(seeds)}, not {list(meta.seeds)}; only what is deterministic may have seed 0 alone."
        )
    if not suite.played(track, meta.formulations):
        raise LeaderboardError(f"{suite.name} has no {' or '.join(meta.formulations)} in the track {track.name}.")
    if meta.deterministic and track.is_black_box and not meta.nominal:
        raise LeaderboardError("measuring with noise is not deterministic: the seed is that of the noise, too.")
    if meta.nominal and not track.is_black_box:
        raise LeaderboardError(f"nominal is for black-box tracks only, and {track.name} is not one.")
    if (meta.machine_seeds is None) != (track.machine is None):
        drawn = "draws no machines" if track.machine is None else "draws a machine for each seed"
        raise LeaderboardError(f"the track {track.name} {drawn}; machine_seeds must say so.")
    if meta.machine_seeds is not None and len(set(meta.machine_seeds)) != len(seeds):
        raise LeaderboardError(f"machine_seeds must be {len(seeds)} different numbers, one for each seed.")
    _check_training(meta, track)
    check_name(meta)
    return suite, track


def check_source(meta: Meta, has_file: bool) -> None:
    """Raise a LeaderboardError unless a submission has the agent's file if that is its source, and no other."""
    if (meta.source.get("kind") == "file") != has_file:
        said = "has none that it describes" if has_file else "lacks agent.py, which it describes"
        raise LeaderboardError(f"the folder {said}; 'memplace leaderboard run' writes both.")
    if meta.format == 2 and ":" in meta.agent and not meta.source:
        raise LeaderboardError(f"it does not say where {meta.agent} comes from; run it again.")


def seeds_of(suite: Suite, track: Track, deterministic: bool) -> tuple[int, ...]:
    """Return the seeds of a submission: one is enough for what is deterministic, unless each is on another machine."""
    return (0,) if deterministic and track.machine is None else tuple(range(suite.seeds))


def expected(meta: Meta, suite: Suite, track: Track) -> Iterator[RunKey]:
    """Yield the keys of the runs that a submission must have, in order; those of the judge's references come last."""
    ids = suite.played(track, meta.formulations)
    yield from product(ids, meta.budgets, meta.seeds)
    if track.machine is not None:
        yield from product(ids, (REFERENCE,), meta.seeds)


def key_check(meta: Meta, suite: Suite, track: Track) -> Callable[[RunKey], None]:
    """Return a function to call once with the key of each run, so that no more runs are read than are expected.

    It raises a LeaderboardError if the run is not expected, or comes a second time.
    """
    missing = set(expected(meta, suite, track))
    instances, wanted = {key[0] for key in missing}, frozenset(missing)

    def check(key: RunKey) -> None:
        if key[0] not in instances:
            raise LeaderboardError(
                f"{key[0]!r} is not an instance of {suite.name} in the track {track.name}; leave its runs out."
            )
        if key not in wanted:
            raise LeaderboardError(f"the run of {_text(key)} is not expected by submission.toml.")
        if key not in missing:
            raise LeaderboardError(f"there are two runs of {_text(key)}.")
        missing.remove(key)

    return check


def ordered(meta: Meta, suite: Suite, track: Track, entries: Iterable[Entry]) -> tuple[Entry, ...]:
    """Return the runs of a submission in the order of `expected`.

    Args:
        meta, suite, track: description, suite and track of the submission.
        entries: its runs, in any order; their keys have passed `key_check`.

    Raises:
        LeaderboardError: if a run is missing, or is a copy of another seed's.
    """
    wanted, by_key = list(expected(meta, suite, track)), {entry.key: entry for entry in entries}
    for key in wanted:
        if key not in by_key:
            raise LeaderboardError(f"the run of {_text(key)} is missing; there must be one for each seed and budget.")
    for entry in by_key.values():
        if (entry.processor_seconds is None) != (meta.format == 1) and entry.budget != REFERENCE:
            raise LeaderboardError(f"the run of {_text(entry.key)} is not of format {meta.format}: processor_seconds.")
    if not meta.deterministic:  # else one search may be timed on several machines
        _check_copies(by_key.values())
    return tuple(by_key[key] for key in wanted)


def latest_s(seconds: float) -> float:
    """Return the wall time after which a run with a budget of seconds is given up."""
    return LATEST * seconds + LATEST_S


def check_spending(entry: Entry, noise: float | None = None) -> None:
    """Raise a LeaderboardError if a run spent more than its budget, or its curve cannot be.

    Args:
        entry: the run.
        noise: relative standard deviation of the measurements, under which a curve may rise; None without noise.
    """
    budget = Budget(entry.budget)
    if budget.plans is not None and entry.evaluations > budget.plans:
        raise LeaderboardError(f"it evaluated {entry.evaluations} plans with a budget of {budget.plans}.")
    judged = entry.processor_seconds
    if budget.seconds is not None:
        spent = entry.seconds if judged is None else judged
        if spent > (1 + GRACE) * budget.seconds + GRACE_S or entry.seconds > latest_s(budget.seconds):
            raise LeaderboardError(f"it took {spent:.1f} s with a budget of {budget.seconds:g} s.")
    if entry.evaluations < 1:
        raise LeaderboardError("it evaluated no plan, and has one; nothing finds a plan without evaluating it.")
    least_s = FASTEST_USE_S * len(entry.plan.use_level)
    shortest_s = entry.seconds if judged is None else min(entry.seconds, judged)
    if shortest_s < least_s:
        raise LeaderboardError(f"it took {shortest_s:.3g} s; making its plan alone takes more than {least_s:.3g} s.")
    if entry.curve and entry.curve[0].evaluations < 1:
        raise LeaderboardError("its curve begins before its first evaluation.")
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


def check_originals(submissions: Iterable[Submission]) -> None:
    """Raise a LeaderboardError if two submissions hold one and the same run."""
    owners: dict[tuple[object, ...], str] = {}
    for submission in submissions:
        meta = submission.meta
        for entry in submission.entries:
            if entry.budget == REFERENCE:  # several submissions may be on one machine
                continue
            key = meta.suite, meta.track, *entry.key, entry.seconds, entry.curve
            owner = owners.setdefault(key, meta.name)
            if owner != meta.name:
                raise LeaderboardError(
                    f"{meta.name!r} and {owner!r} hold the same run of {_text(entry.key)}, with the same times to the "
                    "last digit; leave one of them out."
                )


def _check_copies(entries: Iterable[Entry]) -> None:
    """Two searches may find the same plans, but not at the same microseconds."""
    originals: dict[tuple[object, ...], Entry] = {}
    for entry in entries:
        original = originals.setdefault((entry.env_id, entry.budget, entry.seconds, entry.curve), entry)
        if original is not entry:
            raise LeaderboardError(
                f"{entry.env_id}: seeds {original.seed} and {entry.seed} have the same times to the last digit, so one "
                "was copied from the other; run each, or declare deterministic = true and keep seed 0."
            )


def _check_training(meta: Meta, track: Track) -> None:
    if meta.training is None:
        return
    trained = {env_id for name, ids in split_suites().items() if name.endswith(f"-{Split.TRAIN}") for env_id in ids}
    trained |= {each.traits.env_id(Split.TRAIN.capitalize()) for each in Formulation if each.traits.drawn}
    foreign = [env_id for env_id in meta.training.ids if env_id not in trained]
    if track.split is not None and foreign:
        raise LeaderboardError(
            f"it was trained on {foreign[0]}, which is not in the train split; see 'memplace envs --suite "
            f"one-shot-{Split.TRAIN}'."
        )


def _text(key: RunKey) -> str:
    return f"{key[0]} with budget {key[1]} and seed {key[2]}"
