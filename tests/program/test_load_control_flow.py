"""Branches and loops that the data decide, sizes that only the data know, and models that are cut."""

from __future__ import annotations

import re
import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import GraphProto, NodeProto, TensorProto, helper

from memplace_env._lib.errors import WorkloadError
from memplace_env.program import model_file
from memplace_env.program.lowering.fusion import FUSIONS
from memplace_env.program.program import TensorKind
from tests.offenders import every
from tests.program.models import load, load_model, model, names, node, result_names, tensor, weight

BOOLS = {"types": {"c": TensorProto.BOOL, "d": TensorProto.BOOL}}


def graph(nodes: list[NodeProto], outputs: str, inputs: str = "", **stored: tuple[int, ...]) -> GraphProto:
    """A subgraph, with initialisers without contents."""
    given, wanted = (
        [helper.make_tensor_value_info(name, 1, None) for name in text.split()] for text in (inputs, outputs)
    )
    return helper.make_graph(nodes, "g", given, wanted, [weight(name, dims) for name, dims in stored.items()])


def choice(
    result: str, then: list[NodeProto], other: list[NodeProto], condition: str = "c", **stored: Any
) -> NodeProto:
    branches = {"then_branch": graph(then, "t", **stored), "else_branch": graph(other, "t", **stored)}
    return node("If", condition, result, **branches)


# Branches.

SMALL = [node("Relu", "x", "t")]
LARGE = [node("MatMul", "x w", "m"), node("Relu", "m", "t")]


@pytest.mark.parametrize(("first", "second", "taken"), [(SMALL, LARGE, "else"), (LARGE, SMALL, "then"),
                                                        (SMALL, SMALL, "then")])  # fmt: skip
def test_the_branch_with_most_work_is_taken(first: Any, second: Any, taken: str) -> None:
    said = f"one with most work is taken: {taken}_branch of node 'n_a' (If)"
    nodes = [choice("a", first, second, w=(4, 4)), node("Exp", "a", "y")]
    with pytest.warns(UserWarning, match=re.escape(said)):
        program = load(nodes, {"x": [4, 4], "c": []}, **BOOLS)
    larger = LARGE in (first, second)
    assert program.op_type == (("If", "MatMul", "Relu", "Exp") if larger else ("If", "Relu", "Exp"))
    assert names(program, TensorKind.WEIGHT) == ({"a/w"} if larger else set())
    assert names(program, TensorKind.INPUT) == {"x", "c"}


def test_branches_within_branches() -> None:
    """The work of a branch counts the branch within it that is taken."""
    inner = choice("t", SMALL, LARGE, "d", w=(4, 4))
    outer = choice("y", [node("Exp", "x", "e"), node("Neg", "e", "t")], [inner])
    with pytest.warns(UserWarning, match=r"n_y' \(If\)|n_t"):
        program = load([outer], {"x": [4, 4], "c": [], "d": []}, **BOOLS)
    assert program.op_type == ("If", "If", "MatMul", "Relu")


def test_many_choices_are_one_sentence() -> None:
    nodes = [choice(f"v{n}", [node("Relu", "x" if n == 0 else f"v{n - 1}", "t")], SMALL) for n in range(6)]
    with pytest.warns(UserWarning, match=r"v0.*v1.*v2' \(If\) and 3 more") as caught:
        assert load(nodes, {"x": [4], "c": []}, "v5", **BOOLS).num_ops == 2 * 6
    assert len(caught) == 1


def test_the_warning_says_what_each_branch_costs() -> None:
    """One that is not taken may have an operator of unknown cost."""
    unknown = [node("Det", "x", "d"), node("Expand", "d s", "t")]
    nodes = [choice("a", LARGE, SMALL, w=(4, 4)), choice("y", [node("Bernoulli", "a", "t")], unknown)]
    said = (
        "node 'n_a' (If) has then_branch (64 MACs, peak of 128 bytes), else_branch (0 MACs, peak of 64 bytes); "
        "node 'n_y' (If) has then_branch (0 MACs, peak of 64 bytes), else_branch (unknown work)."
    )
    with pytest.warns(UserWarning, match=re.escape(said)):
        load(nodes, {"x": [4, 4], "c": []}, constants={"s": np.array([4, 4])}, **BOOLS)


