"""The learners of the experiment on offline data: what they make of expert games, and that masks hold."""

import pytest
import torch

from benchmarks.experiments import offline


@pytest.mark.slow
@pytest.mark.parametrize("learner", [offline.CLONING, offline.CQL])
def test_expert_games_are_learned(learner, monkeypatch):
    monkeypatch.setattr(offline, "UPDATES", 300)
    run = {"id": "MallocGame-NeRF-intel-npu-4000-v0", "grade": "expert", "learner": learner, "seed": 0}
    measured = offline.measure(run)
    assert measured["score"] > measured["data"] > 0.9
    data = offline.data_of(run["id"], run["grade"])
    chosen = offline.masked(torch.randn(len(data.seen), 3), data.seen).argmax(1, keepdim=True)
    assert data.seen[:, data.env.mask_slice].gather(1, chosen).all()
    assert data.rewards.sum() / data.last.sum() == pytest.approx(100 * measured["data"], rel=1e-4)
