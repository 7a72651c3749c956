"""Each guard of a submission broken once: something hostile, of which the guard alone keeps us, then passes."""

import ast
import json
import lzma
import os
from dataclasses import asdict, replace
from types import SimpleNamespace

import numpy as np

from memplace_env.envs.splits import split_suites
from memplace_env.placement.compiler import HEURISTICS, all_backing, native_plan
from memplace_leaderboard import checks, folder, judge, judged_machine, plan_wire, rerun_record, rerunning
from memplace_leaderboard.drawn_machines import MeasuredMachine, drawn_machine
from memplace_leaderboard.entry import Point
from memplace_leaderboard.folder import AGENT, META, RUNS, to_line
from memplace_leaderboard.pinned import task_of
from memplace_leaderboard.plan_wire import to_bytes
from memplace_leaderboard.remote_simulator import MEASURE
from memplace_leaderboard.submission import Submission, Training
from memplace_leaderboard.suite import REFERENCE, load_suite
from memplace_leaderboard.verifying import read
from tests.leaderboard.tampering import SUITE
from tests.leaderboard.test_rerunning import RECORD
from tests.mutation import Case, decides, judges, noted, raises, unnoticed, with_limits

SEARCH, DRAWN = SUITE.track("search"), load_suite("black-box-v2")
SAID = ("if measurements is None", "if type(", "if not isinstance(document", "document = parse_json")
"""Beginnings of the judge's guards of messages."""


def of_meta(meta, **fields) -> Case:
    return noted(lambda module: str(module.check_meta(replace(meta, **fields)) and "accepted"))


def of_entry(entry, noise=None, **fields) -> Case:
    return noted(lambda module: str(module.check_spending(replace(entry, **fields), noise)))


def spending_cases(entry) -> list[Case]:
    end = entry.curve[-1]
    start = Point(1, 0.0, 2 * end.latency_ps)
    assert end.evaluations <= entry.evaluations
    noisy_least = int(end.latency_ps * (1 - 6 * 0.02))
    least_s = checks.FASTEST_USE_S * len(entry.plan.use_level)
    return [
        of_entry(entry),
        of_entry(entry, processor_seconds=None),
        of_entry(entry, evaluations=end.evaluations),
        of_entry(entry, evaluations=1, curve=(end._replace(evaluations=1),)),
        of_entry(entry, seconds=least_s, curve=(end._replace(seconds=0.0),)),
        of_entry(entry, budget="1s", processor_seconds=2.5),
        of_entry(entry, budget="1s", seconds=34.0),
        of_entry(entry, curve=(end._replace(latency_ps=end.latency_ps + 1), end)),
        of_entry(entry, curve=(end._replace(seconds=entry.seconds + 1e-6),)),
        of_entry(entry, noise=1.0, curve=(start._replace(latency_ps=0), end)),
        *(of_entry(entry, noise=0.02, curve=(start._replace(latency_ps=noisy_least + more), end)) for more in (0, 1)),
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
        of_meta(meta, **drawn, deterministic=True, nominal=True),
        of_meta(meta, deterministic=True, seeds=(0,)),
        of_meta(meta, training=Training(tuple(SUITE.instances), 10, 1.0)),
        of_meta(meta, **zero, training=Training(split_suites()["one-shot-train"][:1], 10, 1.0)),
        of_meta(meta, **zero, training=Training(("MallocGame-Train-v0", "MemPlaceSteps-Train-v0"), 10, 1.0)),
        of_meta(meta, **zero, training=Training(("MallocGame-Test-v0",), 10, 1.0)),
        of_meta(meta, nominal=True),
        of_meta(meta, machine_seeds=(1, 2, 3, 4, 5)),
        of_meta(meta, **drawn),
        of_meta(meta, **{**drawn, "machine_seeds": None}),
        of_meta(meta, **{**drawn, "machine_seeds": (1, 1, 3, 4, 5)}),
        of_meta(meta, **zero, training=Training(tuple(SUITE.instances), 10, 1.0)),
    ]


def source_cases(meta) -> list[Case]:
    named = replace(meta, agent="module:Class", source={"kind": "file"})
    unnamed, old = replace(named, source={}), replace(named, source={}, format=1)
    pairs = [(named, True), (named, False), (meta, True), (meta, False), (unnamed, False), (old, False)]
    return [noted(lambda module, pair=pair: str(module.check_source(*pair))) for pair in pairs]


