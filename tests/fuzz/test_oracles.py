"""The campaigns' checks notice what they are for: each is shown a package that does that one thing wrong.

The checks of other campaigns are in test_other_oracles.py, test_kills.py and test_interrupts.py, those of memory in
tests/envs/test_memory.py.
"""

import os
import threading
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from onnx import ModelProto

from memplace_agents.learning import safe_files
from memplace_env._lib.errors import MemPlaceError, PlanError
from memplace_env._lib.foreign import SENTENCE
from memplace_env.envs.registration import Formulation
from memplace_env.machine.accelerator.load import find
from memplace_env.placement.compiler import native_plan, native_report
from memplace_env.placement.resolve_task import make_task
from memplace_env.placement.synthetic import from_spec, random_dag
from memplace_leaderboard.entry import Entry
from memplace_leaderboard.folder import META, RUNS
from memplace_leaderboard.submission import Meta, Submission
from tests.fuzz import Wrong, __main__, campaign, worker
from tests.fuzz.kinds import (
    chips,
    command_lines,
    env_arguments,
    measurements,
    onnx_files,
    plans,
    policy_files,
    program_files,
    stablehlo_files,
    submissions,
    tflite_files,
)


def refuse(*_, **__):
    raise PlanError("it is refused.")


def outcome(module, prepared, folder, number=0):
    return worker.outcome(module, prepared, 0, number, folder)


def same(thing, *_):
    return thing


# The worker.


class Noisy:
    def __del__(self):
        raise KeyError("in a finaliser")


def in_a_thread():
    thread = threading.Thread(target={}.__getitem__, args=["in a thread"])
    thread.start()
    thread.join()


@pytest.mark.parametrize(
    ("act", "expected"),
    [
        (lambda: None, "accepted"),
        (lambda: refuse(), "refused"),
        (in_a_thread, "traceback"),
        (Noisy, "traceback"),
        (lambda: [][0], "traceback"),
        (lambda: os.stat("/nowhere"), "traceback"),
        (lambda: [].index(3), "traceback"),  # MemPlaceError is a ValueError too
        (lambda: exec("raise SystemExit(0)"), "traceback"),
        (lambda: exec("raise KeyboardInterrupt"), "traceback"),
        (lambda: exec("raise RecursionError"), "traceback"),
        (lambda: exec("raise MemoryError"), "memory"),
        (lambda: np.ones(2**52), "memory"),
    ],
)
def test_the_worker_sees_what_a_case_raises(act, expected, tmp_path):
    assert outcome(SimpleNamespace(NAME="x", case=lambda *_: act() is not True), None, tmp_path)[0] == expected


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("x" * (SENTENCE + 100), "refused"),
        ("x" * (SENTENCE + 101), "unreadable"),
        ("", "unreadable"),
        ("two\nlines", "unreadable"),
        ("\x1b[31mred", "unreadable"),
    ],
)
def test_the_worker_reads_messages(message, expected, tmp_path):
    class RawError(MemPlaceError):
        def __str__(self):
            return message

    def case(*_):
        raise RawError

    assert outcome(SimpleNamespace(NAME="x", case=case), None, tmp_path)[0] == expected


@pytest.mark.parametrize("failures", [[], [{"case": 3, "outcome": "wrong"}]])
def test_failures_are_in_table_and_exit_code(failures, tmp_path, monkeypatch, capsys):
    def run_chunk(setting):
        counts = dict.fromkeys(("accepted", "refused", *campaign.FAILURES), 0) | {"wrong": 7777 * len(failures)}
        return {**setting, **counts, "slowest_s": 0.0, "peak_mib": 1, "failures": failures}

    monkeypatch.setattr(__main__, "run_chunk", run_chunk)
    ledger = str(tmp_path / "ledger")
    monkeypatch.setattr("sys.argv", ["fuzz", "--kind", "plans", "--share", "0.001", "--ledger", ledger])
    with pytest.raises(SystemExit) as ended:
        __main__.main()
    assert ended.value.code == len(failures)
    assert ("7,777" in capsys.readouterr().out) == bool(failures)


