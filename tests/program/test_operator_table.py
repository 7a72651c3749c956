"""The table of operators: its rows make sense, no other module names operators, and a new operator is one row."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import onnx
import pytest
from onnxruntime.capi.onnxruntime_pybind11_state import get_all_operator_schema

from memplace_env.program.frontends.onnx import onnx_operators, runtime_operators
from memplace_env.program.frontends.onnx.onnx_operators import OPERATORS
from memplace_env.program.frontends.onnx.runtime_operators import RUNTIME_OPERATORS
from memplace_env.program.lowering.node_graph import BehindConv, Operator
from memplace_env.program.lowering.rules.vector_ops import per_input
from tests.program.models import load, node

FOLDER = Path(onnx_operators.__file__).parent
SCHEMAS = [schema for schema in onnx.defs.get_all_schemas_with_history() if not schema.domain]
RUNTIME_SCHEMAS = [schema for schema in get_all_operator_schema() if schema.domain == "com.microsoft"]
KNOWN_TO_ONNX = frozenset(schema.name for schema in SCHEMAS)

ALLOWED_ELSEWHERE = {
    "control_flow.py": {"ConcatFromSequence", "Identity"},
    "sequences.py": {"Concat", "Identity", "Split", "Squeeze", "Unsqueeze"},
}
"""The nodes that branches and loops end in; the nodes that stand for those of sequences."""


def test_rows_make_sense() -> None:
    for name, row in (*OPERATORS.items(), *RUNTIME_OPERATORS.items()):
        is_op = row.works or row.view is not None
        arithmetic = row.behind_conv & BehindConv.ARITHMETIC
        no_arithmetic = row.behind_conv & (BehindConv.ACTIVATION | BehindConv.NORMALISATION)
        sentences = {
            "its key is its name": row.name == name,
            "an op or view, or one thing that is gone before": 1
            == sum((is_op, bool(row.value), bool(row.sequence), row.branches, row.loops, bool(row.fold and not is_op))),
            "only what is folded can be sized by its data": bool(row.fold) or not row.sized_by_data,
            "only ops gather rows, are element-wise or have parameters": row.works
            or not (row.gathers or row.elementwise or row.parameters),
            "a matrix product is not element-wise": not (row.elementwise and row.product),
            "only what is element-wise joins a convolution": row.elementwise or not row.behind_conv,
            "arithmetic is no activation or normalisation": not (arithmetic and no_arithmetic),
            "heads are matrix products": bool(row.product) or not row.epilogue_head,
            "heads of fusion conv have filters and are heads of epilogue": (row.filters and row.epilogue_head)
            or not row.conv_head,
            "filters belong to products over images": (row.product and row.channels_first) or not row.filters,
            "only products have a weight": bool(row.product) or row.weight == 1,
            "only convolutions have a bias": row.conv_head or row.bias == 2,
            "what is a view of constants can be a view": bool(row.view) or not row.view_of_constants,
        }
        assert not [sentence for sentence, holds in sentences.items() if not holds], name


def test_positions_are_inputs_that_the_operator_has() -> None:
    for name in OPERATORS.keys() & KNOWN_TO_ONNX:
        row = OPERATORS[name]
        inputs = max(schema.max_input for schema in SCHEMAS if schema.name == name)
        assert all(0 < position < inputs for position in row.parameters), name
        assert not row.product or row.weight < inputs, name
        assert not row.conv_head or row.bias < inputs, name


def test_positions_of_the_runtime_s_operators() -> None:
    for schema in RUNTIME_SCHEMAS:
        row = RUNTIME_OPERATORS.get(schema.name, Operator("none"))
        assert all(0 < position < len(schema.inputs) for position in row.parameters), schema.name
        assert all(position < len(schema.inputs) for position in row.gathers), schema.name
        assert not row.product or row.weight < len(schema.inputs), schema.name
    known_to_runtime = {schema.name for schema in RUNTIME_SCHEMAS}
    assert RUNTIME_OPERATORS.keys() - known_to_runtime == {"LayerNormalization", "SimplifiedLayerNormalization"}


def test_optional_results_are_those_that_onnx_calls_so() -> None:
    """A kernel writes all others, also those that nothing reads."""
    schemas = [onnx.defs.get_schema(name) for name in OPERATORS.keys() & KNOWN_TO_ONNX]
    for schema, table in [*((s, OPERATORS) for s in schemas), *((s, RUNTIME_OPERATORS) for s in RUNTIME_SCHEMAS)]:
        row = table.get(schema.name)
        if row is not None and row.works:
            kinds = [str(output.option).rpartition(".")[-1] for output in schema.outputs]
            assert row.written == (None if "Variadic" in kinds else kinds.count("Single")), schema.name


def test_no_operator_has_two_rows() -> None:
    assert len(onnx_operators._ROWS) == len(OPERATORS)
    assert len(runtime_operators._ROWS) == len(RUNTIME_OPERATORS)


def test_nothing_but_the_table_names_operators() -> None:
    modules = [path for path in FOLDER.rglob("*.py") if path.name not in ("onnx_operators.py", "runtime_operators.py")]
    assert len(modules) > 10
    for module in modules:
        named = set(operator_names(ast.parse(module.read_text())))
        assert named == ALLOWED_ELSEWHERE.get(module.name, set()), module


def operator_names(tree: ast.AST) -> Iterator[str]:
    """Texts that are names of operators and nothing else, one or several in a row."""
    for part in ast.walk(tree):
        if isinstance(part, ast.Constant) and isinstance(part.value, str) and part.value:
            words = part.value.split()
            yield from words if KNOWN_TO_ONNX.issuperset(words) else ()


def test_a_new_operator_is_one_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(OPERATORS, "Det", Operator("Det", vector_ops=per_input(3)))
    program = load([node("Det", "x", "y")], {"x": [2, 4, 4]})
    assert program.op_type == ("Det",)
    assert list(program.vector_ops) == [96]