def whole_cases(submission) -> list[Case]:
    meta, entries = submission.meta, submission.entries
    first, second = entries[:2]
    other = replace(submission, meta=replace(meta, name="mine"))

    def read_twice(module):
        check = module.key_check(meta, SUITE, SEARCH)
        keys = [("elsewhere", "10", 0), (first.env_id, "11", 0), first.key, first.key]
        return str([noted(lambda module, key=key: str(check(key)))(module) for key in keys])

    def as_ordered(changed, *of):
        return noted(lambda module: str(len(module.ordered(*(of or (meta, SUITE, SEARCH)), changed))))

    drawn = replace(DRAWN, instances=dict(list(DRAWN.instances.items())[:1]))
    (env_id,), track = drawn.instances, drawn.track("factors-5")
    runs = [
        replace(first, env_id=env_id, budget=budget, seed=seed) for budget in ("10", REFERENCE) for seed in range(5)
    ]
    runs = [replace(run, seconds=number, processor_seconds=1.0) for number, run in enumerate(runs)]
    judged = [replace(run, processor_seconds=None) if run.budget == REFERENCE else run for run in runs]
    machines = replace(meta, formulations=("one-shot",), budgets=("10",), seeds=(0, 1, 2, 3, 4))
    return [
        read_twice,
        as_ordered(entries),
        as_ordered(entries[1:]),
        as_ordered([replace(first, processor_seconds=None), *entries[1:]]),
        as_ordered([first, replace(second, seconds=first.seconds, curve=first.curve), *entries[2:]]),
        as_ordered(judged, machines, drawn, track),
        noted(lambda module: str(module.check_originals([submission, other]))),
    ]


def test_every_rule_of_a_submission_is_noticed_when_it_is_missing(honest):
    submission: Submission = read(honest)
    cases = [
        *meta_cases(submission.meta),
        *source_cases(submission.meta),
        *whole_cases(submission),
        *spending_cases(submission.entries[0]),
    ]
    assert unnoticed(checks, raises, cases, ".xxxxx.....xxx.xxx.xx.x...xxx.x.........xx.xxxxxxxxxxxxxxxxx") == []


def lines_of(entry, **fields) -> bytes:
    document = json.loads(to_line(entry)) | fields
    return json.dumps(document).encode() + b"\n"


def folder_cases(honest, tmp_path) -> list[Case]:
    """Folders and files that are refused, each for one reason, made once."""
    meta, runs = (honest / META).read_bytes(), (honest / RUNS).read_bytes()
    entry = read(honest).entries[0]
    cases: list[Case] = []

    def case(name, work, limits=({},), **files):
        place = tmp_path / name
        place.mkdir()
        for file, content in {META: meta, RUNS: runs, **files}.items():
            if content is not None:
                (place / file.replace("_", ".")).write_bytes(content)
        cases.extend(with_limits(noted(lambda module: str(work(module, place))), **limit) for limit in limits)
        return place

    def at(name: str, size: int) -> list[dict[str, int]]:
        return [{name: size + more} for more in (-1, 0, 1)]

    def files(module, place):
        return module.submission_files(place)

    def all_runs(module, place):
        return len(list(module.read_runs(place / RUNS)))

    def line(module, place):
        return module.from_line((place / "line").read_bytes())

    unpacked, some = lzma.decompress(runs), lines_of(entry)
    case("good", all_runs, at("LINES", unpacked.count(b"\n")) + at("UNPACKED_BYTES", len(unpacked)))
    case("none", lambda module, place: files(module, place / "nowhere"))
    case("more", files, extra_txt=b"x")
    case("less", files, **{RUNS: None})
    (case("link", files, **{META: None}) / META).symlink_to(honest / META)
    os.mkfifo(case("pipe", files, **{RUNS: None}) / RUNS)
    (case("code", files) / AGENT).symlink_to(honest / META)
    case("large", files, at("META_BYTES", len(meta)))
    case("cut", all_runs, **{RUNS: runs[:-5]})
    case("trailing", all_runs, **{RUNS: runs + b"x"})
    case("long", line, at("LINE_BYTES", len(some)) + at("POINTS", len(entry.curve)), line=some)
    case("list", line, line=json.dumps(list(json.loads(some))).encode())
    case("old", line, line=to_line(replace(entry, processor_seconds=None)))
    hostile = {
        "fields": [{"more": 1}],
        "text": [{"env_id": text} for text in ("x\x1b", 5, *("x" * (folder.NAME_LENGTH + more) for more in (0, 1)))],
        "number": [{"seed": seed} for seed in (-1, 2**62, 2**62 + 1, True)],
        "curve": [
            {"curve": curve} for curve in (5, "", [{"a": 1, "b": 2, "c": 3}], [[1, 2]], [[1, -1.0, 2]], [[-1, 1.0, 2]])
        ],
        "seconds": [{"seconds": seconds} for seconds in (-1.0, -0.5, 0, 1e9 - 0.5, 1e9, 1e9 + 0.5, True)],
        "processor": [{"processor_seconds": "much"}],
    }
    for name, changes in hostile.items():
        for number, fields in enumerate(changes):
            case(f"{name}{number}", line, line=lines_of(entry, **fields))
    return cases


