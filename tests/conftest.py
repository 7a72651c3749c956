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
    """Drop cached kernels older than the newest source of one: numba does not see that a kernel's callee changed."""
    if hasattr(config, "workerinput"):
        return
    package = Path(__file__).parents[1]
    every = [*package.glob("memplace_env/**/*.py"), *package.glob("agents/**/*.py")]
    sources = [path for path in every if path.name == "state.py" or "njit" in path.read_text(encoding="utf-8")]
    newest = max(path.stat().st_mtime for path in sources)
    for folder in {path.parent / "__pycache__" for path in sources}:
        for cached in [*folder.glob("*.nbi"), *folder.glob("*.nbc")]:
            if cached.stat().st_mtime < newest:
                cached.unlink(missing_ok=True)
