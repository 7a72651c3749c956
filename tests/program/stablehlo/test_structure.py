"""Arguments, updates, schedules and fused ops of Programs from JAX."""

import jax
import jax.numpy as jnp
import pytest

from memplace_env import from_jax, load_stablehlo
from memplace_env._lib.errors import WorkloadError
from memplace_env.program.frontends.stablehlo.stablehlo_schedule import scheduled
from memplace_env.program.lowering.buffer_ops import Buffer, Op, OpGraph
from memplace_env.program.lowering.node_graph import Operator
from memplace_env.program.program import Program, TensorKind
from scripts.zoo.training.common import adam, moments_of
from tests.program.stablehlo.networks import shaped


def kinds(program: Program) -> dict[str, str]:
    return {name: TensorKind(kind).name for name, kind in zip(program.tensor_name, program.tensor_kind, strict=True)}


def model(p, x):
    return jax.nn.relu(x @ p["w"]) @ p["v"]


TREE = {"w": shaped(64, 64), "v": shaped(64, 8)}


def test_trees_are_weights():
    kinds_by_name = kinds(from_jax(model, TREE, shaped(4, 64)))
    assert [kinds_by_name[name] for name in ("p['w']", "p['v']", "x")] == ["WEIGHT", "WEIGHT", "INPUT"]


def test_weights_can_be_named():
    def product(x, w):
        return jnp.tanh(x) @ w

    assert kinds(from_jax(product, shaped(4, 64), shaped(64, 64), weights=1))["w"] == "WEIGHT"
    assert kinds(from_jax(product, shaped(4, 64), shaped(64, 64), weights=[-1]))["x"] == "INPUT"
    assert kinds(from_jax(product, shaped(4, 64), shaped(64, 64)))["x"] == "WEIGHT", "all arrays but the last"
    with pytest.raises(WorkloadError, match="weights is 2; arguments are numbered from 0, and there are 2"):
        from_jax(product, shaped(4, 64), shaped(64, 64), weights=2)


def test_donated_arguments_are_updated_in_their_place():
    def update(p, x):
        return jax.tree.map(lambda p, g: p - 0.1 * g, p, jax.grad(lambda p: model(p, x).sum())(p))

    result = from_jax(update, TREE, shaped(4, 64), donate_argnums=0)
    pairs = {
        (result.tensor_name[source], result.tensor_kind[output])
        for output, source in enumerate(result.alias_of)
        if source >= 0
    }
    assert pairs == {("p['w']", TensorKind.OUTPUT), ("p['v']", TensorKind.OUTPUT)}
    apart = from_jax(update, TREE, shaped(4, 64), weights=0)
    assert (apart.alias_of < 0).all()
    assert apart.footprint - result.footprint > 0


def test_swapped_arguments_keep_a_place_of_their_own():
    """Each result needs what the other overwrites, so not both can be in place."""
    result = from_jax(lambda a, b: (b + a[::1].sum(), a * b.sum()), shaped(64), shaped(64), donate_argnums=(0, 1))
    assert (result.alias_of >= 0).sum() <= 1


def test_an_update_by_adam_is_one_op():
    p = {"w": shaped(256, 256)}
    result = from_jax(lambda p, memory, g: adam(p, memory, g), p, moments_of(p), p, donate_argnums=(0, 1))
    large = [op for op in range(result.num_ops) if result.tensor_bytes[result.results(op)].max() == 4 * 256 * 256]
    assert len(large) == 1
    assert len(result.results(large[0])) == 3
    assert (result.alias_of >= 0).sum() == 4


def test_layers_are_products_with_their_activation():
    result = from_jax(model, TREE, shaped(4, 64))
    assert result.op_type == ("MatMul", "MatMul")
    assert from_jax(model, TREE, shaped(4, 64), fusion="none").op_type == ("MatMul", "Max", "MatMul")


def test_terms_of_a_running_sum_die_at_once():
    """The gradient of a recurrent weight is a product for each step, added to the sum of those before."""
    steps, size = 12, 4 * 256 * 256

    def update(p, x):
        def loss(p):
            return jax.lax.scan(lambda h, row: (jnp.tanh(row + h @ p), None), x[0], x)[0].sum()

        return p - 0.1 * jax.grad(loss)(p)

    result = from_jax(update, shaped(256, 256), shaped(steps, 8, 256), donate_argnums=0)
    large = result.tensor_bytes == size
    assert max(large[result.operands(op)].sum() for op in range(result.num_ops)) <= 3
    assert result.live_bytes.max() < 4 * size