# The kinds of hostile input, whose files are left as they are.


@pytest.fixture(scope="module")
def task():
    return make_task(random_dag(1, ops=5, dtype="int8", largest=400), "nnp-i")


def reporting(**changes):
    """Return a simulator that reports the native plan's figures with changes."""
    return lambda task, plan=None: replace(native_report(task), **changes)


@pytest.mark.parametrize(
    ("name", "instead", "detail"),
    [
        ("native_report", native_report, ""),
        ("native_report", reporting(latency_ps=0), "0 ps, bound"),
        ("native_report", reporting(latency_ps=2**62), "ps, bound"),
        ("native_report", reporting(traffic_bound_ps=2**61), "ps, bound"),
        ("native_report", reporting(energy_j=float("nan")), "nan J"),
        ("native_report", reporting(energy_j=-1.0), "-1.0 J"),
        ("native_report", reporting(stall_ps=np.array([-1])), "something negative"),
        ("native_report", reporting(peak_bytes=np.array([-1])), "something negative"),
        ("native_report", refuse, "accepted, and later PlanError: it is refused."),
        ("evaluate_plan", reporting(latency_ps=0), "0 ps, bound"),
        ("evaluate_plan", refuse, "accepted, and later PlanError: it is refused."),
    ],
)
def test_chips(name, instead, detail, tmp_path, monkeypatch):
    text = find("nnp-i").read_bytes()
    program = random_dag(1, ops=4, dtype="int8", largest=10**5)
    for way in ("damaged", "mutated", "_stretched"):
        monkeypatch.setattr(chips, way, same)
    monkeypatch.setattr(chips, name, instead)
    seeds = chips.Seeds([chips.tomllib.loads(text.decode())], [text], {"int8": [program] * 2})
    result, said = outcome(chips, seeds, tmp_path)
    assert (result, detail in said) == ("wrong" if detail else "accepted", True), said


def test_chips_without_a_plan(task):
    with pytest.raises(Wrong, match="no plan"):
        chips._judged(task, SimpleNamespace(plan=None))


def test_chips_with_what_no_document_holds(task, monkeypatch):
    monkeypatch.setattr(chips.Report, "summary", lambda report: {"latency_s": float("inf")})
    with pytest.raises(ValueError, match="not JSON compliant"):
        chips._check(task, native_report(task))


def overlapping(plan):
    """All blocks at the beginning of their memories."""
    blocks = plan.allocations.copy()
    blocks[:, 2] = 0
    return replace(plan, allocations=blocks)


@pytest.mark.parametrize(
    ("broken", "detail"),
    [
        ({}, ""),
        ({"is_shipped": lambda chip: False}, "a plan names the chip"),
        ({"evaluate_plan": reporting(latency_ps=0)}, "a plan takes 0 ps"),
        ({"evaluate_plan": reporting(latency_ps=1)}, "is said to take 1 ps"),
        ({"evaluate_plan": reporting(energy_j=float("inf"))}, "inf J"),
        ({"evaluate_plan": refuse}, "accepted, and later PlanError"),
        ({"violations": lambda task, plan: [], "overlaps": True}, "that cannot run is called valid"),
    ],
)
def test_plans(broken, detail, tmp_path, monkeypatch):
    task = plans._task(1, "nnp-i", (700, 2_000))
    plan = native_plan(task)
    if broken.pop("overlaps", False):
        plan = overlapping(plan)
        assert plans.violations(task, plan)
    for way in ("damaged", "mutated", "_nudged"):
        monkeypatch.setattr(plans, way, same)
    for name, instead in broken.items():
        monkeypatch.setattr(plans, name, instead)
    result, said = outcome(plans, [plans.Seed(task, plans._document(plan))], tmp_path)
    assert (result, detail in said) == ("wrong" if detail else "accepted", True), said


