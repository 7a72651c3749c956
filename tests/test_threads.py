"""Work in chunks: every item once, errors come through, and a fork makes threads of its own."""

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memplace_env._lib import threads


@given(st.integers(0, 5000), st.integers(1, 9))
def test_every_item_is_worked_on_once(count, workers):
    done, lock = [], threading.Lock()

    def work(first, last):
        with lock:
            done.extend(range(first, last))

    threads.in_chunks(work, count, workers)
    assert sorted(done) == list(range(count))


def test_few_items_take_no_threads():
    seen = []
    threads.in_chunks(lambda first, last: seen.append(threading.current_thread()), 64, 8)
    assert seen == [threading.current_thread()]


def test_errors_come_through():
    def work(first, last):
        if first > 0:
            raise ZeroDivisionError(first)

    with pytest.raises(ZeroDivisionError):
        threads.in_chunks(work, 1000, 4)


def test_cores_are_those_that_may_be_used():
    assert 1 <= threads.available_cores() <= 4096
