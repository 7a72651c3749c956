"""Fixtures of the tests of what is shown of plans."""

from __future__ import annotations

import pytest

from tests.subjects import Subject, plan_with_copies


@pytest.fixture(scope="session")
def copies() -> Subject:
    """A small plan that has everything: prefetches, write-backs, a stall, a tail."""
    return plan_with_copies()
