"""Whatever a file calls its parts, a Program's names are safe in a terminal, a picture and JSON."""

from __future__ import annotations

import json
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from memplace_env.program.builder import ProgramBuilder
from memplace_env.program.model_file import LONGEST, clean, stem
from memplace_env.program.program import Program, TensorKind
from tests.offenders import every
from tests.program.models import load, node
from tests.thorough import examples

HOSTILE = ("\x1b[2J\x1b[31mx", "bell\a", "two\nlines", "\u202eleft", "\0", "long" * 50_000, "\x1b" * 100_000, "\ud800")


def safe(name: str) -> bool:
    return name.isprintable() and len(name) <= LONGEST


@examples(50)
@given(st.text(st.characters(), max_size=300) | st.sampled_from(HOSTILE))
def test_clean(name: str) -> None:
    assert safe(clean(name))
    assert clean(clean(name)) == clean(name)
    if safe(name):
        assert clean(name) == name


def test_long_names_stay_apart() -> None:
    names = ["x" * 10_000 + str(number) + "y" * 10_000 for number in range(50)]
    assert len({stem(name) for name in names}) == len({clean(name) for name in names}) == 50
    escapes = ["\x1b" * 10_000 + str(number) + "\x1b" * 10_000 for number in range(50)]
    assert len({clean(name) for name in escapes}) == 50


def built(name: str) -> Program:
    builder = ProgramBuilder(name, "int8")
    x, y = builder.tensor(name, 4, TensorKind.INPUT), builder.tensor(name, 4, TensorKind.OUTPUT)
    builder.op(name, [x], [y], name=name)
    return builder.build()


@every("name", HOSTILE)
def test_programs(tmp_path: Path, name: str) -> None:
    program = built(name)
    names = (program.name, *program.op_type, *program.op_name, *program.tensor_name)
    assert all(map(safe, names))
    json.dumps(names).encode()
    program.save(tmp_path / "a.program")
    again = Program.load(tmp_path / "a.program")
    assert (again.sha256, again.tensor_name, again.name) == (program.sha256, program.tensor_name, program.name)


@pytest.mark.parametrize("name", HOSTILE[:-1])
def test_onnx_files(name: str) -> None:
    """The views of a sequence's elements, too, are made from it."""
    relu = node("Relu", "x", "y")
    relu.name = relu.output[0] = name
    split = node("SplitToSequence", "t", "s", axis=1)
    split.input[0] = split.name = name
    split.output[0] = f"{name}s"
    joined = node("ConcatFromSequence", "s", "y", axis=0)
    joined.input[0] = f"{name}s"
    program = load([relu, split, joined], {"x": [4, 4]}, constants={"k": np.array(1)}, name=name)
    assert program.op_type == ("Relu", "Split", "Concat")
    assert all(map(safe, (program.name, *program.op_name, *program.tensor_name)))
    assert len(set(program.tensor_name)) == program.num_tensors
