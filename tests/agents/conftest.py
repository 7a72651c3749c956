"""Settings for the tests of agents."""

import pytest
import torch


@pytest.fixture(autouse=True, scope="session")
def _one_thread():
    """Networks here are small: torch's threads would only wait for each other."""
    torch.set_num_threads(1)