# What runs before the decision.

SIZES = st.sampled_from(["c", "h0", "h1", "x"])


@given(
    inner=st.lists(SIZES, min_size=2, max_size=2),
    constant=st.lists(st.booleans(), min_size=2, max_size=2),
    behind=st.booleans(),
    trips=st.sampled_from([None, 0, 2]),
    fusion=st.sampled_from(FUSIONS),
)
@settings(max_examples=60, deadline=None)
@pytest.mark.filterwarnings("ignore:.*the data choose a branch")
def test_top_level_work_stays_whatever_is_decided(
    inner: list[str], constant: list[bool], behind: bool, trips: int | None, fusion: str
) -> None:
    """Work for the condition, for what a branch or a loop captures, and with the result."""
    nodes = [node("MatMul", "x w", "c"), node("MatMul", "x w", "h0"), node("MatMul", "x w", "h1"),
             node("ReduceMax", "c", "m", keepdims=0), node("Cast", "m", "flag", to=9)]  # fmt: skip
    parts = [
        [node("Add", f"{name} v", "r")] if not fixed else [node("Identity", "v", "r"), node("Abs", name, "unread")]
        for name, fixed in zip(inner, constant, strict=True)
    ]
    if trips is None:
        made = node("If", "flag", "a", then_branch=graph(parts[0], "r"), else_branch=graph(parts[1], "r"))
    else:
        going = [node("ReduceMax", "s", "q", keepdims=0), node("Cast", "q", "going", to=9)]
        made = node("Loop", "_ flag v", "a", body=graph([*parts[0], *going], "going r", "i going_in s"))
    nodes += [made, node("MatMul", "a w", "y") if behind else node("Abs", "a", "y")]
    program = load(nodes, {"x": [4, 4]}, constants={"w": (4, 4), "v": (4, 4)}, trips=trips, fusion=fusion)
    captured = {name for name, fixed in zip(inner, constant, strict=True)} if trips is None else {inner[0]}
    due = {"c", *captured} - {"x"} | ({"y"} if behind else set())
    covered = {name for op in program.op_nodes for name in op}
    assert {f"n_{name}" for name in due} <= covered
    assert int(program.macs.sum()) == len(due) * 4 * 4 * 4


def test_constant_conditions_need_no_op() -> None:
    program = load([choice("y", SMALL, SMALL)], {"x": [4]}, constants={"c": np.array(True)})
    assert program.op_type == ("Relu",)


def test_sizes_that_a_branch_gives_stay_known() -> None:
    sizes = [node("Constant", "", "t", value_ints=[2, 8])]
    nodes = [
        choice("s", sizes, [node("Constant", "", "t", value_ints=[4, 4])]),
        node("Reshape", "x s", "r"),
        node("MatMul", "r w", "y"),
    ]
    with pytest.warns(UserWarning, match="then_branch of node 'n_s'"):
        program = load(nodes, {"x": [16], "c": []}, constants={"w": (8, 3)}, **BOOLS)
    assert program.op_type == ("If", "MatMul")


def test_an_error_in_a_branch_is_the_model_s() -> None:
    with pytest.raises(WorkloadError, match=r"'What'.*not in ONNX"):
        load([choice("y", SMALL, [node("What", "x", "t")])], {"x": [4], "c": []}, **BOOLS)


RATES: list[NodeProto] = [
    node("Greater", "rate limit", "c"),
    choice("y", [node("MatMul", "x w", "t")], [node("MatMul", "x v", "t")], w=(4, 2), v=(8, 2)),
]
RATE: dict[str, Any] = {"constants": {"limit": np.array(100)}, "types": {"rate": TensorProto.INT64}}