CHAIN, SAVE = from_spec("synthetic:chain?ops=4"), program_files.Program.save


@pytest.mark.parametrize(
    ("save", "detail"),
    [
        (SAVE, ""),
        (lambda program, path: SAVE(from_spec("synthetic:chain?ops=5"), path), "another one"),
        (refuse, "accepted, and later PlanError"),
    ],
)
def test_program_files(save, detail, tmp_path, monkeypatch):
    CHAIN.save(tmp_path / "seed.program")
    file = (tmp_path / "seed.program").read_bytes()
    monkeypatch.setattr(program_files, "damaged", same)
    monkeypatch.setattr(program_files, "_resigned", same)
    monkeypatch.setattr(program_files.Program, "save", save)
    result, said = outcome(program_files, [file], tmp_path)
    assert (result, detail in said) == ("wrong" if detail else "accepted", True), said


def program(**changes):
    """Return a stand-in for `check_program`, with one thing changed."""
    texts = {"name": "n", "op_type": ["Relu"], "op_name": ["a"], "tensor_name": ["b"]}
    totals = {name: np.ones(2, np.int64) for name in ("tensor_bytes", "macs", "vector_ops", "use_bytes")}
    return SimpleNamespace(**(texts | totals | changes))


BAD_PROGRAMS = [
    {"name": "\x1b[31m"},
    {"op_type": ["Relu\n"]},
    {"op_name": ["a" * (onnx_files.LONGEST + 1)]},
    {"tensor_name": ["\u202e"]},
    {"tensor_bytes": np.array([-1])},
    {"macs": np.full(2, 2**62)},
    {"vector_ops": np.full(2, 2**62)},
    {"use_bytes": np.full(3, 2**62)},
]


@pytest.mark.parametrize("changes", [{}, *BAD_PROGRAMS])
def test_programs(changes, tmp_path, monkeypatch):
    """Programs of every loader are checked."""
    prepared = {
        (onnx_files, "load_onnx"): ([ModelProto(ir_version=8)], [b"x"], [["a"]]),
        (tflite_files, "load_tflite"): [b"x"],
        (stablehlo_files, "load_stablehlo"): ["x"],
    }
    for number, ((module, name), seeds) in enumerate(prepared.items()):
        monkeypatch.setattr(module, name, lambda *_, **__: program(**changes))
        if module is stablehlo_files:
            monkeypatch.setattr(module.stablehlo_reader, "as_text", module.stablehlo_reader.as_text)
        assert outcome(module, seeds, tmp_path, number)[0] == ("wrong" if changes else "accepted")


@pytest.mark.parametrize(
    ("changes", "broken"),
    [
        ({}, []),
        ({"latency_s": float("inf")}, []),
        ({"latency_s": 0.0}, []),
        ({"name": "\x1b"}, []),
        ({"name": "x" * 2_001}, []),
        ({}, ["a violation"]),
        (None, []),
    ],
)
def test_measurements(changes, broken, tmp_path, monkeypatch):
    row = {"name": "a", "latency_s": 1.0, "plan": 1, "task": None} | (changes or {})
    read = [] if changes is None else [SimpleNamespace(**row)]
    monkeypatch.setattr(measurements, "read_measurements", lambda *_: read)
    monkeypatch.setattr(measurements, "violations", lambda *_: broken)
    sound = changes == {} and not broken
    assert outcome(measurements, [["model"], ["x"]], tmp_path)[0] == ("accepted" if sound else "wrong")


ENTRY = Entry("MemPlace-BERT-v0", "10", 0, None, 7, 10, 1.5, ())
META_ = Meta("n", "random", "quick-v1", "0" * 64, "search", (Formulation.ONE_SHOT,), ("10",), (0,), "0")


