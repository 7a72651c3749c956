"""Whatever is wrong with a module, a file or a function: one sentence that says what to do."""

import builtins
import sys

import jax
import jax.numpy as jnp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memplace_env import from_jax, load_stablehlo, resolve_task, resolve_workload
from memplace_env._lib.errors import WorkloadError
from memplace_env.placement.workloads import has_own_types, is_built, symbolic_dims
from memplace_env.program.frontends.stablehlo import fusion, parsed_apart, stablehlo_reader
from memplace_env.program.frontends.stablehlo.parsed_apart import libraries, new_context
from memplace_env.program.program import TensorKind
from tests.offenders import every
from tests.program.stablehlo.networks import shaped
from tests.thorough import examples


def step(w, x):
    def loss(w):
        return jnp.square(jax.lax.fori_loop(0, 3, lambda _, x: jnp.tanh(x @ w), x)).sum()

    return w - 0.1 * jax.grad(loss)(w)


def scan_step(w, x):
    y, _ = jax.lax.scan(lambda x, _: (jnp.tanh(x @ w), ()), x, None, length=3)
    return w - 0.1 * y.sum()


LOWERED = jax.jit(scan_step, donate_argnums=0).lower(shaped(32, 32), shaped(4, 32))
TEXT = LOWERED.as_text()


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return tmp_path_factory.mktemp("modules") / "damaged.mlir"


@pytest.fixture
def in_this_process(monkeypatch):
    """Text that crashes no parser needs no process of its own, which takes a second each."""
    monkeypatch.setattr(stablehlo_reader, "as_text", lambda data: data.decode(errors="replace"))


def sentence(file, data: bytes) -> str:
    file.write_bytes(data)
    with pytest.raises(WorkloadError) as caught:
        load_stablehlo(file)
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith("damaged.mlir: ") or "is empty" in message
    return message


@every(
    ("data", "message"),
    [
        (b"", "is empty"),
        (b"\xff\xfe\x00", "not a StableHLO module"),
        (b"\x08\x07ONNX", "not a StableHLO module"),
        (b"(" * 400, "not a StableHLO module"),
        (b"(" * 10_000, "nested more than 500 deep"),
    ],
)
def test_what_is_no_module(file, data, message):
    assert message in sentence(file, data)