@pytest.mark.parametrize(("width", "held"), [(4, "then"), (8, "else")])
def test_a_branch_that_does_not_fit_is_not_taken(width: int, held: str) -> None:
    inputs: dict[str, Any] = {"x": [1, width], "rate": [1]}
    with pytest.warns(UserWarning, match=rf"^[^:]*: The {held}_branch of node 'n_y' \(If\) is taken, .*MatMul") as said:
        program = load(RATES, inputs, **RATE)
    assert (len(said), program.op_type, program.macs.sum()) == (1, ("Greater", "If", "MatMul"), 2 * width)
    with pytest.raises(WorkloadError, match="n_t"):
        load(RATES, {**inputs, "x": [1, 5]}, **RATE)


@pytest.mark.parametrize(("number", "width"), [(101, 4), (100, 8), (np.int64(100), 8), (-1.0, 8)])
@pytest.mark.parametrize("shape", [[], [1], ["batch"]])
def test_a_value_chooses_the_branch(number: float, width: int, shape: list[Any]) -> None:
    """The input is no tensor of the Program any more, and nothing is said."""
    size = {"dims": {"batch": 1}} if shape == ["batch"] else {}
    with warnings.catch_warnings(action="error"):
        program = load(RATES, {"x": [1, width], "rate": shape}, values={"rate": number}, **size, **RATE)
    assert (program.op_type, names(program, TensorKind.INPUT)) == (("MatMul",), {"x"})
    with pytest.raises(WorkloadError, match="fit"):
        load(RATES, {"x": [1, 12 - width], "rate": shape}, values={"rate": number}, **size, **RATE)


@every(
    ("name", "number", "message"),
    [
        ("rate", 1.5, "is 1.5, which no INT64 is"),
        ("rate", 2**70, "which no INT64 is"),
        ("rate", float("nan"), "which no INT64 is"),
        ("rate", "16000", "which no INT64 is"),
        ("x", 1, r"'x' has the shape \[1, 4\]; values are for graph inputs of one element"),
        ("limit", 1, "'limit' is no graph input"),
    ],
)
def test_values_that_cannot_be(name: str, number: Any, message: str) -> None:
    with pytest.raises(WorkloadError, match=message):
        load(RATES, {"x": [1, 4], "rate": []}, values={name: number}, **RATE)


# Loops.


def loop(body: list[NodeProto], outputs: str, limit: str = "n", condition: str = "_", **stored: Any) -> NodeProto:
    """A loop that carries one value, `s` in the body and `x` at the start; its further results are stacked."""
    wanted = " ".join(["going", "r", *[f"z{n}" for n in range(len(outputs.split()) - 1)]])
    inner = graph([*body, node("Identity", "going_in", "going")], wanted, "i going_in s", **stored)
    return node("Loop", f"{limit} {condition} x", outputs, body=inner)


STEP = [node("MatMul", "s w", "m"), node("Tanh", "m", "r")]


@pytest.mark.parametrize(("trips", "settings"), [(None, {"constants": {"n": np.array(3)}}), (3, {})])
def test_rounds_are_unrolled(trips: int | None, settings: Any) -> None:
    """The model says how often, or `trips` does where the data decide; all rounds share the weight."""
    given: dict[str, Any] = {"x": [2, 4]} if trips is None else {"x": [2, 4], "n": []}
    program = load([loop(STEP, "y", w=(4, 4))], given, trips=trips, types={"n": TensorProto.INT64}, **settings)
    decides = () if trips is None else ("Loop",)
    assert program.op_type == decides + ("MatMul", "Tanh") * 3
    assert names(program, TensorKind.WEIGHT) == {"y/w"}
    assert result_names(program, len(decides) + 1) == ["y/0/r"]
    assert int(program.macs.sum()) == 3 * 2 * 4 * 4


def test_results_of_rounds_are_stacked() -> None:
    body = [*STEP, node("Exp", "m", "z0")]
    program = load([loop(body, "y z", w=(4, 4))], {"x": [2, 4]}, "y z", constants={"n": np.array(3)})
    assert program.op_type.count("Concat") == 1
    assert program.tensor_bytes[tensor(program, "z")] == 3 * 2 * 4 * 4


