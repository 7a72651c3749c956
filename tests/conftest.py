"""Settings for the whole suite."""

import signal
from contextlib import suppress

from hypothesis import HealthCheck, settings

from tests.compiled_kernels import compile_kernels

settings.register_profile(
    "memplace",
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("memplace")
with suppress(ImportError):  # the oldest versions take no constants from modules
    from hypothesis.internal.conjecture import providers

    # Examples would hold constants of whatever modules a worker has imported so far, so no two runs would try the same.
    providers.is_local_module_file = lambda _: False

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # as a shell starts what is in the background
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser):
    parser.addoption("--all-ids", action="store_true", help="test every registered environment, not a sample")


def pytest_sessionstart(session):
    """Before the workers of xdist begin; they would each compile every kernel."""
    if getattr(session.config.option, "dist", "no") != "no" and not hasattr(session.config, "workerinput"):
        compile_kernels()
