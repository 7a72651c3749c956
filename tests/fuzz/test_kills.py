"""A few moments of the campaign of kills; and it notices each fault that it is for, in stand-ins of a learner."""

import json
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from memplace_agents.built_in_agents import CHECKPOINT, POLICY
from memplace_agents.egrl import EGRL
from memplace_agents.learning import safe_files
from memplace_env._lib.files import write_together
from memplace_env.placement.compiler import native_plan
from memplace_env.placement.resolve_task import resolve_task
from tests.fuzz import UNHEEDED, Wrong, kills
from tests.patience import patience


@pytest.mark.thorough
def test_a_few_moments(tmp_path):
    """One of each way, and the log spares a second try."""
    log = str(tmp_path / "log.jsonl")
    command = [sys.executable, "-m", "tests.fuzz.kills", "--agent", "egrl", "--moments", "5", "--log", log]
    for _ in range(2):
        ended = subprocess.run(
            [*command, "--log", str(tmp_path / "log.jsonl")],
            capture_output=True,
            text=True,
            timeout=patience(300),
            check=False,
        )
        assert ended.returncode == 0, ended.stdout + ended.stderr
    rows = [json.loads(line) for line in ended.stdout.splitlines()]
    assert [row["number"] for row in rows] == list(range(5))
    assert all(row["same"] for row in rows)
    assert len({row["happened"][0]["way"] for row in rows}) == 5


class Learner:
    """A run of three rounds in place of `memplace train`.

    Args:
        before, after: called before and after files are written, with the folder, and True at the first start.
    """

    def __init__(self, before=None, after=None):
        self.before, self.after = before, after

    def main(self, args, prog_name):
        out = Path(args[args.index("--out") + 1])
        folder, first = out / "seed-0", not out.exists()
        folder.mkdir(parents=True, exist_ok=True)
        if self.before:
            self.before(folder, first)
        for number in range(3):
            safe_files.save(folder / CHECKPOINT, "egrl-run/2", {"run": {"round": number}, "seconds": time.time()})
        safe_files.save(folder / POLICY, EGRL.network.KIND, {"weights": torch.ones(3)})
        write_together(
            out, {"run.json": "{}", "seed-0/plan.json": PLAN, "seed-0/history.json": f'{{"seconds": {time.time()}}}'}
        )
        if self.after:
            self.after(folder, first)
        sys.exit(0)


PLAN = native_plan(resolve_task("synthetic:chain?ops=4")).to_json()
CTRL_C = kills.Disturbance("interrupted", 60.0, 0, 0)
"""A disturbance that never comes: the stand-in misbehaves by itself."""


def ends(code, said=""):
    def end(folder, first):
        if first:
            sys.stderr.write(said)
            sys.exit(code)

    return end


def leaves(name, content, code):
    def leave(folder, first):
        if first:
            (folder / name).write_text(content)
            sys.exit(code)

    return leave


def hangs(folder, first):
    time.sleep(60)


def fails(folder, first):
    raise KeyError("a name")


def stays_out(folder, first):
    if not first:
        sys.stderr.write("memplace: The run is another's.")
        sys.exit(2)
    sys.exit(130)


def grumbles(folder, first):
    if not first:
        sys.stderr.write("Traceback: of a thread")
    else:
        sys.exit(130)


def other_bits(folder, first):
    if not first:
        safe_files.save(folder / POLICY, EGRL.network.KIND, {"weights": torch.full((3,), 1.0000001)})


def other_name(folder, first):
    if not first:
        (folder / ".plan.json.new").touch()


def at_first(wrong):
    """The first start ends after Ctrl-C, the second one does what is wrong at its end."""
    return Learner(ends(130), wrong)


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """State of an undisturbed run."""
    out = tmp_path_factory.mktemp("kills") / "whole"
    with pytest.raises(SystemExit):
        Learner().main(["--out", str(out)], "")
    return kills.state("egrl", out)


@pytest.fixture
def disturbed(expected, tmp_path, monkeypatch):
    """Return what `_disturb` says of a stand-in."""

    def disturb(learner, disturbance=CTRL_C):
        monkeypatch.setattr(kills, "MEMPLACE", learner)
        return kills._disturb("egrl", tmp_path / "cut", [disturbance], expected)

    return disturb


def test_a_sound_run_passes(disturbed):
    assert disturbed(Learner(ends(130))) == ([130], [0])


@pytest.mark.parametrize(("way", "code"), list(zip(kills.WAYS, (-9, -9, -25, 130, 2), strict=True)))
def test_disturbances_come(way, code, tmp_path, monkeypatch):
    def main(args, prog_name):
        try:
            Learner(lambda folder, first: time.sleep(60 if way in (kills.WAYS[0], kills.WAYS[3]) else 0)).main(args, "")
        except OSError:
            sys.exit(2)
        except KeyboardInterrupt:
            sys.exit(130)

    monkeypatch.setattr(kills, "MEMPLACE", SimpleNamespace(main=main))
    assert kills.train("egrl", tmp_path / "cut", kills.Disturbance(way, 0.2, 9, 20)).code == code


