"""The policy's forward pass against torch-geometric's layers, and policy files, sound and damaged."""

import hashlib
import json
import os
import pickle
import re
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from memplace_agents.built_in_agents import POLICY_BYTES
from memplace_agents.egrl.population import genome_of
from memplace_agents.learning import safe_files
from memplace_agents.learning.graph_policy import SUB_ACTIONS, Graph, GraphPolicy, PopulationForward
from memplace_agents.learning.policy_file import load_policy, save_policy
from memplace_env._lib.errors import AgentError
from memplace_env.envs.one_shot import OneShotProblem
from memplace_env.envs.one_shot.observation import FEATURES
from tests.references.reference_graph_policy import ReferencePolicy
from tests.strategies import programs, tasks
from tests.thorough import examples

LOWEST = torch.finfo(torch.float32).min
HIDDEN, DEPTH, HEADS = 16, 2, 2
KIND = GraphPolicy.KIND


def new_policy(seed=0, levels=3, hidden=HIDDEN, depth=DEPTH, heads=HEADS, skip=False):
    torch.manual_seed(seed)
    return GraphPolicy(levels, hidden, depth, heads, skip)


def genomes_of(policies):
    return torch.from_numpy(np.stack([genome_of(policy) for policy in policies]))


@st.composite
def graphs(draw, levels, most_ops=12):
    """Graphs with any edges, down to none, and masks that leave at least the backing memory."""
    ops = draw(st.one_of(st.integers(1, 3), st.integers(1, most_ops)))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    source, target = np.nonzero(np.triu(rng.random((ops, ops)) < draw(st.sampled_from([0.0, 0.2, 0.7, 1.0])), 1))
    mask = rng.random((ops * SUB_ACTIONS, levels)) < draw(st.sampled_from([0.3, 1.0]))
    mask[:, -1] = True
    nodes = torch.from_numpy(rng.random((ops, len(FEATURES)), dtype=np.float32))
    return Graph.read(nodes, torch.tensor(np.stack([source, target])), torch.from_numpy(mask))


@st.composite
def cases(draw):
    """A graph, and policies of one shape that play it."""
    levels, seed = draw(st.integers(2, 4)), draw(st.integers(0, 10**6))
    hidden, depth, heads = draw(st.sampled_from([4, 16])), draw(st.integers(1, 4)), draw(st.integers(1, 4))
    members, skip = draw(st.integers(1, 3)), draw(st.booleans())
    policies = [new_policy(seed + member, levels, hidden, depth, heads, skip) for member in range(members)]
    return draw(graphs(levels)), policies


# The forward pass.