def test_a_convolution_takes_in_its_bias_and_activation():
    def layer(p, x):
        y = jax.lax.conv_general_dilated(x, p["w"], (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        return jax.nn.relu(y + p["b"])

    result = from_jax(layer, {"w": shaped(3, 3, 8, 16), "b": shaped(16)}, shaped(2, 32, 32, 8), fusion="conv")
    assert result.op_type == ("Conv",)
    assert result.geometry[0].tolist() == [2, 32, 32, 8, 16, 16, 16, 1, 3, 3, 2, 0, 1, 2]


def test_slices_of_one_tensor_add_up():
    """The four gates of an LSTM are read from one product as a whole."""

    def gates(w, x):
        a, b, c, d = jnp.split(x @ w, 4, -1)
        return jnp.tanh(a) * jnp.tanh(b) + jnp.tanh(c) * jnp.tanh(d)

    result = from_jax(gates, shaped(32, 512), shaped(16, 32))
    product = result.tensor_name.index("dot_general")
    (read,) = result.use_bytes[(result.use_tensor == product) & ~result.use_is_result]
    assert read == result.tensor_bytes[product]


def test_a_row_of_a_table_is_read_in_part():
    result = from_jax(lambda table, rows: jnp.tanh(table[rows]), shaped(1000, 64), shaped(8, dtype=jnp.int32))
    table = result.tensor_name.index("table")
    assert result.use_bytes[result.use_tensor == table].tolist() == [8 * 64 * 4]


def test_a_gather_makes_what_it_reads_itself():
    """Gathering from a difference, as a loss does from the logarithm of a softmax, computes only the gathered rows."""

    def picked(x, y, rows):
        return jnp.tanh(jnp.exp(x) - y)[rows], x.sum()

    result = from_jax(picked, shaped(1000, 64), shaped(1000, 64), shaped(8, dtype=jnp.int32), weights=())
    assert result.bytes_of(TensorKind.ACTIVATION) == 0
    (gather,) = (op for op in range(result.num_ops) if result.op_type[op] == "Gather")
    assert 0 <= result.vector_ops[gather] - 3 * 8 * 64 < 8 * 64, "and what the indices take"
    y = result.tensor_name.index("y")
    assert result.use_bytes[result.use_tensor == y].tolist() == [8 * 64 * 4]


def test_closed_over_arrays_are_weights(tmp_path):
    w = jnp.arange(128.0 * 128).reshape(128, 128)
    result = from_jax(lambda x: x @ w, shaped(4, 128))
    assert result.bytes_of(TensorKind.WEIGHT) == 4 * 128 * 128


def test_modules_and_files_say_the_same(tmp_path):
    lowered = jax.jit(model).lower(TREE, shaped(4, 64))
    (tmp_path / "model.mlir").write_text(lowered.as_text())
    exported = jax.export.export(jax.jit(model))(TREE, shaped(4, 64))
    (tmp_path / "model.mlirbc").write_bytes(exported.mlir_module_serialized)
    hashes = {
        load_stablehlo(lowered.compiler_ir("stablehlo")).sha256,
        load_stablehlo(tmp_path / "model.mlir").sha256,
        load_stablehlo(tmp_path / "model.mlirbc").sha256,
        from_jax(jax.jit(model), TREE, shaped(4, 64)).sha256,
    }
    assert len(hashes) == 1


def graph_of(*ops: tuple[str, str, int], aliases: dict[str, str] | None = None) -> OpGraph:
    """Ops as (operands, result, bytes of the result); names are single letters, capitals are weights."""
    sizes = {name: 10 for operands, _, _ in ops for name in operands} | {result: size for _, result, size in ops}
    buffers = {name: Buffer(size, 1, 8, name.isupper()) for name, size in sizes.items()}
    result = tuple(
        Op(Operator("Op"), result, tuple(operands), (result,), dict.fromkeys(operands, 1), (0, 0, 0, 0), 0, (0,) * 14)
        for operands, result, _ in ops
    )
    read = {name for operands, _, _ in ops for name in operands}
    return OpGraph(result, buffers, frozenset(result for _, result, _ in ops if result not in read), aliases or {})


def order(graph: OpGraph) -> str:
    return "".join(op.name for op in scheduled(graph).ops)


def test_what_frees_memory_runs_early():
    """b and c are large; as they stand both are alive at once."""
    assert order(graph_of(("A", "b", 1000), ("A", "c", 1000), ("b", "d", 1), ("c", "e", 1), ("de", "f", 1))) in (
        "bdcef",
        "cebdf",
    )


def test_readers_run_before_their_tensor_is_replaced():
    ops = (("A", "b", 10), ("bA", "c", 10), ("b", "d", 500))
    assert order(graph_of(*ops, aliases={"c": "A"})).index("b") == 0
    late = graph_of(("A", "b", 10), ("X", "c", 10), ("b", "d", 10), aliases={"c": "A"})
    assert order(late).index("b") < order(late).index("c")
    impossible = graph_of(("X", "c", 10), ("cA", "d", 10), aliases={"c": "A"})
    assert scheduled(impossible).alias_of == {}