def test_every_limit_of_a_folder_is_noticed_when_it_is_missing(honest, tmp_path):
    assert unnoticed(folder, judges, folder_cases(honest, tmp_path)) == []


def test_every_limit_of_the_record_of_reruns_is_noticed_when_it_is_missing(tmp_path):
    sound = asdict(RECORD)
    changes = [{}, {"more": 1}, *({"p_value": p} for p in (-0.1, 0, 1, 1.1, None)), {"budgets": [1]}]
    changes += [{name: 5} for name in sound if isinstance(sound[name], str)]
    changes += [{"times": {"one-shot 10": pair}} for pair in ((0.5, 1.5), (0, 1), (1, -0.5), ("inf", 1), (1,))]
    cases = []
    for number, line in enumerate([json.dumps(sound | change) for change in changes] + ["[]", "null"]):
        path = tmp_path / str(number)
        path.write_text(line)
        ask = noted(lambda module, path=path: str(module.read_records(path)))
        cases += [with_limits(ask, BYTES=len(line) - less) for less in (-1, 0, 1)]
    same = tuple(f"if not all((0 < each and each < math.inf {more} 1" for more in "+-")
    assert (
        unnoticed(
            rerun_record, raises, cases, "..xxxxxxx..x..xxxx..xxxxxxxxxxxxxxxxxxxxxxxxxxxx..xxxxxxxxxxxxxxxxxxx", same
        )
        == []
    )


def test_every_rule_of_a_rerun_is_noticed_when_it_is_missing(honest):
    """Deterministic rows have another plan or none, and shares of the gain above or below the slack."""
    submission = read(honest)
    runs = [entry for entry in submission.entries if entry.seed == 0]

    def case(change: float, budget: str, *, deterministic: bool, p=0.5, **fields: object) -> Case:
        meta = replace(submission.meta, deterministic=deterministic, budgets=(budget,))
        old = [replace(entry, budget=budget) for entry in runs]
        kept, again = (
            replace(submission, meta=meta, entries=tuple(entries))
            for entries in (old, [replace(entry, **fields) for entry in old])
        )
        ask = noted(lambda module: str(module._compared(honest, SUITE, SEARCH, kept, again)))
        shares = lambda suite, track, each: [np.array([change * (each is again)])]  # noqa: E731
        return with_limits(ask, _shares=shares, p_value=lambda old, new: p)

    budgets, slack, level = ("10", "1s"), 0.01, 0.01
    other = ({}, {"evaluations": 3}, {"latency_ps": 3})
    cases = [case(0, budget, deterministic=True, **fields) for budget in budgets for fields in other]
    changes = (-2 * slack, -slack, -0.9 * slack, 0.0, 2 * slack)
    cases += [case(change, "1s", deterministic=fixed, latency_ps=3) for change in changes for fixed in (True, False)]
    cases += [
        case(c, "10", deterministic=False, p=p)
        for c in (-0.5, -1e-9, 0, 0.5)
        for p in (0, level / 2, level, 2 * level, 1)
    ]
    for has, asked in ((("10",), ()), (("10",), ("10", "11")), (("10",), ("11",)), ((), ())):
        of = replace(submission, meta=replace(submission.meta, budgets=has))
        ask = noted(lambda module, of=of, asked=asked: str(module.run_again(honest, of, asked)))
        cases.append(with_limits(ask, run_all=lambda jobs, *_, **__: [(job, runs[0]) for job in jobs]))
    for used in (0.5, 1.5, 15.5, 4.0 * 4 + 0.05, 16.5):  # processor seconds where the row says 4
        times = {"one-shot 10": (9.0, 4.0)}, {"one-shot 10": (9.0, used)}
        cases.append(noted(lambda module, times=times: str(module.check_times(honest, *times, 0.1, 0.1))))
    assert unnoticed(rerunning, judges, cases, ".xx...x.........xx...xx.............xxxx....x") == []


