"""Settings for tests that compute with PyTorch."""

import pytest
import torch


@pytest.fixture(autouse=True, scope="package")
def one_thread():
    """Small tensors take longer on several threads, far longer where others work too."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
