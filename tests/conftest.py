"""Settings for the whole suite."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "memplace",
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("memplace")


def pytest_configure(config: pytest.Config) -> None:
    """Drop cached kernels that are older than some source: numba does not see that a kernel's callee has changed."""
    if hasattr(config, "workerinput"):
        return
    package = Path(__file__).parents[1]
    sources = [*package.glob("memplace_env/**/*.py"), *package.glob("agents/**/*.py")]
    newest = max(path.stat().st_mtime for path in sources)
    for folder in {path.parent / "__pycache__" for path in sources}:
        for cached in [*folder.glob("*.nbi"), *folder.glob("*.nbc")]:
            if cached.stat().st_mtime < newest:
                cached.unlink(missing_ok=True)