def test_a_condition_that_is_computed_ends_the_loop() -> None:
    """A while loop that counts to five by twos."""
    body = graph([node("Add", "k two", "k2"), node("Less", "k2 five", "going"), node("Relu", "s", "r")],
                 "going k2 r", "i going_in k s")  # fmt: skip
    constants = {"zero": np.array(0), "two": np.array(2), "five": np.array(5), "yes": np.array(True)}
    program = load([node("Loop", "_ yes zero x", "last y", body=body)], {"x": [4]}, constants=constants)
    assert program.op_type == ("Relu",) * 3


def test_lists_that_grow() -> None:
    body = graph([node("Relu", "x", "r"), node("SequenceInsert", "s r", "s2"), node("Identity", "going_in", "going")],
                 "going s2", "i going_in s")  # fmt: skip
    nodes = [node("SequenceEmpty", "", "none"), node("Loop", "n _ none", "list", body=body),
             node("ConcatFromSequence", "list", "y", axis=0)]  # fmt: skip
    program = load(nodes, {"x": [4]}, constants={"n": np.array(3)})
    assert program.op_type == ("Relu", "Relu", "Relu", "Concat")


def test_data_that_end_a_loop_need_trips() -> None:
    """Also below a limit, which stays one."""
    body = graph([node("Relu", "s", "r"), node("ReduceSum", "r", "q", keepdims=0), node("Cast", "q", "going", to=9)],
                 "going r", "i going_in s")  # fmt: skip
    nodes, constants = [node("Loop", "n _ x", "y", body=body)], {"n": np.array(8)}
    with pytest.raises(WorkloadError, match=r"how often node 'n_y' \(Loop\) runs; .* trips= \(--trips\)"):
        load(nodes, {"x": [4]}, constants=constants)
    for trips, rounds in ((0, 1), (3, 3), (20, 8)):
        assert load(nodes, {"x": [4]}, constants=constants, trips=trips).op_type == (
            "Relu", "ReduceSum", "Cast", "Loop"
        ) * rounds  # fmt: skip


def test_trips_that_cannot_apply() -> None:
    relu = [node("Relu", "x", "y")]
    with pytest.raises(WorkloadError, match="No loop of the model needs a number of rounds"):
        load(relu, {"x": [4]}, trips=2)
    for trips in (-1, 1.5, True, "3"):
        with pytest.raises(WorkloadError, match="a whole number from 0"):
            load(relu, {"x": [4]}, trips=trips)
    stacked = [loop([node("Relu", "s", "r"), node("Exp", "r", "z0")], "y z")]
    with pytest.raises(WorkloadError, match=r"runs no round, so 'z' has no size; pass --trips 1 or more"):
        load(stacked, {"x": [4], "n": []}, "z", trips=0, types={"n": TensorProto.INT64})


@every("inputs", ["n", "n _ x x", "n _", ""])
def test_damaged_loops(inputs: str) -> None:
    body = loop(STEP, "y", w=(4, 4)).attribute[0].g
    with pytest.raises(WorkloadError, match="n_y"):
        load([node("Loop", inputs, "y", body=body)], {"x": [2, 4]}, constants={"n": np.array(2)})


# Limits.