@pytest.mark.parametrize(
    ("learner", "fault"),
    [
        (Learner(fails), "ended with 70.*KeyError"),
        (Learner(ends(3)), "ended with 3"),
        (Learner(ends(-15 % 256)), "ended with 241"),
        (Learner(ends(130, "Traceback (most recent call last)")), "with a traceback"),
        (Learner(leaves(CHECKPOINT, "half", 130)), f"{CHECKPOINT} is not whole"),
        (Learner(leaves(POLICY, "half", 130)), f"{POLICY} is not whole"),
        (Learner(leaves("plan.json", PLAN[:-40], 130)), "plan.json is not whole"),
        (Learner(leaves("history.json", "[{", 130)), "history.json is not whole"),
        (Learner(leaves("../run.json", "", 130)), "run.json is not whole"),
        (Learner(leaves("core", "", 130)), "core is not whole"),
        (Learner(leaves(".plan.json.new", "{", 130)), "left .*plan.json.new"),
        (Learner(ends(0)), "files are missing or damaged in the end"),
        (Learner(None, lambda folder, first: (folder / POLICY).unlink()), "files are missing or damaged in the end"),
        (Learner(stays_out), "it does not go on: memplace: The run is another's"),
        (Learner(grumbles), "it does not go on: Traceback"),
        (at_first(other_bits), "other policy in the end"),
        (at_first(other_name), "other names in the end"),
        (at_first(lambda folder, first: (folder / CHECKPOINT).unlink()), "files are missing or damaged in the end"),
    ],
)
def test_every_fault_is_seen(learner, fault, disturbed):
    with pytest.raises(Wrong, match=f"(?s){fault}"):
        disturbed(learner)


def test_no_room_leaves_nothing(disturbed):
    with pytest.raises(Wrong, match=r"left .*plan.json.new"):
        disturbed(Learner(leaves(".plan.json.new", "{", 2)), CTRL_C._replace(way="no room"))


def test_hangs_are_seen(disturbed, monkeypatch):
    monkeypatch.setattr(kills, "HANG_S", 0.3)
    with pytest.raises(Wrong, match="a run hangs"):
        disturbed(Learner(hangs), CTRL_C._replace(way="no room"))


def test_runs_that_differ_by_themselves_are_seen(tmp_path, monkeypatch):
    """Threads that outlive a run are seen too: a fork might hang over them."""
    for kind in (EGRL, kills.MuZero, kills.PlanGradient):
        monkeypatch.setitem(kind.__init__.__kwdefaults__, "every", 1)
    monkeypatch.setattr(torch, "set_num_threads", lambda count: None)
    drawn = Learner(None, lambda folder, first: (folder / "history.json").write_text(str(time.time_ns())))
    monkeypatch.setattr(kills, "MEMPLACE", drawn)
    with pytest.raises(Wrong, match="undisturbed runs fail or differ"):
        next(kills.moments("egrl", [0], 0, tmp_path / "runs"))
    threads = iter([{"1"}, {"1", "2"}])
    monkeypatch.setattr(kills, "_threads", lambda: next(threads))
    monkeypatch.setattr(kills, "HANG_S", -1.0)
    with pytest.raises(Wrong, match="threads go on"):
        kills._warm_up("egrl", tmp_path / "warm")


def test_seconds_alone_are_left_out_of_what_is_compared():
    """Entries of a history are evaluations, seconds, latency and bound."""
    whole = {"history": [[1, 0.5, 7.0, 3.0]], "seconds": 4.0}
    assert kills._timeless(whole) == kills._timeless({"history": [[1, 0.75, 7.0, 3.0]], "seconds": 5.0})
    for other in ([2, 0.5, 7.0, 3.0], [1, 0.5, 8.0, 3.0], [1, 0.5, 7.0, 4.0]):
        assert kills._timeless(whole) != kills._timeless({"history": [other]})
    assert kills._timeless(torch.zeros(2)) != kills._timeless(-torch.zeros(2))
    assert kills._timeless(torch.zeros(2)) != kills._timeless(torch.zeros(1, 2))


@pytest.mark.parametrize(
    ("changes", "code"), [({}, 0), ({"same": False, "wrong": "other bits"}, 1), ({"codes": [0]}, 1)]
)
def test_exit_code(changes, code, tmp_path, monkeypatch):
    """1 if a run went wrong, or Ctrl-C never ended one."""
    log = tmp_path / "log.jsonl"
    rows = [
        {"agent": "egrl", "seed": 0, "number": number, "happened": [CTRL_C._asdict()], "codes": [0], "same": True}
        for number in range(UNHEEDED)
    ]
    rows[3] |= {"codes": [130]} | changes
    log.write_text("".join(json.dumps(row) + "\n" for row in rows))
    arguments = [*("--agent", "egrl", "--moments", str(UNHEEDED)), "--log", str(log)]
    monkeypatch.setattr("sys.argv", ["kills", *arguments])
    monkeypatch.setattr(kills.os, "dup2", lambda *_: None)
    with pytest.raises(SystemExit) as ended:
        kills.main()
    assert ended.value.code == code
