"""Each guard of a submission broken once: something hostile, of which the guard alone keeps us, then passes."""

import json
import lzma
import os
import types
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from memplace_env._lib.errors import LeaderboardError
from memplace_env.leaderboard import checks, folder
from memplace_env.leaderboard.entry import Point
from memplace_env.leaderboard.folder import AGENT, META, RUNS, to_line
from memplace_env.leaderboard.submission import Submission, Training
from memplace_env.leaderboard.suite import load_suite
from memplace_env.leaderboard.verifying import read
from tests.leaderboard.tampering import SUITE
from tests.mutation import raises, unnoticed

SEARCH, DRAWN = SUITE.track("search"), load_suite("black-box-v2")
Case = Callable[[types.ModuleType], str]


def said(work: Callable[[], object]) -> str:
    """Return the refusal, or "accepted"."""
    try:
        work()
    except LeaderboardError as error:
        return str(error)
    except Exception as error:  # a guard that is broken may let anything happen
        return f"{type(error).__name__}: {error}"
    return "accepted"


def of_meta(meta, **fields) -> Case:
    return lambda module: said(lambda: module.check_meta(replace(meta, **fields)))


def of_entry(entry, noise=None, **fields) -> Case:
    return lambda module: said(lambda: module.check_spending(replace(entry, **fields), noise))


