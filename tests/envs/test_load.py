"""Environments in threads, forks and other processes, in short; in full: `python -m tests.fuzz.load`."""

import pytest

from memplace_env._lib.threads import cached_property
from tests.fuzz import load


@pytest.mark.parametrize("env_id", ["MemPlace-v0", "MallocGame-v0"])
@pytest.mark.parametrize("kind", ["8 threads", "processes, fork", "forks beside threads", "copies", "a worker killed"])
def test_equal_to_plain_play(kind, env_id, monkeypatch):
    monkeypatch.setattr(load, "STEPS", 12)
    assert load.run(kind, env_id, 7)["equal"]


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
