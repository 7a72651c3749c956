"""Settings for the whole suite."""

import os
import signal
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, settings

from tests.compiled_kernels import compile_kernels
from tests.thorough import EXAMPLES, VARIABLE, examples

with suppress(ImportError):  # the oldest versions take no constants from modules
    from hypothesis.internal.conjecture import providers

    # Examples would hold constants of whatever modules a worker has imported so far, so no two runs would try the same.
    providers.is_local_module_file = lambda _: False

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # as a shell starts what is in the background
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser):
    parser.addoption(
        "--thorough", action="store_true", help="every registered id, all examples, and the tests marked so: an hour"
    )


def pytest_configure(config):
    """Before modules of tests are imported, here and in the workers of xdist, which inherit the variable."""
    if config.getoption("--thorough"):
        os.environ[VARIABLE] = "1"
    slow = [HealthCheck.too_slow, HealthCheck.data_too_large]
    ours = examples(EXAMPLES, deadline=None, derandomize=True, suppress_health_check=slow)
    settings.register_profile("memplace", ours)
    settings.load_profile("memplace")


def pytest_collection_modifyitems(items):
    """Leave out the tests marked `thorough` unless they are asked for."""
    if VARIABLE not in os.environ:
        for item in items:
            if item.get_closest_marker("thorough"):
                item.add_marker(pytest.mark.skip(reason="takes --thorough"))


def pytest_sessionstart(session):
    """Before the workers of xdist begin; they would each compile every kernel."""
    if getattr(session.config.option, "dist", "no") != "no" and not hasattr(session.config, "workerinput"):
        compile_kernels()