def spending_cases(entry) -> list[Case]:
    end = entry.curve[-1]
    start = Point(1, 0.0, 2 * end.latency_ps)
    assert end.evaluations <= entry.evaluations
    return [
        of_entry(entry),
        of_entry(entry, evaluations=11),
        of_entry(entry, evaluations=0),
        of_entry(entry, seconds=1e-9),
        of_entry(entry, processor_seconds=0.0),
        of_entry(entry, budget="1s", processor_seconds=2.6),
        of_entry(entry, budget="1s", processor_seconds=None, seconds=2.6),
        of_entry(entry, budget="1s", seconds=34.5),
        of_entry(entry, curve=(end._replace(evaluations=0),)),
        of_entry(entry, curve=(end, end)),
        of_entry(entry, curve=(start._replace(latency_ps=1), end)),
        of_entry(entry, curve=(start._replace(evaluations=end.evaluations + 1), end)),
        of_entry(entry, curve=(start._replace(seconds=end.seconds + 1), end)),
        of_entry(entry, curve=()),
        of_entry(entry, curve=(start,)),
        of_entry(entry, noise=0.02, curve=(start._replace(latency_ps=end.latency_ps // 2), end)),
        of_entry(entry, curve=(end._replace(evaluations=entry.evaluations + 1),)),
        of_entry(entry, curve=(end._replace(seconds=entry.seconds + 1),)),
    ]


def meta_cases(meta) -> list[Case]:
    drawn = {
        **{"suite": DRAWN.name, "suite_sha256": DRAWN.sha256, "track": "event-1-0", "budgets": ("10",)},
        "machine_seeds": (1, 2, 3, 4, 5),
    }
    whole = load_suite("one-shot-v1")
    zero = {"suite": whole.name, "suite_sha256": whole.sha256, "track": "zero-shot", "budgets": ("10",)}
    return [
        of_meta(meta),
        of_meta(meta, suite_sha256="0" * 64),
        of_meta(meta, budgets=("11",)),
        of_meta(meta, seeds=(0, 1, 2, 3, 7)),
        of_meta(meta, formulations=("dynamic",)),
        of_meta(meta, **drawn, deterministic=True),
        of_meta(meta, nominal=True),
        of_meta(meta, machine_seeds=(1, 2, 3, 4, 5)),
        of_meta(meta, **drawn),
        of_meta(meta, **{**drawn, "machine_seeds": None}),
        of_meta(meta, **{**drawn, "machine_seeds": (1, 1, 3, 4, 5)}),
        of_meta(meta, **zero, training=Training(tuple(SUITE.instances), 10, 1.0)),
    ]


def source_cases(meta) -> list[Case]:
    named = replace(meta, agent="module:Class", source={"kind": "file"})
    return [
        lambda module: said(lambda: module.check_source(named, True)),
        lambda module: said(lambda: module.check_source(named, False)),
        lambda module: said(lambda: module.check_source(meta, True)),
        lambda module: said(lambda: module.check_source(replace(named, source={}), False)),
    ]


def whole_cases(submission) -> list[Case]:
    meta, entries = submission.meta, submission.entries
    first, second = entries[:2]
    other = replace(submission, meta=replace(meta, name="mine"))
    keys = [("elsewhere", "10", 0), (first.env_id, "11", 0), first.key, first.key]

    def read_twice(module):
        check = module.key_check(meta, SUITE, SEARCH)
        return [said(partial(check, key)) for key in keys]

    def as_ordered(changed):
        return lambda module: said(lambda: module.ordered(meta, SUITE, SEARCH, changed))

    return [
        lambda module: str(read_twice(module)),
        as_ordered(entries),
        as_ordered(entries[1:]),
        as_ordered([replace(first, processor_seconds=None), *entries[1:]]),
        as_ordered([first, replace(second, seconds=first.seconds, curve=first.curve), *entries[2:]]),
        lambda module: said(lambda: module.check_originals([submission, other])),
    ]


def test_every_rule_of_a_submission_is_noticed_when_it_is_missing(honest):
    submission: Submission = read(honest)
    cases = [
        *meta_cases(submission.meta),
        *source_cases(submission.meta),
        *whole_cases(submission),
        *spending_cases(submission.entries[0]),
    ]
    assert unnoticed(checks, raises, cases) == []


def lines_of(entry, **fields) -> bytes:
    document = json.loads(to_line(entry)) | fields
    return json.dumps(document).encode() + b"\n"


def folder_cases(honest, tmp_path) -> list[Case]:
    """Folders and files that are refused, each for one reason, made once."""
    meta, runs = (honest / META).read_bytes(), (honest / RUNS).read_bytes()
    entry = read(honest).entries[0]
    cases: list[Case] = []

    def case(name, work, **files):
        place = tmp_path / name
        place.mkdir()
        for file, content in {META: meta, RUNS: runs, **files}.items():
            if content is not None:
                (place / file.replace("_", ".")).write_bytes(content)
        cases.append(lambda module: said(lambda: work(module, place)))
        return place

    def files(module, place):
        return module.submission_files(place)

    def all_runs(module, place):
        return list(module.read_runs(place / RUNS))

    def unpacked(module, place):
        for _ in module._unpacked(place / RUNS):
            pass

    def line(module, place):
        return module.from_line((place / "line").read_bytes())

    case("good", all_runs)
    cases.append(lambda module: said(lambda: module.submission_files(tmp_path / "nowhere")))
    case("more", files, extra_txt=b"x")
    case("less", files, **{RUNS: None})
    (case("link", files, **{META: None}) / META).symlink_to(honest / META)
    os.mkfifo(case("pipe", files, **{RUNS: None}) / RUNS)
    (case("code", files) / AGENT).symlink_to(honest / META)
    case("large", files, **{META: b"#" * (folder.META_BYTES + 1)})
    case("cut", all_runs, **{RUNS: runs[:-5]})
    case("trailing", all_runs, **{RUNS: runs + b"x"})
    case("bomb", unpacked, **{RUNS: lzma.compress(bytes(folder.UNPACKED_BYTES + 1), preset=0)})
    case("lines", all_runs, **{RUNS: lzma.compress(b"\n" * (folder.LINES + 1))})
    case("long", line, line=lines_of(entry, env_id="x" * folder.NAME_LENGTH)[:-1] + b" " * folder.LINE_BYTES)
    hostile = {
        "fields": {"more": 1},
        "text": {"env_id": "x\x1b"},
        "number": {"seed": -1},
        "curve": {"curve": [[1, 2]]},
        "seconds": {"seconds": -1.0},
        "processor": {"processor_seconds": "much"},
    }
    for name, fields in hostile.items():
        case(name, line, line=lines_of(entry, **fields))
    return cases


def test_every_limit_of_a_folder_is_noticed_when_it_is_missing(honest, tmp_path):
    assert unnoticed(folder, raises, folder_cases(honest, tmp_path)) == []
