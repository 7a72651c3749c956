"""Guards of what is read from files broken once: something hostile then passes, or something sound does not."""

import json
import types
import zlib
from operator import attrgetter

import numpy as np

from memplace_env._lib import foreign
from memplace_env.placement import memory_plan
from memplace_env.program import program_file
from memplace_env.program.program import Program
from tests import test_foreign
from tests.by_hand import all_fast, three_op_task
from tests.mutation import Case, decides, judges, noted, unnoticed, with_limits
from tests.placement.plan import test_plan
from tests.program.test_alias import update
from tests.program.test_program_file import parts, signed

ALWAYS = ("max(", "min(values) < max(", "min(values) <= max(values) + 1", "min(values) <= max(values) - 1")
PLAN = all_fast(three_op_task())


def said(name: str, *arguments: object, **options: object) -> Case:
    """Return a case: what a function of the module answers."""

    def work(module: types.ModuleType) -> str:
        answer = attrgetter(name)(module)(*arguments, **options)
        return repr(vars(answer) if hasattr(answer, "__dict__") else answer)

    return noted(work)


def odd(text: str, **fields: object) -> object:
    return type("Odd", (), {"__repr__": lambda self: text, **fields})()


def texts_of(test) -> list:
    return next(mark.args[1] for mark in test.pytestmark if mark.name == "parametrize")


def test_every_limit_of_foreign_input_is_noticed(tmp_path):
    file, link = tmp_path / "file", tmp_path / "link"
    file.write_bytes(b"12345")
    link.symlink_to(file)
    version = len(foreign.read("/proc/version", 10_000))
    dots = ["a." * count + "a = 1\na = 2" for count in (foreign.DOTS, foreign.DOTS + 1)]
    lengths = [most + more for most in (foreign.CONTENTS, foreign.WORD, foreign.SENTENCE) for more in (-2, -1, 0, 1)]
    values = [value for n in lengths for value in ("a" * n, b"b" * n, [1] * n, ("a" * (n - 5),), range(10**n), 10**n)]
    values += [np.zeros(2), np.float64(1.5), np.zeros((2, 3)), [np.zeros(2)], {1: np.zeros(2)}, "array(1)", [10**5000]]
    values += [
        bytearray(400),
        [np.zeros(200)],
        *(odd("odd", shape=shape, dtype="int8") for shape in ((), (1,), [2])),
        odd("odd", shape=(1,)),
    ]
    values += [[odd("tensor(1)")], *(odd(("a " * n)[:n]) for n in lengths)]
    cases = [said("read", file, most) for most in (4, 5, 6)]
    cases += [said("read", "/proc/version", version + more) for more in (-1, 0, 1)]
    cases += [said("read", path, 9, follow=follow) for path in (tmp_path, link) for follow in (True, False)]
    cases += [
        said("parse_json", text)
        for text in ('[{"a": 1}]', '{"b": 1, "a": 1, "a": 1}', *texts_of(test_foreign.test_only_sound_json_is_parsed))
    ]
    cases += [
        said("parse_toml", text) for text in ("a = 1", *dots, *texts_of(test_foreign.test_only_sound_toml_is_parsed))
    ]
    cases += [said(name, "a" * n) for name in ("shown", "escaped") for n in lengths]
    cases += [said(name, "a " * n + "\x1b\nü") for name in ("shown", "escaped") for n in (1, 999, 1000, 5000)]
    cases += [said("described", value) for value in values]
    same = (
        "content = file.read(size + 1) if size <= most + 1",
        "handle = os.open",
        "if len(content) > size",
        "text = repr(value) if size",
    )
    assert unnoticed(foreign, decides, cases, "x..x..xx.x.xxxxxxxxxx.xxxxxx" + 130 * ".", same) == []


