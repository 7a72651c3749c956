"""Remembered shapes of alike nodes: the same as those that are inferred anew."""

from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper

from memplace_env.program.frontends.onnx.node_checks import MisfitError, NodeShapes
from memplace_env.program.lowering.graph_values import Value
from tests.thorough import examples

OPSET = 18
ATTRIBUTES = {
    "Transpose": {"perm": st.permutations([0, 1, 2])},
    "TopK": {"axis": st.integers(0, 2)},
    "Flatten": {"axis": st.integers(0, 3)},
    "Dropout": {},
    "MatMul": {},
}
TENSORS = st.builds(
    Value, st.tuples(*[st.integers(1, 2)] * 3), st.sampled_from([TensorProto.FLOAT, TensorProto.DOUBLE])
)


def answer(shapes, node, inputs):
    """Return what is inferred, types as text, or the error."""
    try:
        types, values = shapes.inferred(node, inputs)
    except MisfitError as error:
        return str(error)
    return list(map(str, types)), values


@examples(30)
@given(st.data())
def test_remembered_shapes_are_those_inferred_anew(data):
    """Nodes that differ in operator, attribute, shapes, types or absent results are told apart."""
    remembering = NodeShapes(OPSET)
    for index in range(20):
        operator = data.draw(st.sampled_from(sorted(ATTRIBUTES)))
        inputs = [data.draw(TENSORS)]
        if operator == "TopK":
            inputs.append(Value((1,), TensorProto.INT64))
        elif operator == "MatMul":
            inputs.append(data.draw(TENSORS))
        second = f"z{index}" if operator == "TopK" or data.draw(st.booleans()) else ""
        outputs = [f"y{index}", second] if operator in ("TopK", "Dropout") else [f"y{index}"]
        attributes = data.draw(st.fixed_dictionaries({}, optional=ATTRIBUTES[operator]))
        operands = [f"x{index}", f"w{index}"][: len(inputs)]
        node = helper.make_node(operator, operands, outputs, name=f"n{index}", **attributes)
        assert answer(remembering, node, inputs) == answer(NodeShapes(OPSET), node, inputs)
