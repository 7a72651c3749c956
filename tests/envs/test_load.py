"""Environments in threads, forks and other processes, in short; in full: `python -m tests.fuzz.load`."""

import json

import pytest

from memplace_env._lib.threads import cached_property
from tests.fuzz import load


@pytest.mark.parametrize("env_id", ["MemPlace-v0", "MallocGame-v0"])
@pytest.mark.parametrize("kind", ["8 threads", "processes, fork", "forks beside threads", "copies", "a worker killed"])
def test_equal_to_plain_play(kind, env_id, monkeypatch):
    monkeypatch.setattr(load, "STEPS", 12)
    assert load.run(kind, env_id, 7)["equal"]


def test_another_answer_is_seen(monkeypatch):
    answers = iter("ab")
    monkeypatch.setattr(load, "play", lambda *_: next(answers))
    assert not load.in_processes("MemPlace-v0", 0, "fork")


def test_rounds_that_have_a_line_are_not_run_again(tmp_path, monkeypatch):
    out = tmp_path / "load.jsonl"
    rounds = [(kind, env_id) for kind in load.KINDS for env_id in load.SETTINGS]
    lines = [{"kind": kind, "env": env_id, "seed": 0, "equal": True} for kind, env_id in rounds[1:]]
    out.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    monkeypatch.setattr(load, "KINDS", {kind: lambda env_id, seed: False for kind in load.KINDS})
    monkeypatch.setattr("sys.argv", ["load", "--log", str(out), "--rounds", "1"])
    assert load.main() == 1
    assert len(out.read_text("utf-8").splitlines()) == len(rounds)


def test_kept_properties():
    class Owner:
        made = 0

        @cached_property
        def value(self):
            """A documented attribute."""
            self.made += 1
            return self.made

    owner = Owner()
    assert (owner.value, owner.value, vars(owner)["value"]) == (1, 1, 1)
    del owner.value
    assert owner.value == 2
    assert Owner.value.__doc__ == "A documented attribute."
    assert not hasattr(Owner.value, "lock"), "a fork would keep it locked"
