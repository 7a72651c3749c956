"""Programs in files: what comes back is what went in, and whatever is wrong with a file is one sentence."""

import hashlib
import json
import zlib
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memplace_env._lib.errors import WorkloadError
from memplace_env.placement.synthetic import random_dag
from memplace_env.placement.workloads import is_built, resolve_workload, symbolic_dims
from memplace_env.program import program_file
from memplace_env.program.program import Program
from memplace_env.program.program_arrays import ARRAY_DIMS
from tests.placement.plan.test_validate_in_place import chain
from tests.program.test_alias import update
from tests.strategies import programs, programs_with_pairs
from tests.thorough import examples

ARRAYS = list(ARRAY_DIMS)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("programs") / "update.program"
    update().save(file)
    return file


@pytest.fixture(scope="module")
def path_with_rows(path: Path) -> Path:
    file = path.with_name("rows.program")
    rows = np.array([[1, 1], [2, 4], [1, 10], [1, 1], [1, 5]])
    replace(update(), tensor_rows=rows, use_halo=np.array([0, 1, 0, 0, 2, 0, 0, 0])).save(file)
    return file


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("damaged") / "damaged.program"


def assert_equal(a: Program, b: Program) -> None:
    for field in fields(Program):
        first, second = getattr(a, field.name), getattr(b, field.name)
        if isinstance(first, np.ndarray):
            assert first.dtype == second.dtype
            assert not second.flags.writeable
        assert np.array_equal(first, second), field.name
    assert a.sha256 == b.sha256


def test_round_trip(path):
    assert_equal(Program.load(path), update())
    strange = replace(update(), name="ünïcode \n\0 \u2603", tensor_name=("", "a\nb", "\U0001f600", "'", '"'))
    strange.save(path.with_name("strange.program"))
    assert_equal(Program.load(path.with_name("strange.program")), strange)


@examples(25)
@given(programs() | programs_with_pairs())
def test_every_program_comes_back(scratch, program):
    program.save(scratch)
    assert_equal(Program.load(scratch), program)
    first = scratch.read_bytes()
    Program.load(scratch).save(scratch)
    assert scratch.read_bytes() == first


def test_workloads(path):
    program = update()
    assert resolve_workload(path).sha256 == resolve_workload(str(path)).sha256 == program.sha256
    assert resolve_workload(path.with_suffix(".program"), fusion="epilogue").sha256 == program.sha256
    assert is_built(path)
    assert symbolic_dims(str(path)) is None
    with pytest.raises(WorkloadError, match="A saved Program is fixed already, so batch and dtype cannot apply"):
        resolve_workload(path, batch=1, dtype="int8")


def damaged(scratch: Path, data: bytes) -> str:
    scratch.write_bytes(data)
    with pytest.raises(WorkloadError) as caught:
        Program.load(scratch)
    sentence = str(caught.value)
    assert "\n" not in sentence
    assert "damaged.program" in sentence
    return sentence


@examples(60)
@given(data=st.data())
def test_truncated_and_flipped(path, scratch, data):
    whole = path.read_bytes()
    damaged(scratch, whole[: data.draw(st.integers(0, len(whole) - 1))])
    offset = data.draw(st.integers(0, len(whole) - 1))
    damaged(scratch, whole[:offset] + bytes([whole[offset] ^ data.draw(st.integers(1, 255))]) + whole[offset + 1 :])


@pytest.fixture(scope="module")
def path_with_pairs(path: Path) -> Path:
    file = path.with_name("pairs.program")
    chain().save(file)
    return file


def parts(path: Path) -> tuple[dict, bytes]:
    header, _, packed = path.read_bytes().partition(b"\n")[2].partition(b"\n")
    return json.loads(header), zlib.decompress(packed)