@examples(40)
@given(cases())
def test_forward_is_that_of_the_reference(case):
    graph, policies = case
    logits = PopulationForward(policies[0], graph)(genomes_of(policies))
    assert logits.shape == (len(policies), *graph.mask.shape)
    for row, policy in zip(logits, policies, strict=True):
        torch.testing.assert_close(row, ReferencePolicy.of(policy)(graph), atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(row, policy(graph), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(("levels", "hidden", "depth", "heads"), [(3, 128, 4, 4), (2, 16, 2, 2), (4, 8, 1, 3)])
def test_first_weights_are_those_of_the_reference(levels, hidden, depth, heads):
    policy = new_policy(3, levels, hidden, depth, heads)
    torch.manual_seed(3)
    reference = ReferencePolicy(levels, hidden, depth, heads)
    weights = (torch.nn.utils.parameters_to_vector(module.parameters()) for module in (policy, reference))
    assert torch.equal(*weights)


@examples(12)
@given(st.data())
def test_forward_is_that_of_the_reference_on_programs(data):
    task = data.draw(tasks(programs(max_ops=8)))
    graph = Graph.of(OneShotProblem(task))
    policy = new_policy(data.draw(st.integers(0, 1000)), task.accelerator.num_levels)
    logits = PopulationForward(policy, graph)(genomes_of([policy]))[0]
    torch.testing.assert_close(logits, ReferencePolicy.of(policy)(graph), atol=1e-5, rtol=1e-5)


@examples(15)
@given(cases(), st.integers(0, 2**32 - 1))
def test_gradients_are_those_of_the_reference(case, seed):
    graph, policies = case
    weight = torch.from_numpy(np.random.default_rng(seed).normal(size=graph.mask.shape).astype(np.float32))
    weight = weight * graph.mask
    genomes = genomes_of(policies).requires_grad_()
    (PopulationForward(policies[0], graph)(genomes) * weight).sum().backward()
    for row, policy in zip(genomes.grad, policies, strict=True):
        reference = ReferencePolicy.of(policy)
        (reference(graph) * weight).sum().backward()
        gradients = [torch.zeros_like(part) if part.grad is None else part.grad for part in reference.parameters()]
        expected = torch.cat([gradient.reshape(-1) for gradient in gradients])
        torch.testing.assert_close(row, expected, atol=1e-4 * max(1.0, float(expected.abs().max())), rtol=1e-4)


def test_members_do_not_touch_each_other():
    policies = [new_policy(seed) for seed in range(4)]
    graph = Graph.read(torch.rand(7, len(FEATURES)), torch.tensor([[0, 1, 2], [1, 2, 6]]), torch.ones(14, 3))
    forward = PopulationForward(policies[0], graph)
    genomes = genomes_of(policies).requires_grad_()
    logits = forward(genomes)
    logits[2].sum().backward()
    assert (genomes.grad[[0, 1, 3]] == 0).all()
    assert (genomes.grad[2] != 0).any()
    torch.testing.assert_close(forward(genomes[[2, 0]]), logits[[2, 0]], atol=1e-5, rtol=1e-5)


@examples(10)
@given(st.integers(2, 4), st.integers(1, 4), st.integers(1, 4))
def test_genomes_hold_the_state_dict_in_its_order(levels, depth, heads):
    policies = [new_policy(seed, levels, depth=depth, heads=heads) for seed in range(2)]
    graph = Graph.read(torch.rand(2, len(FEATURES)), torch.zeros(2, 0), torch.ones(4, levels))
    forward = PopulationForward(policies[0], graph)
    genomes = genomes_of(policies)
    weights = forward.weights(genomes)
    assert list(weights) == list(policies[0].state_dict())
    for member, policy in enumerate(policies):
        for name, weight in policy.state_dict().items():
            assert torch.equal(weights[name][member], weight)
    other = new_policy(5, levels, depth=depth, heads=heads)
    torch.nn.utils.vector_to_parameters(genomes[1], other.parameters())
    assert (genome_of(other) == genomes[1].numpy()).all()


@examples(10)
@given(cases())
def test_what_is_masked_is_never_drawn(case):
    graph, policies = case
    logits = PopulationForward(policies[0], graph)(genomes_of(policies))
    assert (logits[:, ~graph.mask] == LOWEST).all()
    chances = logits.softmax(-1)
    assert (chances[:, ~graph.mask] == 0).all()
    torch.testing.assert_close(chances.sum(-1), torch.ones(chances.shape[:-1]))


@examples(15)
@given(graphs(levels=3), st.sampled_from([10.0, 100.0, 1000.0]), st.integers(0, 1000))
def test_large_weights_give_no_nan(graph, scale, seed):
    genomes = (genomes_of([new_policy(seed)]) * scale).requires_grad_()
    logits = PopulationForward(new_policy(), graph)(genomes)
    assert torch.isfinite(logits).all()
    assert torch.isfinite(logits.softmax(-1)).all()
    logits[:, graph.mask].sum().backward()
    assert torch.isfinite(genomes.grad).all()


def test_attention_over_very_different_scores_is_all_on_the_highest():
    policy = new_policy()
    with torch.no_grad():
        for head in policy.heads:
            head.source.mul_(1e6)
    graph = Graph.read(torch.rand(6, len(FEATURES)), torch.tensor([[0, 1, 2, 3, 4], [5] * 5]), torch.ones(12, 3))
    logits = PopulationForward(policy, graph)(genomes_of([policy]))[0]
    assert torch.isfinite(logits).all()
    torch.testing.assert_close(logits, ReferencePolicy.of(policy)(graph), atol=1e-5, rtol=1e-5)


# Files.


def refused(path, match=None):
    """The one sentence with which a file is refused."""
    with pytest.raises(AgentError, match=match) as caught:
        load_policy(path, GraphPolicy)
    text = str(caught.value)
    assert str(path) in text
    assert "\n" not in text
    assert text.endswith(".")
    return text


def test_policies_come_back_as_they_were(tmp_path):
    path, policy = tmp_path / "new" / "folder" / "policy.pt", new_policy(3, levels=4, depth=3)
    save_policy(path, policy, ["ResNet50"])
    other = load_policy(path, GraphPolicy)
    assert other.options == policy.options
    assert (genome_of(other) == genome_of(policy)).all()
    assert safe_files.load(path, KIND)["trained_on"] == ["ResNet50"]
    assert [file.name for file in path.parent.iterdir()] == ["policy.pt"]


class Bomb:
    """Unpickling it writes a file."""

    def __init__(self, target):
        self.target = target

    def __reduce__(self):
        return Path.write_text, (self.target, "ran")


def test_a_file_that_would_run_code_does_not(tmp_path):
    target, path = tmp_path / "ran", tmp_path / "policy.pt"
    pickle.loads(pickle.dumps(Bomb(target)))
    assert target.read_text() == "ran"
    target.unlink()
    path.write_bytes(pickle.dumps(Bomb(target)))
    refused(path, "damaged")
    torch.save(Bomb(target), path)
    refused(path, "a file of torch or of an older memplace")
    assert not target.exists()


def framed(header, body=b""):
    """A file with that header, and no checksum."""
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(raw).to_bytes(8, "little") + raw + body


@pytest.mark.parametrize(
    "raw",
    [
        *(b"", b"no file at all", b"\x80\x02.", pickle.dumps({"format": "memplace"}), b"PK\x03\x04" + bytes(80)),
        *((2**63).to_bytes(8, "little"), framed(b""), framed(b"["), framed(b"[" * 10**5), framed(b"[]"), framed({})),
        framed({"__metadata__": None}),
        framed({"__metadata__": {"format": "memplace", "kind": 3}}),
        framed({"__metadata__": {"format": "memplace", "kind": KIND}}),
        framed({"__metadata__": {"format": "memplace", "kind": KIND, "sha256": "\ud800" * 64, "content": "{}"}}),
    ],
)
def test_other_files_are_refused(raw, tmp_path):
    path = tmp_path / "policy.pt"
    path.write_bytes(raw)
    refused(path)


def test_what_is_no_policy_is_refused(tmp_path):
    path = tmp_path / "policy.pt"
    refused(path, "There is no file")
    refused(tmp_path)
    torch.save(new_policy().state_dict(), path)
    refused(path, "older memplace")
    path.write_bytes(framed({"weight": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}, bytes(4)))
    refused(path, "not a file of memplace")
    safe_files.save(path, "egrl-run/2", {})
    refused(path, "'egrl-run/2', where 'graph-policy/4' is needed")


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.9, 0.999])
def test_truncated_files_are_refused(share, tmp_path):
    path = tmp_path / "policy.pt"
    save_policy(path, new_policy())
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * len(whole))])
    refused(path, "damaged")


