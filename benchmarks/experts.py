"""Measure a large mixture of experts in the forms that exporters give it: its weights, and its data at once.

    python -m benchmarks.experts                          # a table
    python -m benchmarks.experts --write docs/programs.md

The network has the sizes of Mixtral 8x7B (arXiv:2401.04088): 32 blocks of 8 experts, of which each token takes 2. Its
graphs have shapes and no weights, at one sequence of 512 tokens, in int8 and fused as on `nnp-i`. They differ in how an
expert gets its tokens, as PyTorch's exporter writes the ways in which transformers computes experts.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from benchmarks.tables import benchmark_parser, markdown_table, publish
from memplace_env.program.frontends.onnx import load_onnx
from memplace_env.program.program import Program, TensorKind
from memplace_env.report.quantities import count, size

BLOCKS, EXPERTS, CHOSEN = 32, 8, 2
FEATURES, INNER, CACHED = 4096, 14336, 1024
WORDS, TOKENS = 32_000, 512
SHARE: Final = TOKENS * CHOSEN // EXPERTS
"""Tokens of an expert that gets an equal share of them."""


class Graph:
    """Nodes, weights without contents, and small constants of a graph that is written node by node."""

    def __init__(self) -> None:
        self.nodes: list[NodeProto] = []
        self.stored: list[TensorProto] = []

    def op(self, op_type: str, *inputs: str, **attributes: object) -> str:
        """Add a node and return the name of its only result."""
        name = f"{op_type.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op_type, inputs, [name], name=name, **attributes))
        return name

    def weight(self, *dims: int) -> str:
        """Add a weight without contents."""
        self.stored.append(TensorProto(name=f"w{len(self.stored)}", dims=dims, data_type=TensorProto.FLOAT))
        return str(self.stored[-1].name)

    def numbers(self, *numbers: int) -> str:
        """Add a list of integers."""
        self.stored.append(numpy_helper.from_array(np.array(numbers), f"c{len(self.stored)}"))
        return str(self.stored[-1].name)


def expert(graph: Graph, x: str) -> str:
    """Add a gated expert over some tokens."""
    gate, up = (graph.op("MatMul", x, graph.weight(FEATURES, INNER)) for _ in range(2))
    gated = graph.op("Mul", graph.op("Mul", gate, graph.op("Sigmoid", gate)), up)
    return graph.op("MatMul", gated, graph.weight(INNER, FEATURES))


def all_tokens(graph: Graph, x: str, scores: str, chosen: str) -> str:
    """Add experts that compute all tokens each, weighted by scores that are mostly 0."""
    total = ""
    for number in range(EXPERTS):
        mine = graph.op("Gather", scores, graph.numbers(number), axis=1)
        weighted = graph.op("Mul", expert(graph, x), mine)
        total = graph.op("Add", total, weighted) if total else weighted
    return total


def own_tokens(graph: Graph, x: str, scores: str, chosen: str) -> str:
    """Add experts that compute the tokens that were routed to them: the data decide how many."""
    total = graph.op("Sub", x, x)
    for number in range(EXPERTS):
        mine = graph.op("Equal", chosen, graph.numbers(number))
        places = graph.op("Transpose", graph.op("NonZero", mine), perm=[1, 0])
        rows = graph.op("Slice", places, graph.numbers(0), graph.numbers(1), graph.numbers(1))
        share = graph.op("Unsqueeze", graph.op("GatherND", f"{chosen}_scores", places), graph.numbers(1))
        done = graph.op("Mul", expert(graph, graph.op("GatherND", x, rows)), share)
        total = graph.op("ScatterND", total, rows, done, reduction="add")
    return total


def own_matrices(graph: Graph, x: str, scores: str, chosen: str) -> str:
    """Add products of each token with copies of the matrices of its experts."""
    both = graph.op("Gather", graph.weight(EXPERTS, 2 * INNER, FEATURES), chosen)
    gate_up = graph.op("Einsum", x, both, equation="th,tkfh->tkf")
    gate = graph.op("Slice", gate_up, graph.numbers(0), graph.numbers(INNER), graph.numbers(2))
    up = graph.op("Slice", gate_up, graph.numbers(INNER), graph.numbers(2 * INNER), graph.numbers(2))
    gated = graph.op("Mul", graph.op("Mul", gate, graph.op("Sigmoid", gate)), up)
    down = graph.op("Gather", graph.weight(EXPERTS, FEATURES, INNER), chosen)
    return graph.op("Einsum", gated, down, equation="tkf,tkhf->th")


FORMS: Final[Mapping[str, Callable[[Graph, str, str, str], str]]] = {
    "each expert all tokens": all_tokens,
    "each expert its tokens (NonZero)": own_tokens,
    "each token its matrices": own_matrices,
}


def mixture(form: Callable[[Graph, str, str, str], str]) -> ModelProto:
    """Return the whole network with one form of its experts."""
    graph = Graph()
    x = graph.op("Gather", graph.weight(WORDS, FEATURES), "ids")
    for _ in range(BLOCKS):
        normal = graph.op("RMSNormalization", x, graph.weight(FEATURES))
        q, k, v = (graph.op("MatMul", normal, graph.weight(FEATURES, n)) for n in (FEATURES, CACHED, CACHED))
        batched = [graph.op("Unsqueeze", part, graph.numbers(0)) for part in (q, k, v)]
        heads = {"q_num_heads": FEATURES // 128, "kv_num_heads": CACHED // 128}
        mixed = graph.op("Squeeze", graph.op("Attention", *batched, **heads), graph.numbers(0))
        x = graph.op("Add", x, graph.op("MatMul", mixed, graph.weight(FEATURES, FEATURES)))
        normal = graph.op("RMSNormalization", x, graph.weight(FEATURES))
        scores = graph.op("Softmax", graph.op("MatMul", normal, graph.weight(FEATURES, EXPERTS)))
        name = f"chosen_{len(graph.nodes)}"
        graph.nodes.append(helper.make_node("TopK", [scores, graph.numbers(CHOSEN)], [f"{name}_scores", name]))
        x = graph.op("Add", x, form(graph, normal, scores, name))
    graph.op("MatMul", graph.op("RMSNormalization", x, graph.weight(FEATURES)), graph.weight(FEATURES, WORDS))
    ids = helper.make_tensor_value_info("ids", TensorProto.INT64, [TOKENS])
    result = helper.make_tensor_value_info(graph.nodes[-1].output[0], TensorProto.FLOAT, [TOKENS, WORDS])
    proto = helper.make_graph(graph.nodes, "mixture", [ids], [result], graph.stored)
    return helper.make_model(proto, opset_imports=[helper.make_opsetid("", 23)], ir_version=11)


def loaded(form: str) -> Program:
    """Return the Program of the network with one of the `FORMS`."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "mixture.onnx"
        proto = mixture(FORMS[form])
        path.write_bytes(proto.SerializeToString())
        found = [node.output[0] for node in proto.graph.node if node.op_type == "NonZero"]
        return load_onnx(path, dtype="int8", dims={f"{name}[1]": SHARE for name in found})


def main() -> None:
    options = benchmark_parser(__doc__).parse_args()
    rows = []
    for form in FORMS:
        program = loaded(form)
        largest = max(program.tensor_bytes[program.tensor_kind == TensorKind.ACTIVATION])
        measured = program.bytes_of(TensorKind.WEIGHT), program.live_bytes.max(), largest
        rows.append([form, str(program.num_ops), count(int(program.macs.sum())), *(size(int(n)) for n in measured)])
    heads = ["form", "ops", "MACs", "weights", "most alive", "largest tensor"]
    publish({"experts": markdown_table(heads, rows)}, options.write)


if __name__ == "__main__":
    main()
