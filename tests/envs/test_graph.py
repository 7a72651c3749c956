"""Graph observations: what their nodes and edges say, checkers, masks, and where they are refused."""

import warnings

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from hypothesis import given
from hypothesis import strategies as st

import memplace_env  # noqa: F401 - registers the ids
from memplace_env._lib.errors import EnvError
from memplace_env.envs.malloc_game.state import OP
from memplace_env.envs.steps.step_tables import BACKING
from tests.thorough import examples

TINY = "MemPlace-Tiny-v0", "MemPlaceSteps-Tiny-v0", "MallocGame-Tiny-v0"


def graph_env(env_id, **kwargs):
    return gym.make(env_id, observation="graph", **kwargs).unwrapped


def column(env, graph, name):
    return graph.nodes[:, env.graph_columns.index(name)]


@pytest.mark.parametrize("env_id", [*TINY, "MallocGame-Synthetic-v0", "MemPlaceSteps-Synthetic-v0"])
def test_the_checker_accepts_graphs_of_all_programs(env_id):
    env = graph_env(env_id)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(env, skip_render_check=True)
    for seed in range(5):
        graph, info = env.reset(seed=seed)
        assert graph in env.observation_space
        assert (graph.edge_links.T == env.program.edges).all()
        assert (info["action_mask"] == env.action_masks()).all()
        assert graph.nodes.shape == (env.program.num_ops, len(env.graph_columns))
    assert env.mask_slice is None


def test_edges_say_how_much_they_carry():
    env = graph_env("MemPlace-v0", workload="synthetic:diamond?ops=9&seed=1")
    program, graph = env.program, env.reset()[0]
    for edge, (producer, consumer) in zip(graph.edges[:, 0], graph.edge_links, strict=True):
        read = {use for use in np.flatnonzero(program.use_op == consumer) if not program.use_is_result[use]}
        size = sum(
            program.tensor_bytes[program.use_tensor[use]]
            for use in read
            if program.producer[program.use_tensor[use]] == producer
        )
        assert edge == pytest.approx(np.log2(1 + size) / 40)


@given(actions=st.lists(st.integers(0, 2), min_size=11, max_size=11))
@examples(20)
def test_steps_show_what_is_asked_and_what_is_decided(actions):
    env = graph_env("MemPlaceSteps-Tiny-v0")
    graph, info = env.reset()
    places = {}
    for action in actions:
        kind = ("weights", "results")[info["decision"] % 2]
        asked = {name: np.flatnonzero(column(env, graph, f"{name}_asked")).tolist() for name in ("weights", "results")}
        assert asked.pop(kind) == [info["decision"] // 2]
        assert not any(asked.values())
        before, decision = column(env, graph, "free_fast"), info["decision"]
        graph, _, over, _, info = env.step(action)
        places[decision] = info["played"]
        level = {0: "fast", 1: "middle"}.get(info["played"])
        assert level is None or column(env, graph, f"{kind}_{level}")[decision // 2] > 0
        assert (column(env, graph, "free_fast") < before).any() == (level == "fast")
    assert over
    assert all(not column(env, graph, name).any() for name in env.graph_columns if name.endswith(("asked", "open")))
    fast = sum(column(env, graph, f"{kind}_fast").astype(bool).sum() for kind in ("weights", "results"))
    assert fast == sum(level == 0 for level in places.values())
    assert set(places.values()) <= {0, 1, BACKING}


@given(seed=st.integers(0, 2**32 - 1))
@examples(20)
def test_the_game_shows_the_tensor_of_the_decision_and_fast_memory(seed):
    env, rng = (
        graph_env("MallocGame-v0", workload="synthetic:diamond?ops=6&seed=1&accelerator=tpu-v4i"),
        np.random.default_rng(seed),
    )
    (graph, info), over, program = env.reset(), False, env.program
    for use in range(program.num_uses):
        tensor, op = program.use_tensor[use], program.use_op[use]
        later = program.use_op[use + 1 :][program.use_tensor[use + 1 :] == tensor]
        assert np.flatnonzero(column(env, graph, "asked")).tolist() == [op]
        maker = program.producer[tensor]
        assert np.flatnonzero(column(env, graph, "maker")).tolist() == ([maker] if maker >= 0 else [])
        assert np.flatnonzero(column(env, graph, "reader")).tolist() == sorted(set(later.tolist()))
        assert column(env, graph, "final").sum() == env.get_state()[OP]
        action = rng.choice(np.flatnonzero(info["action_mask"]))
        graph, _, over, _, info = env.step(action)
        if program.use_is_result[use]:
            of_op = (program.producer == op) & (program.first_use < program.num_uses)
            share = program.tensor_bytes[tensor] / program.tensor_bytes[of_op].sum()
            assert (column(env, graph, "results_fast")[op] >= np.float32(share) - 1e-6) == (info["played"] != 2)
    assert over
    assert not graph.nodes[:, env.graph_columns.index("asked") :][:, :4].any()


@pytest.mark.parametrize("env_id", TINY)
def test_vectors_of_graphs_are_gymnasiums(env_id):
    with pytest.raises(EnvError, match="vectorization_mode='sync'"):
        gym.make_vec(env_id, num_envs=2, observation="graph")
    envs = gym.make_vec(env_id, num_envs=2, vectorization_mode="sync", observation="graph")
    graphs, infos = envs.reset(seed=0)
    assert infos["action_mask"].shape == (2, envs.call("action_masks")[0].size)
    graphs = envs.step(envs.action_space.sample())[0]
    assert all(graph in envs.single_observation_space for graph in graphs)