@pytest.mark.parametrize(
    ("meta", "entries", "detail"),
    [
        ({"name": "declared"}, [ENTRY], ""),
        ({"budgets": ("100",)}, [ENTRY], "another description"),
        ({}, [], "0 runs are accepted"),
        ({}, [replace(ENTRY, seed=1)], "is accepted for that of"),
        ({}, [replace(ENTRY, latency_ps=6)], "6 ps is accepted, where the plan takes 7"),
    ],
)
def test_submissions(meta, entries, detail, tmp_path, monkeypatch):
    folder = tmp_path / "honest"
    folder.mkdir()
    for name in (META, RUNS):
        (folder / name).touch()
    for way in ("_change_meta", "_change_runs"):
        monkeypatch.setattr(submissions, way, lambda *_: None)
    monkeypatch.setattr(submissions, "verify", lambda _: Submission(replace(META_, **meta), tuple(entries)))
    honest = submissions.Honest(folder, {}, [], Submission(META_, (ENTRY,)))
    result, said = outcome(submissions, honest, tmp_path)
    assert (result, detail in said) == ("wrong" if detail else "accepted", True), said


class Env:
    """An environment in small, of which one thing may be wrong."""

    observation_space = action_space = SimpleNamespace(
        contains=lambda seen: seen == 0, seed=lambda _: None, sample=lambda: 0
    )

    def __init__(self, seen=0, reward=0.0, refuses=False, moves=False):
        self.states, self.seen, self.reward, self.refuses, self.moves = np.zeros(2), seen, reward, refuses, moves

    def reset(self, **_):
        return self.seen, {}

    def step(self, action):
        if action != 0 or self.refuses:
            self.states += self.moves
            raise PlanError("refused.")
        return 0, self.reward, False, False, {}

    def close(self):
        pass


@pytest.mark.parametrize(
    ("faults", "detail"),
    [
        ({}, ""),
        ({"seen": 1}, "outside of its space"),
        ({"reward": float("nan")}, "no number"),
        ({"refuses": True}, "accepted, and later PlanError"),
    ],
)
def test_arguments_of_environments(faults, detail, tmp_path):
    module = SimpleNamespace(NAME="x", case=lambda *_: env_arguments._play(Env(**faults)) is None)
    result, said = outcome(module, None, tmp_path)
    assert (result, detail in said) == ("wrong" if detail else "accepted", True), said


@pytest.mark.parametrize("moves", [False, True])
def test_refused_actions(moves, tmp_path):
    rng = SimpleNamespace(random=lambda: 0.9, integers=lambda _: 3)
    module = SimpleNamespace(NAME="x", case=lambda *_: env_arguments._step(Env, Env(moves=moves, refuses=True), rng))
    assert outcome(module, None, tmp_path)[0] == ("wrong" if moves else "refused")


def test_states_that_cannot_be_played_on(tmp_path):
    from tests.fuzz.kinds import states

    module = SimpleNamespace(NAME="x", case=lambda *_: states._play_on(Env(refuses=True)))
    assert outcome(module, None, tmp_path)[0] == "wrong"


@pytest.mark.parametrize("wrong", ["", "not finite", "other kind", "changed bytes"])
def test_policies(wrong, tmp_path, monkeypatch):
    policy = SimpleNamespace(state_dict=lambda: {"w": torch.tensor([torch.nan if wrong == "not finite" else 1.0])})
    loads = iter([same, refuse if wrong == "other kind" else same])
    monkeypatch.setattr(policy_files, "load_policy", lambda *_: next(loads)(policy))
    monkeypatch.setattr(policy_files, "save_policy", lambda *_: None)
    learner = SimpleNamespace(network=SimpleNamespace(KIND="k"), name="egrl")
    learner = type("Learner", (), vars(learner) | {"__init__": lambda *_, **__: None, "solve": lambda *_, **__: None})
    safe_files.save(tmp_path / "policy", "k", {"w": torch.ones(3)})
    subject = policy_files._policy(learner, None, None, tmp_path / "policy")
    for way in ("_something_else", "_other_bytes"):
        monkeypatch.setattr(policy_files, way, lambda _, raw: raw + b"x" if wrong == "changed bytes" else raw)
    monkeypatch.setattr(policy_files, "_other_header", lambda _, raw: raw)
    rng = SimpleNamespace(integers=lambda _: 0, random=lambda: 0.2)
    module = SimpleNamespace(NAME="x", case=lambda *_: policy_files.case([subject], rng, tmp_path))
    result, said = outcome(module, None, tmp_path)
    assert result == ("wrong" if wrong else "accepted"), said


