"""Outputs that take the place of a weight or an input."""

import pickle
from dataclasses import replace

import numpy as np
import pytest

from memplace_env._lib.errors import WorkloadError
from memplace_env.program.builder import ProgramBuilder
from memplace_env.program.program import Program, TensorKind
from tests.offenders import every

X, W, A, NEW, Y = range(5)


def update(alias_of: int = W, *, read_later: bool = False, size: int = 40) -> Program:
    """x, w -> a; a, w -> new w; a -> y."""
    builder = ProgramBuilder("update", "int8")
    x, w = builder.tensor("x", 10, TensorKind.INPUT), builder.tensor("w", 40, TensorKind.WEIGHT)
    a = builder.tensor("a", 20)
    new = builder.tensor("new", size, TensorKind.OUTPUT, alias_of=alias_of)
    y = builder.tensor("y", 5, TensorKind.OUTPUT)
    builder.op("Forward", [x, w], [a])
    builder.op("Update", [a, w], [new])
    builder.op("Loss", [a, w] if read_later else [a], [y])
    return builder.build()


def test_an_output_in_anothers_place_takes_no_room_of_its_own():
    apart, shared = update(alias_of=-1), update()
    assert shared.alias_of.tolist() == [-1, -1, -1, W, -1]
    assert (apart.footprint, shared.footprint) == (50 + 65, 50 + 25)
    assert (apart.live_bytes.tolist(), shared.live_bytes.tolist()) == ([20, 60, 65], [20, 20, 25])


def test_the_hash_tells_aliases_and_nothing_else_changed_it():
    program = update(alias_of=-1)
    assert replace(program, alias_of=np.full(5, -1)).sha256 == program.sha256
    assert update().sha256 != program.sha256
    assert program.sha256 == "5606a43e32959074fab94886f869521b7816a5e49c3e949b777f9cdcd54b902f"


def test_copies_keep_aliases():
    copy = pickle.loads(pickle.dumps(update()))
    assert copy.alias_of.tolist() == update().alias_of.tolist()
    assert not copy.alias_of.flags.writeable


@every(
    ("aliases", "sentence"),
    [
        ({NEW: 5}, "alias_of names a tensor that does not exist"),
        ({NEW: -2}, "alias_of names a tensor that does not exist"),
        ({A: X, NEW: -1}, "a tensor that is not an output"),
        ({NEW: A}, "neither weight nor input"),
        ({NEW: NEW}, "neither weight nor input"),
        ({NEW: X}, "of other bytes"),
    ],
)
def test_wrong_aliases_are_named(aliases, sentence):
    program = update()
    wrong = program.alias_of.copy()
    wrong[list(aliases)] = list(aliases.values())
    with pytest.raises(WorkloadError, match=sentence):
        replace(program, alias_of=wrong)


def test_a_wrong_number_of_aliases():
    with pytest.raises(WorkloadError, match="alias_of has 2 entries, not 5"):
        replace(update(), alias_of=np.full(2, -1))


def test_two_outputs_in_one_place():
    builder = ProgramBuilder("twins", "int8")
    w = builder.tensor("w", 40, TensorKind.WEIGHT)
    results = [builder.tensor(name, 40, TensorKind.OUTPUT, alias_of=w) for name in "ab"]
    builder.op("Both", [w], results)
    with pytest.raises(WorkloadError, match="two outputs take the place"):
        builder.build()


def test_nothing_reads_what_was_replaced():
    with pytest.raises(WorkloadError, match="after an output has taken its place"):
        update(read_later=True)