def test_damage_is_noticed(tmp_path):
    path, rng = tmp_path / "policy.pt", np.random.default_rng(0)
    save_policy(path, new_policy(hidden=4, depth=1, heads=1))
    whole = np.frombuffer(path.read_bytes(), dtype=np.uint8)
    for _ in range(150):
        raw = whole.copy()
        at = rng.choice(len(raw), size=rng.integers(1, 30), replace=False)
        raw[at] ^= rng.integers(1, 256, size=len(at), dtype=np.uint8)
        path.write_bytes(raw.tobytes())
        refused(path)


@pytest.mark.parametrize(
    "change",
    [
        *({name: value} for name in ("levels", "hidden", "depth") for value in (0, -1, 10**9, 2.5, "3", None, True)),
        {"hidden": 2048, "depth": 64},
        {"depth": 3},
        {"attention_heads": 0},
        {"lean": 1},
        {"unknown": 3},
    ],
)
def test_options_out_of_range_are_refused(change, tmp_path):
    path, policy = tmp_path / "policy.pt", new_policy()
    safe_files.save(path, KIND, {"options": policy.options | change, "weights": policy.state_dict()})
    refused(path, "does not hold the weights of a graph policy")


def test_weights_that_do_not_fit_are_refused(tmp_path):
    path, policy = tmp_path / "policy.pt", new_policy()
    weights = policy.state_dict()
    fewer = dict(list(weights.items())[1:])
    name, weight = next(iter(weights.items()))
    strange = [weight.double(), weight[None], torch.full_like(weight, torch.nan), weight.clone()]
    strange[3].view(-1)[0] = -torch.inf
    others = [None, {}, [1], fewer, dict.fromkeys(weights, 1), weights | {"more": torch.zeros(1)}]
    for other in others + [weights | {name: value} for value in strange]:
        safe_files.save(path, KIND, {"options": policy.options, "weights": other})
        refused(path, "does not hold the weights")
    for options in (None, {}, "text", [1]):
        safe_files.save(path, KIND, {"options": options, "weights": weights})
        refused(path, "does not hold the weights")