def test_every_limit_of_a_measuring_machine_is_noticed_when_it_is_missing():
    task = task_of("MemPlace-TCN-LM-v0")
    plans = [native_plan(task), HEURISTICS["all-fastest"](task), all_backing(task)]
    bad = replace(plans[1], allocations=plans[1].allocations * [1, 1, 0, 1, 1])

    def case(most: int | None, noise: float, *, begun: bool) -> Case:
        def ask(module):
            box = MeasuredMachine(drawn_machine("factors", 5), noise, 1)
            machine = module.JudgedMachine(box, task, most)
            heard = [machine.answer(to_bytes(plans[:1]))]
            if begun:
                machine.begin()
            for request in (plans[1:2], plans[:2], [bad], plans[2:], plans[:1]):
                heard += [machine.answer(to_bytes(request)), machine.count]
            return str([*heard, machine.answer(b"")])

        return noted(ask)

    limits = (None, 0, 1, 2, 3, 4)
    cases = [case(most, noise, begun=begun) for most in limits for noise in (0.0, 0.05) for begun in (True, False)]
    unlimited = ("if limited and self.count + self._machine.cost(plans) > self._most:",)
    assert unnoticed(judged_machine, decides, cases, same=unlimited) == []
    data = to_bytes(plans[:1])
    sizes = [np.array([1, *each], dtype="<i8").tobytes() for each in ((-1, 0, 0), (0, -1, 0), (0, 0, -1), (0, 0, 0))]
    hostile = [data, data + b"x", data[:-1], bytes(8), b"\xff" * 8, *sizes]
    wire = [noted(lambda module, data=data: str(module.from_bytes(data, task))) for data in hostile]
    assert unnoticed(plan_wire, raises, wire, ".xx.xxxx.") == []


def test_every_limit_of_what_an_agent_says_is_noticed_when_it_is_missing():
    plan = json.loads(native_plan(task_of("MemPlace-TCN-LM-v0")).to_json())
    pipe = SimpleNamespace(send_bytes=lambda answer: None, send=lambda answer: None)

    def case(*documents: object, points: int = 2, machine: object = None) -> Case:
        messages = [each if isinstance(each, bytes) else json.dumps(each).encode() for each in documents]

        def ask(module):
            left = iter([b'{"ready": 0.5}', *messages])
            module._received = lambda pipe, left_s: next(left)
            found = module._listen(pipe, machine, 99.0)
            return str((found.plan, found.evaluations, [point[::2] for point in found.curve]))

        return with_limits(noted(ask), POINTS=points, LINE_BYTES=max(map(len, messages)) - (points == 9))

    last = {"evaluations": 7, "plan": plan}
    counted = SimpleNamespace(begin=lambda: None, answer=lambda request: b"", count=5)
    claims = [{"evaluations": 1, "latency_ps": ps} for ps in (-1, 0, 1, 2, 2**62 - 1, 2**62, True, "a", 2.5)]
    cases = [case({**last, "evaluations": count}) for count in (-1, 0, 1, 2**62 - 1, 2**62, True, "a")]
    cases += [case(claim, last) for claim in claims] + [case(*claims[3:4] * 4, last, points=most) for most in (1, 2, 3)]
    cases += [case([]), case({"plan": None}), case({"error": "no"}), case(last, points=9), case(MEASURE, last)]
    cases += [case(MEASURE, last, machine=counted)]
    assert unnoticed(judge, lambda each: ast.unparse(each).startswith(SAID), cases) == []