@every(
    ("data", "message"),
    [
        (b"garbage", "not a StableHLO module"),
        (TEXT[: len(TEXT) // 2].encode(), "not a StableHLO module"),
        (b"module {}", "no function main"),
        (b"module { func.func private @main() }", "has no body"),
    ],
)
def test_texts_that_are_no_module(file, data, message, in_this_process):
    assert message in sentence(file, data)


def main(body: str, arguments: str = "%x: tensor<8x8xf32>") -> bytes:
    return f"func.func public @main({arguments}) -> tensor<8x8xf32> {{ {body} }}".encode()


SAME = "tensor<8x8xf32>"


@every(
    ("body", "message"),
    [
        (f'%y = "stablehlo.custom_call"(%x) {{call_target_name = "magic"}} : ({SAME}) -> {SAME} return %y : {SAME}',
         "No cost is known for the operation custom_call to 'magic'"),
        (f'%y = "unknown.thing"(%x) : ({SAME}) -> {SAME} return %y : {SAME}', "for the operation 'thing'"),
        (f"%y = call @main(%x) : ({SAME}) -> {SAME} return %y : {SAME}", "calls itself"),
        (f"return %x : {SAME}", "does no work"),
        (f'%y = "stablehlo.convolution"(%x) : ({SAME}) -> {SAME} return %y : {SAME}', "not a StableHLO module"),
    ],
)  # fmt: skip
def test_modules_that_cannot_be_placed(file, body, message, in_this_process):
    assert message in sentence(file, main(body))


@every(
    ("kind", "message"),
    [
        ("tensor<?x8xf32>", "dynamic shape tensor<?x8xf32>; export the function with fixed shapes"),
        ("tensor<*xf32>", "not a StableHLO module"),
        ("tensor<99999999x99999999xf32>", "64 TiB"),
        ("memref<8xf32>", "only tensors"),
        ("tensor<8x!quant.uniform<i8:f32, 0.1>>", ""),
        ("tensor<8xindex>", "only numbers"),
    ],
)
def test_types_that_cannot_be_placed(file, kind, message, in_this_process):
    data = main(f"%z = stablehlo.add %x, %x : {SAME} return %z : {SAME}", f"%x: {SAME}, %y: {kind}")
    assert message in sentence(file, data)


@pytest.mark.thorough
@examples(6, deadline=None)
@given(st.data())
def test_damaged_bytecode(file, data):
    """Some of it brings the parser's process down."""
    whole = jax.export.export(jax.jit(scan_step))(shaped(32, 32), shaped(4, 32)).mlir_module_serialized
    at = data.draw(st.integers(4, len(whole) - 1))
    file.write_bytes(whole[:at] if data.draw(st.booleans()) else whole[:at] + b"\x7f" + whole[at + 1 :])
    message = ""
    try:
        load_stablehlo(file)
    except WorkloadError as error:
        message = str(error)
    assert "\n" not in message


def test_text_that_crashes_the_parser(file, monkeypatch):
    """Attributes nested so deeply that the stack of MLIR's parser ends."""
    monkeypatch.setattr(parsed_apart, "DEEPEST", 10**6)
    nested = "[" * 20_000 + "1" + "]" * 20_000
    data = main(f"%z = stablehlo.tanh %x {{a = {nested}}} : {SAME} return %z : {SAME}")
    assert "crashes MLIR's parser" in sentence(file, data)


def test_depth_of_a_text():
    assert parsed_apart._depth(b"a -> (b<c>) { [] }") == 2
    assert parsed_apart._depth(b"(" * 7 + b")" * 7 + b"[" * 3) == 7


def test_chunks_of_a_text(monkeypatch):
    """Counted in pieces, an arrow that is cut in two closes no bracket either."""
    monkeypatch.setattr(parsed_apart, "_CHUNK", 5)
    assert parsed_apart._depth(b"(a) -> (b) -> (((c)))" * 9) == 3


def test_work_that_adds_up_to_too_much(file, in_this_process):
    """Pools that are below the limit alone and far above it as one op."""
    window = 2**28
    pool = f""""stablehlo.reduce_window"(%x, %c) ({{ ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32> stablehlo.return %s : tensor<f32> }})
      {{window_dimensions = array<i64: {window}, {window}>, window_strides = array<i64: 1, 1>,
        padding = dense<[[{window - 1}, 0], [{window - 1}, 0]]> : tensor<2x2xi64>}}
      : ({SAME}, tensor<f32>) -> {SAME}"""
    pools = "\n".join(f"%p{n} = {pool}" for n in range(9))
    sums = "\n".join(f"%s{n} = stablehlo.add %{f's{n - 1}' if n else 'x'}, %p{n} : {SAME}" for n in range(9))
    zero = "%c = stablehlo.constant dense<0.0> : tensor<f32>"
    assert "absurd amount of work" in sentence(file, main(f"{zero} {pools} {sums} return %s8 : {SAME}"))


def test_long_loops_take_time_in_proportion(monkeypatch):
    """Visits are what fusing a loop of many rounds into ops costs; beyond the limit nothing more is joined."""
    text = """func.func public @main(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
      %c = stablehlo.constant dense<0> : tensor<i32>
      %n = stablehlo.constant dense<60> : tensor<i32>
      %one = stablehlo.constant dense<1> : tensor<i32>
      %0:2 = stablehlo.while(%i = %c, %y = %x) : tensor<i32>, tensor<8x8xf32>
        cond { %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
               stablehlo.return %p : tensor<i1> }
        do { %j = stablehlo.add %i, %one : tensor<i32>
             %d = stablehlo.dot_general %y, %x, contracting_dims = [1] x [0]
                  : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
             %e = stablehlo.tanh %y : tensor<8x8xf32>
             %z = stablehlo.add %d, %e : tensor<8x8xf32>
             stablehlo.return %j, %z : tensor<i32>, tensor<8x8xf32> }
      return %0#1 : tensor<8x8xf32> }"""
    counts = {}
    for most in (fusion._MOST_WORK, 0):
        monkeypatch.setattr(fusion, "_MOST_WORK", most)
        with new_context(libraries()):
            counts[most] = load_stablehlo(libraries().ir.Module.parse(text), name="loop").num_ops
    assert 60 <= counts[10_000_000] <= counts[0]


def test_truncated_bytecode(file):
    whole = jax.export.export(jax.jit(scan_step))(shaped(32, 32), shaped(4, 32)).mlir_module_serialized
    assert "bytecode is damaged, cut short" in sentence(file, whole[: len(whole) // 2])


def test_settings(tmp_path, in_this_process):
    path = tmp_path / "step.mlir"
    path.write_text(TEXT)
    for settings_, message in (
        ({"dtype": "int7"}, "dtype is 'int7'"),
        ({"fusion": "all"}, "fusion is 'all'"),
        ({"trips": 1.5}, "trips is 1.5"),
        ({"weights": [9]}, "weights is"),
    ):
        with pytest.raises(WorkloadError, match=message):
            load_stablehlo(path, **settings_)
    with pytest.raises(WorkloadError, match="A StableHLO module is fixed already, so batch cannot apply"):
        resolve_workload(path, batch=2)
    assert not is_built(path)
    assert has_own_types(path)
    assert symbolic_dims(str(path)) == ()
    assert resolve_workload(path, fusion="epilogue").sha256 == load_stablehlo(path).sha256
    with pytest.raises(WorkloadError, match="There is no file"):
        load_stablehlo(tmp_path / "absent.mlir")


def test_a_task_keeps_the_types_that_are_written(tmp_path, in_this_process):
    path = tmp_path / "step.mlir"
    path.write_text(
        jax.jit(step).lower(shaped(32, 32, dtype=jnp.bfloat16), shaped(4, 32, dtype=jnp.bfloat16)).as_text()
    )
    task = resolve_task(path, "tpu-v4i")
    assert (task.program.dtype, task.settings["dtype"], task.settings["fusion"]) == ("bfloat16", None, "epilogue")
    path.write_text(TEXT)
    assert resolve_task(path, "tpu-v4i", dtype="bfloat16").program.dtype == "bfloat16"


def test_functions_that_jax_refuses():
    with pytest.raises(WorkloadError, match=r"JAX cannot lower the function: TypeError: .*dot_general"):
        from_jax(lambda a, b: a @ b, shaped(3, 4), shaped(5, 6))
    with pytest.raises(WorkloadError, match="JAX cannot lower the function"):
        from_jax(3, shaped(3))
    with pytest.raises(WorkloadError, match="donate_argnums is 3; arguments are numbered from 0, and there are 1"):
        from_jax(jnp.tanh, shaped(3), donate_argnums=3)


def test_without_jax(monkeypatch, tmp_path):
    real = builtins.__import__

    def refusing(name, *arguments, **more):
        if name.split(".")[0] == "jax":
            raise ImportError(name)
        return real(name, *arguments, **more)

    path = tmp_path / "step.mlir"
    path.write_text(TEXT)
    for module in [name for name in sys.modules if name.split(".")[0] == "jax"]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setattr(builtins, "__import__", refusing)
    with pytest.raises(
        WorkloadError, match=r'needs the package jax, which is not installed; run: pip install "memplace\[jax\]"'
    ):
        load_stablehlo(path)


@every("jit", [False, True])
@every(("weights", "kind"), [(0, ["p['a']"]), (1, ["x"]), ((0, 1), ["p['a']", "x"])])
def test_weights_are_counted_with_arguments_that_nothing_uses(jit, weights, kind):
    def function(p, x):
        return x @ p["a"]

    tree = {"a": shaped(4, 4), "b": shaped(3, 3)}
    program = from_jax(jax.jit(function) if jit else function, tree, shaped(2, 4), weights=weights)
    named = zip(program.tensor_name, program.tensor_kind, strict=True)
    assert sorted(name for name, tensor_kind in named if tensor_kind == TensorKind.WEIGHT) == kind


def test_a_jitted_function_keeps_its_donations_beside_unused_arguments():
    def function(p, x):
        return {"a": p["a"] + x.sum(), "b": p["b"]}

    tree = {"a": shaped(4, 4), "b": shaped(3, 3)}
    plain = from_jax(function, tree, shaped(2, 4), donate_argnums=0, weights=0)
    jitted = from_jax(jax.jit(function, donate_argnums=0), tree, shaped(2, 4), weights=0)
    assert jitted.sha256 == plain.sha256
    assert (jitted.alias_of >= 0).sum() == 1


def test_weights_beside_static_arguments():
    function = jax.jit(lambda w, x, n: x @ w * n, static_argnums=2)
    with pytest.raises(WorkloadError, match="weights cannot apply to a jitted function with static arguments"):
        from_jax(function, shaped(4, 4), shaped(2, 4), 3, weights=0)


@every("setting", ["weights", "donate_argnums"])
@every("value", [0.5, 1.5, "a", 2, (0, 0.5), object])
def test_numbers_of_arguments_that_are_none(setting, value):
    with pytest.raises(WorkloadError, match=f"{setting} is .* there are 2"):
        from_jax(lambda w, x: x @ w, shaped(4, 4), shaped(2, 4), **{setting: value})


@pytest.mark.parametrize("inside", [False, True])
def test_typed_random_keys(inside):
    def dropout(key, x):
        return x * jax.random.bernoulli(jax.random.key(0) if inside else key, 0.5, (8, 8))

    program = from_jax(dropout, jax.random.key(0), shaped(8, 8))
    assert "x" in program.tensor_name


def test_a_program_without_tensors():
    with pytest.raises(WorkloadError, match="touch no tensor"):
        from_jax(lambda x: x + 1, shaped(0))


@every("source", [5, None, LOWERED])
def test_what_is_neither_path_nor_module(source):
    with pytest.raises(WorkloadError, match="the path of a file or a module of MLIR, not"):
        load_stablehlo(source)


@every("number", ["0.5 : f32", '"a"', "unit"])
def test_an_alias_that_is_no_number(file, number, in_this_process):
    data = main(
        f"%z = stablehlo.add %x, %x : {SAME} return %z : {SAME}", f"%x: {SAME} {{tf.aliasing_output = {number}}}"
    )
    assert "tf.aliasing_output of the argument 'arg0' is not a whole number" in sentence(file, data)


def test_two_arguments_in_the_place_of_one_output(file, in_this_process):
    about = f"{SAME} {{tf.aliasing_output = 0 : i32}}"
    data = main(f"%z = stablehlo.add %x, %y : {SAME} return %z : {SAME}", f"%x: {about}, %y: {about}")
    assert "Two arguments take the place of output 0" in sentence(file, data)