def test_pipes_and_large_files_are_not_read(tmp_path):
    path = tmp_path / "policy.pt"
    os.mkfifo(path)
    refused(path, "it is a pipe")
    path.unlink()
    with path.open("wb") as file:
        file.truncate(POLICY_BYTES + 1)
    refused(path, "the limit is")


def test_what_a_small_file_claims_takes_no_memory(tmp_path):
    path, policy = tmp_path / "policy.pt", new_policy(hidden=4, depth=1, heads=1)
    safe_files.save(
        path, KIND, {"options": policy.options | {"hidden": 4096, "depth": 9}, "weights": policy.state_dict()}
    )
    tracemalloc.start()
    refused(path, "does not hold")
    assert tracemalloc.get_traced_memory()[1] < 10**7
    tracemalloc.stop()


def test_layers_without_weights_are_not_built(tmp_path, monkeypatch):
    path, policy = tmp_path / "policy.pt", new_policy(hidden=4, depth=1, heads=1)
    safe_files.save(path, KIND, {"options": policy.options | {"depth": 4096}, "weights": policy.state_dict()})
    monkeypatch.setattr(type(policy), "__init__", lambda self, **options: pytest.fail("it was built"))
    refused(path, "does not hold")


TENSORS = {"a": torch.arange(6.0).reshape(2, 3), "b": torch.tensor([True]), "c": torch.zeros(0, 2, dtype=torch.int64)}


@pytest.mark.parametrize(
    ("name", "change"),
    [
        *(
            ("a", {"shape": shape})
            for shape in ([6, 2], [2], [2, -3], [2, 3.0], [2, True, 3], [1] * 9 + [6], None, "23")
        ),
        *(
            ("a", {"data_offsets": where})
            for where in ([0, 20], [8, 32], [0, 24, 24], [24, 0], [0.5, 24], None, [0, 2**70])
        ),
        *(("a", {"dtype": dtype}) for dtype in ("F64", "C64", "F8", None, [], 3)),
        ("c", {"shape": [0, 2**62]}),
        ("d", {"dtype": "F32", "shape": [2**30], "data_offsets": [25, 2**32 + 25]}),
        ("d", {"dtype": "F32", "shape": [0], "data_offsets": [24, 24]}),
    ],
)
def test_headers_that_do_not_fit_the_file_are_refused(name, change, tmp_path):
    """Change the content and give it a checksum that fits."""
    raw = safe_files.encoded("x/1", TENSORS)
    size = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8 : 8 + size])
    given = header["__metadata__"].pop("sha256")
    assert len(given) == 64
    header["__metadata__"]["sha256"] = "0" * 64
    header[name] = header.get(name, {}) | change
    plain = framed(header, raw[8 + size :])
    digest = hashlib.sha256(plain).hexdigest()
    path = tmp_path / "x.pt"
    path.write_bytes(plain.replace(b"0" * 64, digest.encode(), 1))
    with pytest.raises(AgentError, match="is damaged"):
        safe_files.load(path, "x/1")


def test_content_comes_back_as_it_was(tmp_path):
    path, content = (
        tmp_path / "x.pt",
        {"tensors": [TENSORS, (1, None)], "text": "tensor", "float": 0.1, "whole": 2**130},
    )
    safe_files.save(path, "x/1", content)
    back = safe_files.load(path, "x/1")
    assert back["tensors"][1] == [1, None]
    assert {name: back[name] for name in ("text", "float", "whole")} == {
        name: content[name] for name in ("text", "float", "whole")
    }
    for name, tensor in TENSORS.items():
        assert torch.equal(back["tensors"][0][name], tensor)
        assert back["tensors"][0][name].dtype == tensor.dtype


def test_a_write_that_fails_leaves_the_old_file(tmp_path, monkeypatch):
    path, policy = tmp_path / "policy.pt", new_policy(1)
    save_policy(path, policy)

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr("memplace_env._lib.files.os.replace", fail)
    with pytest.raises(OSError, match=re.escape("disk full")):
        save_policy(path, new_policy(2))
    assert (genome_of(load_policy(path, GraphPolicy)) == genome_of(policy)).all()
    assert [file.name for file in tmp_path.iterdir()] == ["policy.pt"]