@pytest.mark.parametrize("made", ["y", "y z"])
def test_loops_that_never_end(made: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing in the loop counts but its rounds, or the values that it stacks."""
    monkeypatch.setitem(model_file.LIMITS, "nodes", 5000)  # type: ignore[arg-type]
    body = [node("Identity", "s", "r"), node("Relu", "s", "z0")]
    with pytest.raises(WorkloadError, match="over 5,000 nodes"):
        load([loop(body[: len(made.split())], made)], {"x": [4]}, constants={"n": np.array(2**62)})


def test_loops_within_loops_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(model_file.LIMITS, "nodes", 5000)  # type: ignore[arg-type]
    body = [node("Relu", "s", "r")]
    for _ in range(20):
        inner = loop(body, "r")
        inner.input[2] = "s"
        body = [inner]
    with pytest.raises(WorkloadError, match="over 5,000 nodes"):
        load([loop(body, "y")], {"x": [4], "n": []}, trips=10**6, types={"n": TensorProto.INT64})


def test_copies_of_what_is_in_a_loop_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(model_file.LIMITS, "nodes in branches within branches", 300)  # type: ignore[arg-type]
    never = choice(
        "r", [node("Relu", "s", "t")], [node("Relu", "s", f"a{n}") for n in range(99)] + [node("Relu", "s", "t")]
    )
    with pytest.raises(WorkloadError, match="over 300 nodes in branches within branches"):
        load([loop([never], "y")], {"x": [4]}, constants={"n": np.array(9), "c": np.array(True)})


# Sizes that only the data know.


def test_indices_of_what_is_not_zero() -> None:
    """A mixture's expert takes the tokens that were routed to it."""
    nodes = [node("NonZero", "mask", "i"), node("Transpose", "i", "it", perm=[1, 0]), node("GatherND", "x it", "own"),
             node("MatMul", "own w", "done"), node("ScatterND", "x it done", "y", reduction="add")]  # fmt: skip
    inputs, constants = {"x": [16, 4], "mask": [16]}, {"w": (4, 4)}
    with pytest.raises(WorkloadError, match=re.escape("pass dims={'i.1': ...} (--dim i.1=...)")):
        load(nodes, inputs, constants=constants)
    program = load(nodes, inputs, constants=constants, dims={"i[1]": 5})
    assert program.op_type == ("NonZero", "GatherND", "MatMul", "ScatterND")
    assert int(program.macs.sum()) == 5 * 4 * 4
    assert int(program.vector_ops[0]) == 16


def test_sizes_have_the_exporter_s_names() -> None:
    """PyTorch's declares how many indices there are behind the transpose of them only."""
    nodes = [node("NonZero", "mask", "i"), node("Transpose", "i", "it", perm=[1, 0]), node("GatherND", "x it", "y")]
    proto = model(nodes, {"x": [16, 4], "mask": [16]})
    proto.graph.value_info.append(helper.make_tensor_value_info("it", TensorProto.INT64, ["u0", 1]))
    with pytest.raises(WorkloadError, match=re.escape("pass dims={'u0': ...} (--dim u0=...)")):
        load_model(proto)
    for name in ("u0", "u*", "*"):
        assert load_model(proto, dims={name: 5}).tensor_bytes[-1] == 5 * 4 * 4
    with pytest.raises(WorkloadError, match=r"no symbolic dim 'v\*'"):
        load_model(proto, dims={"u0": 5, "v*": 5})


@every(
    ("made", "size"),
    [
        (node("Compress", "x c", "k", axis=0), {"k[0]": 3}),
        (node("Unique", "x", "k"), {"k[0]": 3}),
        (node("NonMaxSuppression", "boxes scores", "k"), {"k[0]": 3}),
        (node("Range", "zero n one", "k"), {"k[0]": 3}),
        (node("ConstantOfShape", "list", "k"), {"k[0]": 3}),
    ],
)
def test_sizes_by_hand(made: NodeProto, size: dict[str, int]) -> None:
    inputs: dict[str, Any] = {"x": [8], "c": [8], "n": [], "list": [1], "boxes": [1, 8, 4], "scores": [1, 2, 8]}
    types = {"c": TensorProto.BOOL, "n": TensorProto.INT64, "list": TensorProto.INT64}
    constants = {"zero": np.array(0), "one": np.array(1)}
    nodes = [made, node("Cast", "k", "y", to=TensorProto.DOUBLE)]
    with pytest.raises(WorkloadError, match=r"--dim k\.0=\.\.\."):
        load(nodes, inputs, constants=constants, types=types)
    program = load(nodes, inputs, constants=constants, types=types, dims=size)
    assert program.op_type == (made.op_type, "Cast")


def test_a_pattern_means_sizes_without_a_name() -> None:
    """Under the names of the message, also in a loop, and below a size of their own; one that means none is refused."""
    made = [node("NonZero", "mask", "i"), node("Compress", "x c", "k"), node("Add", "k k", "y")]
    inputs, types = {"mask": [16], "x": [8], "c": [8]}, {"c": TensorProto.BOOL}
    for dims, result in (({"*": 5}, 5), ({"i*": 4, "k.*": 5}, 5), ({"*.*": 4, "k[0]": 5}, 5), ({"*": 4, "k*": 5}, 5)):
        program = load([*made, node("Identity", "i", "more")], inputs, "y more", types=types, dims=dims)
        assert program.tensor_bytes[program.op_type.index("Add") - program.num_ops] == result * 4
    with pytest.raises(WorkloadError, match=r"has no symbolic dim 'j\*'; it has: none"):
        load(made[1:], inputs, types=types, dims={"k*": 5, "j*": 4})
    body = [node("NonZero", "s", "found"), node("Gather", "s found", "some")]
    looped = loop([*body, node("ReduceMax", "some", "most", keepdims=0), node("Add", "s most", "r")], "y")
    rounds = {"n": np.array(2)}
    with pytest.raises(WorkloadError, match=r"--dim y/0/found\.1=\.\.\."):
        load([looped], {"x": [3]}, constants=rounds)
    assert load([looped], {"x": [3]}, constants=rounds, dims={"y/*/found*": 1}).op_type[0] == "NonZero"


@every(
    ("made", "name", "most"),
    [
        (node("NonZero", "square", "k"), "k.1", 12),
        (node("Compress", "square c", "k", axis=-2), "k.0", 3),
        (node("Compress", "square c", "k"), "k.0", 8),
        (node("Unique", "square", "k"), "k.0", 12),
        (node("Unique", "square", "k", axis=1), "k.1", 4),
        (node("NonMaxSuppression", "boxes scores", "k"), "k.0", 16),
        (node("NonMaxSuppression", "boxes scores three", "k"), "k.0", 6),
        (node("TopK", "square list", "k other"), "k.1", 4),
        (node("Slice", "square list list", "k"), "k.0", 3),
    ],
)
def test_sizes_that_cannot_be(made: NodeProto, name: str, most: int) -> None:
    inputs = {"square": [3, 4], "c": [8], "list": [1], "boxes": [1, 8, 4], "scores": [1, 2, 8]}
    types = {"c": TensorProto.BOOL, "list": TensorProto.INT64}
    settings: dict[str, Any] = {"constants": {"three": np.array([3])}, "types": types}
    nodes = [made, node("Cast", "k", "y", to=TensorProto.DOUBLE)]
    load(nodes, inputs, **settings, dims={"*": 1, name: most})
    message = rf"{re.escape(f'The size passed for {name!r} is {most + 1}')}, but .* makes at most {most} from"
    with pytest.raises(WorkloadError, match=message):
        load(nodes, inputs, **settings, dims={"*": 1, name: most + 1})
    with pytest.raises(WorkloadError, match="a dim is a whole number from 1"):
        load(nodes, inputs, **settings, dims={"*": -1})


# Models that are cut.

CHAIN = [node("Relu", "x", "a"), node("Exp", "a", "b"), node("What", "b", "y")]


def test_a_model_is_loaded_up_to_a_tensor() -> None:
    """Nothing behind it need be known, nor the sizes of inputs that only that reads."""
    program = load(CHAIN, {"x": [4]}, cut="b")
    assert program.op_type == ("Relu", "Exp")
    assert names(program, TensorKind.OUTPUT) == {"b"}
    program = load([*CHAIN[:2], node("Add", "b z", "y")], {"x": [4], "z": ["n"]}, cut="b")
    assert program.num_ops == 2


def test_tensors_that_cannot_be_cut_at() -> None:
    for name, hint in (("c", "pass the name of a node's output"), ("x", "pass the name"), ("", "pass the name")):
        with pytest.raises(WorkloadError, match=f"makes no tensor '{name}' to cut at; {hint}"):
            load(CHAIN, {"x": [4]}, cut=name)
    proto = model([node("Relu", "x", "hidden_state"), node("Exp", "hidden_state", "y")], {"x": [4]})
    with pytest.raises(WorkloadError, match="did you mean 'hidden_state'"):
        load_model(proto, cut="hiden_state")
