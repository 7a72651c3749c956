"""Untrusted input is read below a limit, parsed strictly and shown safely."""

import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memplace_env._lib.errors import MemPlaceError, PlanError
from memplace_env._lib.foreign import SENTENCE, described, parse_json, parse_toml, read, shown
from tests.offenders import every


def test_what_may_never_end_is_not_read(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/dev/zero")
    for path, kind in ((tmp_path / "pipe", "a pipe"), (tmp_path / "link", "a device"), (tmp_path, "a folder")):
        with pytest.raises(OSError, match=f"it is {kind}, not a regular file"):
            read(path, 100)


@pytest.mark.parametrize(
    "text",
    ['{"a": 1, "a": 2}', "[" * 100_000, "1" * 5000, "NaN", "-Infinity", "[1,]", '{"a": 1', "", b"\xff\xfe\xff"],
    ids=lambda text: repr(text[:12]),
)
def test_only_sound_json_is_parsed(text):
    with pytest.raises(ValueError, match=r"\w"):
        parse_json(text)


@pytest.mark.parametrize("text", ["a = " + "[" * 100_000, "a = " + "1" * 5000, "a = 1\na = 2", "a"])
def test_only_sound_toml_is_parsed(text):
    with pytest.raises(ValueError, match=r"\w"):
        parse_toml(text)


def test_sound_documents_are_parsed():
    assert parse_json('{"a": [1, 2.5, null, "\\u001b"]}') == {"a": [1, 2.5, None, "\x1b"]}
    assert parse_toml("a = [1, 2]") == {"a": [1, 2]}


@given(st.text())
def test_what_is_shown_is_printable(text):
    assert shown(text).isprintable()


@given(st.text(st.sampled_from("ab \x1b\n\u202e\ud800"), max_size=500), st.integers(1, 5000))
def test_what_is_shown_is_short(text, times):
    line = shown(text * times)
    assert line.isprintable()
    assert len(line) < SENTENCE + 100


def test_a_long_name_leaves_the_advice_readable():
    message = str(PlanError(f"The tensor {'x' * 100_000!r} is {'too long ' * 1000}; export it again."))
    assert message.startswith("The tensor 'xxx")
    assert message.endswith("; export it again.")
    assert len(message) < SENTENCE + 100


def test_errors_show_no_control_characters():
    assert str(MemPlaceError("a \x1b[31mred\x07 name\nand more")) == r"a \x1b[31mred\x07 name and more"


@every(
    ("value", "text"),
    [
        ([1, "a"], "[1, 'a']"),
        (range(10**30), f"range(0, {10**30})"),
        (list(range(3000)), "a list of 3,000 items"),
        ((0.125,) * 40, "a tuple of 40 items"),
        ({1: list(range(50))}, "a dict of 1 item"),
        (set(range(101)), "a set of 101 items"),
        ([np.zeros(3)], "an object of list"),
        (np.zeros((2, 3)), "an array of shape (2, 3) and dtype float64"),
        (dict.fromkeys(range(3000)).keys(), "an object of dict_keys"),
    ],
)
def test_no_long_list_is_shown(value, text):
    assert described(value) == text


@pytest.mark.parametrize("value", ["one two " * 1000, b"x" * 5000, 10**4000])
def test_long_texts_and_numbers_are_cut(value):
    assert len(described(value)) < 350
    assert described(value)[:50] == repr(value)[:50]
