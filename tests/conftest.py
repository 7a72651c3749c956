"""Settings for the whole suite."""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "memplace",
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("memplace")


def pytest_addoption(parser):
    parser.addoption("--all-ids", action="store_true", help="test every registered environment, not a sample")
