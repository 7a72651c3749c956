"""The search for reference cycles is put off and goes on as before."""

import gc

import pytest

from memplace_env._lib.collection import collection_paused
from memplace_env._lib.errors import WorkloadError
from memplace_env.program.frontends.onnx import load_onnx


def test_the_search_is_as_it_was_afterwards():
    with collection_paused():
        assert not gc.isenabled()
        with collection_paused():
            assert not gc.isenabled()
        assert not gc.isenabled(), "the outer pause goes on"
    assert gc.isenabled()


def test_a_model_that_is_refused_does_not_stop_it(tmp_path):
    (tmp_path / "model.onnx").write_bytes(b"no model")
    with pytest.raises(WorkloadError):
        load_onnx(tmp_path / "model.onnx")
    assert gc.isenabled()
