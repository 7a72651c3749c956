"""The examples in the docstrings of `memplace_env.testing` are true."""

import doctest
import importlib
import pkgutil

import pytest

from memplace_env import testing

MODULES = [
    "memplace_env.testing",
    *(f"memplace_env.testing.{found.name}" for found in pkgutil.iter_modules(testing.__path__)),
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_are_true(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0