def test_every_limit_of_a_plan_that_is_read_is_noticed(tmp_path):
    def case(**changes: object) -> Case:
        return said("MemoryPlan.from_document", json.loads(PLAN.to_json()) | changes)

    cases = [case(), said("MemoryPlan.from_document", []), case(schema=2), case(schema=True), case(settings=[])]
    cases += [case(program=name) for name in ("a" * memory_plan.TEXT, "a" * (memory_plan.TEXT + 1), "\a", 5, None)]
    cases += [case(use_level=levels) for levels in ([], [-128, 127], [-129], [128], [True], 3, [0.5], [128.0])]
    cases += [case(transfers=rows) for rows in ([], 5, [5], [{}], [dict.fromkeys(memory_plan.TRANSFER, 2**63)])]
    inner = (2**63 - 1, 2**63, -(2**63), 2.0**63, 0.5, True, None, "a", "\a", [1], [True], [2**63], [1.0], {"b": 1})
    cases += [case(settings={"a": value}) for value in inner]
    cases += [case(settings={"a": {"b": value}}) for value in inner]
    cases += [
        case(settings=settings)
        for settings in ({"\a": 1}, {"a": {"\a": 1}}, {"\a": {"b": 1}}, {"a": {"b": [2**63 - 1]}})
    ]
    size = PLAN.save(tmp_path / "plan.json").stat().st_size
    cases += [with_limits(said("MemoryPlan.load", tmp_path / "plan.json"), FILE_BYTES=size - less) for less in (0, 1)]
    others = [
        lambda module, name=name: module.MemoryPlan(**vars(PLAN) | {"program": name}) for name in (PLAN.program, "x")
    ]
    others.append(lambda module: 5)
    cases += [
        noted(lambda module, other=other: str(module.MemoryPlan(**vars(PLAN)) == other(module))) for other in others
    ]
    for change, _ in texts_of(test_plan.test_wrong_fields_are_named):
        document = json.loads(PLAN.to_json())
        change(document)
        cases.append(said("MemoryPlan.from_document", document))
    cases += [with_limits(case(settings={"a": [1, 2]}), LIST=most) for most in (1, 2, 3)]
    same = tuple(f"if not whole or (values and (not (limits.min <= min(values) and {half}" for half in ALWAYS)
    assert (
        unnoticed(
            memory_plan,
            judges,
            cases,
            ".xxxx.xxxx..xxxxxx.xxxx.xxx....x.xxx..xxx....x.xxxxxxx..x...xxxxxxxxxxxxxxxxxxxxxx..",
            same,
        )
        == []
    )


def test_every_limit_of_a_program_file_is_noticed(tmp_path):
    path = tmp_path / "update.program"
    update().save(path)
    data, (header, content) = path.read_bytes(), parts(path)
    line, packed, most = json.dumps(header).encode(), zlib.compress(content), len(content)

    def read(data: bytes, **limits: int) -> Case:
        return with_limits(said("_parsed", data, Program), **limits)

    cases = [read(data), read(b"x" + data), read(data.replace(b" 1 ", b" 4 ", 1)), read(data + b"x")]
    cases += [read(signed(line, content), _MAX_HEADER=len(line) - less) for less in (0, 1)]
    cases += [read(signed(line, content), _MAX_BYTES=most - less) for less in (0, 1)]
    cases += [
        read(signed(line, b"", packed), _MAX_BYTES=10**6, _MAX_EXPANSION=most / len(packed) - less) for less in (0, 0.1)
    ]
    cases += [read(signed(header | {"text": count}, content)) for count in (-1, True, 1.0, 0, 10**12)]
    cases += [with_limits(said("_count", "ops", count), _MOST={"ops": 5}) for count in (-1, 0, 5, 6, True)]
    broken = (packed[:-1], packed + b"x", zlib.compress(content + b"x"), zlib.compress(content[:-1]))
    cases += [read(signed(line, b"", stream)) for stream in broken]
    for name, value in (("tensor_kind", 9), ("use_is_result", 2)):
        arrays = {"tensor_kind": np.array([0]), "use_is_result": np.array([0])}
        cases += [said("_check_ranges", arrays), said("_check_ranges", arrays | {name: np.array([value])})]
    cases += [said("_list", value) for value in ([], ())] + [said("_text", value) for value in ("a", 5, "\ud800")]
    cases += [said("read_program", "", Program), said("write_program", update(), tmp_path / "a.txt")]
    for fields in ({"slices": 1}, {"alignment": 1}, {"alignment": 2}):
        cases.append(said("write_program", types.SimpleNamespace(**fields), tmp_path / "a.program"))
    assert unnoticed(program_file, judges, cases, ".xxx.x.x.xxxxxxx..xxxxxx.x.x.x.xxxxxxx") == []
