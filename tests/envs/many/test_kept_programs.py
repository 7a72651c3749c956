"""Programs kept on disk are those that their models give, whatever happens to the files."""

import pytest

from memplace_env.envs.malloc_game.env import MallocGameVectorEnv, drawn_game
from memplace_env.envs.many import kept_programs
from memplace_env.envs.many.draws import SplitDraws
from memplace_env.envs.many.kept_programs import read_kept
from memplace_env.envs.registration import Formulation
from memplace_env.envs.splits import Split
from memplace_env.placement.resolve_task import resolve_task
from memplace_env.placement.workloads import resolve_workload
from memplace_env.program.model_file import as_written

ARRAYS = ("op_type", "op_name", "tensor_name", "name")
LEFT_OUT = ("op_nodes", "tensor_value")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(kept_programs, "_folder", lambda: tmp_path)
    return tmp_path


def same(one, other):
    return one.sha256 == other.sha256 and all(getattr(one, name) == getattr(other, name) for name in ARRAYS)


def test_drawn_tasks_are_those_of_the_models(folder):
    settings = SplitDraws(Formulation.GAME, Split.TRAIN).settings[::37]
    for setting in settings:
        chosen = {"batch": setting.batch, "dims": dict(setting.dims) or None, "dtype": setting.dtype}
        fresh = resolve_task(setting.program, setting.accelerator, **chosen, **as_written(setting.accelerator))
        for task in (setting.task(), setting.task()):
            assert same(task.program, fresh.program)
            assert task.settings == fresh.settings
            assert task.costs.compute_ps.tolist() == fresh.costs.compute_ps.tolist()
    zoo = [setting for setting in settings if not setting.program.startswith("synthetic:")]
    assert len(list(folder.glob("*.program"))) <= len(zoo)


def test_files_are_read_and_damaged_ones_made_anew(folder, monkeypatch):
    first = read_kept("AlexNet", batch=2)
    (file,) = folder.iterdir()
    assert not any(
        len(getattr(program, name)) for name in LEFT_OUT for program in (first, read_kept("AlexNet", batch=2))
    )
    good = file.read_bytes()
    for damaged in (good[:-9], b"", good[:40] + b"x" + good[41:]):
        file.write_bytes(damaged)
        assert same(read_kept("AlexNet", batch=2), first)
        assert file.read_bytes() == good
    monkeypatch.setattr(kept_programs, "resolve_workload", None)
    assert same(read_kept("AlexNet", batch=2), first)
    with pytest.raises(TypeError):
        read_kept("AlexNet", batch=3)


def test_only_so_many_are_kept(folder, monkeypatch):
    monkeypatch.setattr(kept_programs, "MOST_KEPT", 2)
    for batch in (1, 2, 3):
        read_kept("AlexNet", batch=batch)
    assert len(list(folder.iterdir())) == 2


def test_what_is_no_model_of_the_zoo_is_not_kept(folder, tmp_path, monkeypatch):
    other = tmp_path / "own.program"
    program = resolve_workload("AlexNet")
    program.save(other)
    for spec in (program, other, "synthetic:chain?ops=8", "BERT-train"):
        assert same(read_kept(spec), resolve_workload(spec))
    assert list(folder.iterdir()) == [other]
    monkeypatch.setattr(kept_programs, "_folder", lambda: None)
    assert same(read_kept("AlexNet", batch=2), resolve_workload("AlexNet", batch=2))


def test_preload(monkeypatch):
    few = SplitDraws(Formulation.GAME, Split.TRAIN).settings[5:7]
    envs = MallocGameVectorEnv(2, programs="train", observation="flat")
    monkeypatch.setattr(envs.env.programs, "settings", few)
    drawn_game.cache_clear()
    envs.preload()
    assert drawn_game.cache_info().currsize == 2
    MallocGameVectorEnv(1, programs="synthetic").preload()
    MallocGameVectorEnv(1, workload="AlexNet", accelerator="tpu-v4i").preload()
