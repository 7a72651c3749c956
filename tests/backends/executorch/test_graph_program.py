"""Graphs of PyTorch as Programs, with specs as ExecuTorch gives them: this needs no ExecuTorch."""

from types import SimpleNamespace

import pytest

import memplace_env
from memplace_env._lib.errors import ExecutionError, WorkloadError
from memplace_env.backends.executorch import memory_planner
from memplace_env.backends.executorch.aten_work import work_of
from memplace_env.backends.executorch.graph_program import graph_program, root_of
from memplace_env.program.blocks import DEPARTURE
from memplace_env.program.program import TensorKind

torch = pytest.importorskip("torch", reason="needs the extra agents")
pytestmark = pytest.mark.filterwarnings("ignore")


class Spec(SimpleNamespace):
    """The fields of a TensorSpec that planners read; each equals itself only."""

    __eq__, __hash__ = object.__eq__, object.__hash__

    def nbytes(self):
        return self.bytes


def graph_of(network, *inputs):
    """The graph of a network whose nodes have specs."""
    program = torch.export.export(network, inputs).run_decompositions()
    nodes = list(program.graph_module.graph.nodes)
    for index, node in enumerate(nodes):
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor):
            shape, size = list(value.shape), value.numel() * value.element_size()
            const = node.name.startswith(("p_", "b_"))
            first = 0 if node.op == "placeholder" else index
            last = max([index, *(nodes.index(user) for user in node.users)])
            node.meta["spec"] = Spec(shape=shape, dtype=value.dtype, bytes=size, const=const, lifetime=[first, last])
    return program.graph_module


def test_ops_bytes_and_kinds_are_those_of_the_graph():
    layers = torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(8 * 36, 5)
    program = memplace_env.from_executorch(graph_of(torch.nn.Sequential(*layers), torch.zeros(1, 3, 8, 8)))
    assert program.gemm[program.op_type.index("convolution")].tolist() == [1, 36, 27, 8]
    assert program.gemm[program.op_type.index("addmm")].tolist() == [1, 1, 288, 5]
    assert program.vector_ops[program.op_type.index("relu")] == 288
    assert program.bytes_of(TensorKind.INPUT) == 4 * 3 * 64
    assert program.bytes_of(TensorKind.OUTPUT) == 20
    assert program.bytes_of(TensorKind.WEIGHT) == 4 * (27 * 8 + 8 + 288 * 5 + 5)


def test_lives_are_those_of_the_specs():
    network = torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Sigmoid(), torch.nn.Tanh())
    graph = graph_of(network, torch.zeros(16))
    made = graph_program(graph, "net", ends=True)
    assert made.strays == []
    assert made.program.op_type == ("Inputs", "relu", "sigmoid", "tanh", DEPARTURE)
    assert list(zip(made.program.live_start, made.program.live_end, strict=True)) == [(0, 1), (1, 2), (2, 3), (3, 4)]
    longer = next(node for node in graph.graph.nodes if "sigmoid" in node.name)
    longer.meta["spec"].lifetime[0] -= 1
    assert graph_program(graph, "net", ends=True).strays == [2]


def test_tensors_in_the_bytes_of_others_are_those():
    base = Spec(storage_base=None)
    inner = Spec(storage_base=base, storage_base_offset=16)
    assert root_of(Spec(storage_base=inner, storage_base_offset=32)) == (base, 48)
    assert root_of(Spec(_base=inner)) == (base, 16)
    graph = graph_of(torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Sigmoid()), torch.zeros(16))
    first, second = (node.meta["spec"] for node in graph.graph.nodes if node.op == "call_function")
    second.storage_base, second.storage_base_offset = first, 0
    program = memplace_env.from_executorch(graph)
    assert program.num_tensors == 2
    assert program.operands(1).tolist() == program.results(0).tolist()


def test_a_size_without_a_bound_is_refused():
    graph = graph_of(torch.nn.ReLU(), torch.zeros(16))
    next(iter(graph.graph.nodes)).meta["spec"].nbytes = lambda: int("u0")
    with pytest.raises(WorkloadError, match="without a bound"):
        memplace_env.from_executorch(graph)


@pytest.mark.parametrize(
    ("operator", "operands", "result", "options", "work"),
    [
        ("convolution", [(2, 8, 9, 9), (4, 4, 3, 3)], (2, 4, 7, 7), [False, [0], 2], ((2, 98, 36, 2), 0)),
        ("convolution", [(1, 8, 4, 4), (8, 3, 2, 2)], (1, 6, 8, 8), [True, [0], 2], ((2, 16, 4, 12), 0)),
        ("bmm", [(6, 5, 4), (6, 4, 3)], (6, 5, 3), [], ((6, 5, 4, 3), 0)),
        ("baddbmm", [(3,), (6, 5, 4), (6, 4, 3)], (6, 5, 3), [], ((6, 5, 4, 3), 0)),
        ("linear", [(2, 5, 4), (3, 4), (3,)], (2, 5, 3), [], ((1, 10, 4, 3), 0)),
        ("mean", [(2, 50)], (2,), [], ((0, 0, 0, 0), 100)),
        ("permute_copy", [(2, 50)], (50, 2), [], ((0, 0, 0, 0), 0)),
        ("cat", [], (50, 2), [], ((0, 0, 0, 0), 0)),
    ],
)
def test_work_follows_from_shapes(operator, operands, result, options, work):
    assert work_of(operator, operands, [result], options) == work


def test_another_object_is_refused():
    with pytest.raises(WorkloadError, match="or a GraphModule, not 3"):
        memplace_env.from_executorch(3)


def test_planning_without_executorch_names_the_package(monkeypatch):
    monkeypatch.setattr(memory_planner, "find_spec", lambda name: None)
    with pytest.raises(ExecutionError, match=r'pip install "memplace\[executorch\]"'):
        memory_planner.MemPlacePlanner()(16, [], None)