def signed(header: object, content: bytes, packed: bytes | None = None, version: int = 1) -> bytes:
    line = header if isinstance(header, bytes) else json.dumps(header).encode()
    body = line + b"\n" + (zlib.compress(content) if packed is None else packed)
    return f"memplace-program {version} {hashlib.sha256(body).hexdigest()}\n".encode() + body


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        (b"{", "damaged"),
        (b"[]", "damaged"),
        (b"[" * 60_000, "damaged"),
        (b" " * 70_000, "header is too long"),
        ({"ops": -1}, "a count is -1"),
        ({"ops": True}, "a count is True"),
        ({"ops": 3.0}, "a count is 3.0"),
        ({"ops": 10**30}, "1,000,000 are the most in a file"),
        ({"tensors": 10**6 + 1}, "1000001 tensors, and 1,000,000 are the most in a file"),
        ({"uses": 2**30}, "1,000,000 are the most in a file"),
        ({"text": 2**26 + 1}, "bytes of names"),
        ({"ops": 10**6}, "more than it can"),
        ({"text": 2**26}, "more than it can"),
        ({"tensors": 4}, "do not have the"),
        ({"uses": 2}, "do not have the"),
        ({"name": 3}, "a name is 3"),
        ({"name": "\ud800"}, "surrogates not allowed"),
        ({"dtype": "int7"}, "int7"),
        ({"dtype": None}, "a name is None"),
    ],
)
def test_headers(path, scratch, header, reason):
    header_fields, content = parts(path)
    line = header if isinstance(header, bytes) else header_fields | header
    assert reason in damaged(scratch, signed(line, content))


@pytest.mark.parametrize("missing", ["name", "dtype", "ops", "text"])
def test_missing_fields(path, scratch, missing):
    header_fields, content = parts(path)
    del header_fields[missing]
    assert missing in damaged(scratch, signed(header_fields, content))


@pytest.mark.parametrize("names", [b"", b"{", b"[]", b"{}", b'{"op_type": 5}', b"[" * 50_000])
def test_names(path, scratch, names):
    header_fields, content = parts(path)
    content = content[: -header_fields["text"]] + names
    damaged(scratch, signed(header_fields | {"text": len(names)}, content))


@examples(150)
@given(data=st.data())
def test_arrays_that_contradict_each_other(path, path_with_rows, path_with_pairs, scratch, data):
    """One number of the arrays changed, and the hash made to fit: refused, or another sound program."""
    version, file = data.draw(st.sampled_from([(1, path), (2, path_with_rows), (3, path_with_pairs)]))
    header_fields, content = parts(file)
    offset = data.draw(st.integers(0, (len(content) - header_fields["text"]) // 8 - 1))
    extremes = st.sampled_from([-(2**63), -(2**31), -1, 0, 1, 2**31, 2**62, 2**63 - 1])
    value = data.draw(st.one_of(st.integers(-3, 60), extremes))
    changed = content[: 8 * offset] + value.to_bytes(8, "little", signed=True) + content[8 * offset + 8 :]
    scratch.write_bytes(signed(header_fields, changed, version=version))
    message, program = "", None
    try:
        program = Program.load(scratch)
    except WorkloadError as error:
        message = str(error)
    assert "\n" not in message
    if program is not None:
        assert program.footprint > 0
        assert program.macs.sum() >= 0
        program.save(scratch)
        assert_equal(Program.load(scratch), program)


def test_other_files(path, scratch, tmp_path):
    assert "not a saved Program" in damaged(scratch, b"garbage")
    later = path.read_bytes().replace(b"memplace-program 1", b"memplace-program 4", 1)
    assert "update memplace" in damaged(scratch, later)
    with pytest.raises(WorkloadError, match="There is no file"):
        Program.load(tmp_path / "absent.program")
    with pytest.raises(WorkloadError, match="cannot be written"):
        update().save(path / "below a file.program")


@pytest.mark.parametrize("name", ["", "update.txt", "update", "update.program.gz"])
def test_programs_are_saved_under_their_suffix(tmp_path: Path, name: str) -> None:
    with pytest.raises(WorkloadError, match=r"A Program is saved in a file that ends in \.program"):
        update().save(tmp_path / name if name else name)
    assert list(tmp_path.iterdir()) == []


def test_an_empty_path() -> None:
    with pytest.raises(WorkloadError, match="The path is empty"):
        Program.load("")


def test_a_program_that_no_file_may_hold_is_not_saved(tmp_path, monkeypatch):
    program, path = random_dag(1, ops=5), tmp_path / "large.program"
    monkeypatch.setitem(program_file._MOST, "uses", program.num_uses - 1)
    with pytest.raises(WorkloadError, match="are the most in a file"):
        program.save(path)
    assert not path.exists()