@pytest.mark.parametrize("where", ["", "step", "state_dict", "plan"])
def test_checkpoints(where, tmp_path, monkeypatch):
    """Runs from an accepted checkpoint must work, and lead to valid plans."""
    run = SimpleNamespace(done=False, step=lambda: None, state_dict=lambda: {})
    if where in vars(run):
        setattr(run, where, refuse)

    class Learner:
        name = "egrl"

        def __init__(self, *_, **__):
            self.new_run, self._restore, self._identity = (lambda *_: run), (lambda *_: None), (lambda *_: None)

    evaluator = SimpleNamespace(solution=lambda *_: SimpleNamespace(plan=1))
    monkeypatch.setattr(policy_files, "GameEvaluator", lambda *_, **__: evaluator)
    monkeypatch.setattr(policy_files, "require_valid", refuse if where == "plan" else same)
    safe_files.save(tmp_path / "checkpoint", "egrl-run/2", {})
    subject = policy_files._checkpoint(Learner, None, SimpleNamespace(task=None), tmp_path / "checkpoint")
    module = SimpleNamespace(NAME="x", case=lambda *_: subject.read(tmp_path / "checkpoint") is None)
    assert outcome(module, None, tmp_path)[0] == ("wrong" if where else "accepted")


SENTENCE_ = "memplace: It is none; pass another.\n"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, "accepted"),
        ({"exit_code": 2, "stderr": SENTENCE_}, "accepted"),
        ({"exit_code": 1}, "accepted"),
        ({"exit_code": 0, "exception": PlanError("it left the application.")}, "wrong"),
        ({"exit_code": 1, "exception": KeyError("x")}, "traceback"),
        ({"exit_code": 3}, "wrong"),
        ({"exit_code": -15}, "wrong"),
        ({"stdout": "{}\x1b[31m"}, "wrong"),
        ({"stderr": "\u202e"}, "wrong"),
        ({"stderr": "Traceback (most recent call last):"}, "wrong"),
        ({"stdout": "Traceback (most recent call last):"}, "wrong"),
        ({"stderr": "memplace: warning: overflow."}, "wrong"),
        ({"exit_code": 2}, "wrong"),
        ({"exit_code": 2, "stderr": SENTENCE_ * 2}, "wrong"),
        ({"exit_code": 2, "stderr": SENTENCE_ + "more"}, "wrong"),
        ({"exit_code": 2, "stderr": "Usage: " + "x" * 4000 + "\n" + SENTENCE_}, "wrong"),
        ({"exit_code": 2, "stderr": "memplace: no end\n"}, "wrong"),
        ({"stdout": '{"a": NaN}'}, "wrong"),
        ({"stdout": '{"a": '}, "traceback"),
    ],
)
def test_command_lines(changes, expected, tmp_path):
    ended = SimpleNamespace(**({"exception": None, "exit_code": 0, "stdout": "{}", "stderr": ""} | changes))
    module = SimpleNamespace(NAME="x", case=lambda *_: command_lines.check(ended, True) is None)
    assert outcome(module, None, tmp_path)[0] == expected


def test_command_lines_are_checked(tmp_path, monkeypatch):
    monkeypatch.setattr(command_lines, "command_line", lambda *_: ["agents"])
    fake = SimpleNamespace(exception=None, exit_code=-9, stdout="", stderr="")
    monkeypatch.setattr(command_lines, "CliRunner", lambda: SimpleNamespace(invoke=lambda *_, **__: fake))
    assert outcome(command_lines, None, tmp_path) == ("wrong", "exit code -9: memplace 'agents'")
