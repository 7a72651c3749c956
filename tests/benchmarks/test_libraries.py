"""Glue code of other people's libraries: its arguments exist, and two libraries train by it."""

import ast

import gymnasium as gym
import numpy as np

from benchmarks.experiments.libraries import LIBRARIES, code_lines
from benchmarks.experiments.library_trial import trial
from tests.offenders import every

GAME = "MallocGame-BERT-v0"
RANDOM_PLAY = 2.3
"""Mean return of random legal play, in percent; rounded up."""


def calls(source, name):
    """Return the calls of a function or method of that name in a source."""
    nodes = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call))
    return [node for node in nodes if getattr(node.func, "attr", getattr(node.func, "id", "")) == name]


def arguments(source):
    """Return the arguments that a glue file passes to the environment."""
    for call in calls(source, "make_vec"):
        return {word.arg: ast.literal_eval(word.value) for word in call.keywords if word.arg != "num_envs"}
    for call in calls(source, "environment"):
        return next(ast.literal_eval(word.value) for word in call.keywords if word.arg == "env_config")
    return {}


@every("library", LIBRARIES)
def test_arguments_and_masks_are_those_of_the_game(library):
    env = gym.make_vec(GAME, num_envs=2, **arguments(library.source))
    observations, _ = env.reset(seed=0)
    for node in ast.parse(library.source).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "MASK":
            assert ast.unparse(node.value) == "MallocGameEnv.mask_slice"
            mask = env.unwrapped.mask_slice
            for _ in range(40):
                assert np.array_equal(observations[:, mask] > 0, env.action_masks())
                observations = env.step(env.action_masks().argmax(-1))[0]


def test_masks_of_steps_are_where_the_page_says():
    env = gym.make_vec("MemPlaceSteps-Tiny-v0", num_envs=2, observation="flat")
    observations, _ = env.reset(seed=0)
    for _ in range(20):
        assert np.array_equal(observations[:, 0:3] > 0, env.action_masks())
        observations = env.step(env.action_masks().argmax(-1))[0]


@every("library", LIBRARIES)
def test_every_glue_file_has_one_entry(library):
    functions = [node for node in ast.parse(library.source).body if isinstance(node, ast.FunctionDef)]
    train = next(function for function in functions if function.name == "train")
    assert [argument.arg for argument in train.args.args] == ["env_id", "steps", "seed"]


def test_training_with_masks_reaches_more_than_random_play():
    record = trial("with_sb3_contrib", GAME, steps=51_200, seconds=1e9, seed=0)
    assert record["steps"] == 51_200
    assert record["episodes"] >= 64
    assert record["last"] > RANDOM_PLAY


def test_training_without_masks_takes_its_steps():
    assert trial("with_sb3", GAME, steps=10_240, seconds=1e9, seed=0)["steps"] >= 10_240


def test_lines_are_those_with_code():
    body = '    """Return."""\n    # nothing\n    return x\n'
    source = f'"""A file."""\n\nimport os  # of the system\n\n\ndef f(\n    x,\n):\n{body}'
    assert code_lines(source) == 5
