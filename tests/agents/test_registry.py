"""The one list of agents: what it says of each is so, and third parties' agents stand in it like our own."""

import inspect
import json
import os
import subprocess
import sys
from dataclasses import is_dataclass

import gymnasium as gym
import pytest
from torch import nn

import memplace_agents
from memplace_agents import built_in_agents
from memplace_agents.learning.learning_agent import LearningAgent
from memplace_agents.registry import DEFAULTS, agent_spec, agent_specs, make_agent
from memplace_agents.search.agent import Agent
from memplace_env._lib.errors import AgentError
from memplace_env.envs.registration import Formulation
from memplace_env.placement.validation import violations
from tests.agents import third_party
from tests.offenders import every

SPECS = agent_specs()
LEARNERS = {name: spec for name, spec in SPECS.items() if spec.learns}
EXTRAS = {"torch", "tensorboard", "stable_baselines3", "sb3_contrib", "matplotlib", "ray"}
"""Modules that memplace does without."""
FIRST = " (without a GPU, first: pip install torch --index-url https://download.pytorch.org/whl/cpu)"
HERE = "tests.agents.third_party"
ENVS = {
    "one-shot": ("MemPlace-v0", "synthetic:chain?ops=4&seed=1"),
    "game": ("MallocGame-v0", "synthetic:chain?ops=4&seed=1&accelerator=tpu-v4i"),
    "steps": ("MemPlaceSteps-v0", "synthetic:chain?ops=4&seed=1"),
    "dynamic": ("MemPlace-v0", "synthetic:chain?ops=4&seed=1"),
}


def options_of(spec):
    return inspect.signature(class_of(spec)).parameters


def class_of(spec):
    return type(spec.make())


def small_env(formulation):
    env_id, workload = ENVS[formulation]
    return gym.make(env_id, workload=workload)


def one_sentence(error):
    text = str(error.value)
    assert "\n" not in text
    assert text[-1] in ".?"


# Our own.


@every("name", SPECS)
def test_rows_say_what_the_classes_say(name):
    spec, kind = SPECS[name], class_of(SPECS[name])
    assert issubclass(kind, Agent)
    assert kind.name == name == spec.name
    assert spec.formulations
    assert set(spec.formulations) <= set(kind.formulations)
    assert spec.summary
    assert "\n" not in spec.summary
    assert spec.missing_packages is None
    assert getattr(memplace_agents, kind.__name__) is kind


@every("name", SPECS)
def test_rows_say_what_can_be_passed(name):
    spec, options = SPECS[name], options_of(SPECS[name])
    assert ("out" in options) == spec.learns
    assert ("resume" in options) == ("every" in options) == spec.resumes
    assert ("config" in options) == (spec.configs is not None)
    assert issubclass(class_of(spec), LearningAgent) == spec.multi_env == hasattr(class_of(spec), "train")
    assert spec.learns or not (spec.multi_env or spec.resumes or spec.configs)
    if spec.learns:
        assert "policy" in options


@every("name", SPECS)
def test_named_settings_are_settings_of_that_agent(name):
    spec = SPECS[name]
    assert bool(spec.named_settings) == (spec.configs is not None)
    for setting, value in spec.named_settings.items():
        assert is_dataclass(value), setting
        assert spec.make(config=value).config == value
    if spec.named_settings:
        assert spec.make().config == spec.named_settings["default"]


@pytest.mark.parametrize("name", LEARNERS)
def test_learners_keep_and_take_policies(name, tmp_path):
    spec = SPECS[name]
    for formulation in spec.formulations:
        env, folder = small_env(formulation), tmp_path / formulation
        spec.make(out=folder).solve(env, budget=2)
        assert (folder / "policy.pt").exists()
        assert (folder / "checkpoint.pt").exists() == spec.resumes
        assert spec.make(policy=folder / "policy.pt").solve(env, budget=2).plan is not None
        if spec.resumes:
            assert spec.make(out=folder, resume=True).solve(env, budget=4).evaluations == 4


@pytest.mark.parametrize("name", LEARNERS)
def test_no_other_network_is_trained_in_place_of_a_given_one(name):
    """An agent trains networks of its own class, which it makes anew from options and weights."""
    kind = class_of(SPECS[name])
    other = type("Other", (kind.network,), {})
    for policy in (3, nn.Linear(1, 1), other.__new__(other), kind.network):
        with pytest.raises(AgentError, match=rf"policy is the path of a policy or a {kind.network.__name__}, which "):
            kind(policy=policy)
    inherits = type("Inherits", (kind,), {"network": other})
    with pytest.raises(AgentError, match="Inherits names the network Other, and the run that it inherits trains "):
        inherits()
    own = type("Own", (kind,), {"network": other, "new_run": lambda *_: None})
    assert own(policy=other.__new__(other)).policy is not None


IMPORTS = f"""
import json, sys, tempfile
import gymnasium as gym
from memplace_agents.registry import agent_specs
extras, envs = {sorted(EXTRAS)}, {ENVS}
imported = [[name for name in extras if name in sys.modules]]
for name in sys.argv[1:]:
    spec = agent_specs()[name]
    with tempfile.TemporaryDirectory() as folder:
        agent = spec.make(**(dict(out=folder) if spec.learns else {{}}))
        for env_id, workload in (envs[formulation] for formulation in spec.formulations):
            agent.solve(gym.make(env_id, workload=workload), budget=1)
imported.append([name for name in extras if name in sys.modules])
print(json.dumps(imported))
"""


def modules_after(*names):
    """The extras that a fresh process has imported after these agents have searched and kept what they learned."""
    run = subprocess.run([sys.executable, "-c", IMPORTS, *names], capture_output=True, text=True, check=True)
    before, after = json.loads(run.stdout.splitlines()[-1])
    assert before == []
    return set(after)


def test_what_needs_nothing_imports_nothing():
    assert modules_after(*(name for name, spec in SPECS.items() if not spec.needs)) == set()


@pytest.mark.parametrize("names", [("egrl", "muzero", "plan-gradient"), ("ppo",)], ids=" ".join)
def test_what_needs_something_imports_just_that(names):
    assert [modules_after(*names)] * len(names) == [set(SPECS[name].needs) for name in names]


def test_missing_packages_are_named_with_what_to_type(monkeypatch):
    monkeypatch.setattr(built_in_agents, "find_spec", lambda module: None if module.startswith("torch") else module)
    assert SPECS["random"].missing_packages is None
    assert SPECS["muzero"].missing_packages == f'muzero needs torch: pip install "memplace[agents]"{FIRST}'
    assert (
        SPECS["plan-gradient"].missing_packages == f'plan-gradient needs torch: pip install "memplace[agents]"{FIRST}'
    )


WITHOUT = """
import sys
sys.modules["torch"] = None
from memplace_agents import Portfolio, make_agent
for make in (lambda: make_agent("muzero"), lambda: make_agent("portfolio", policy="policy.pt")):
    try:
        make()
    except Exception as error:
        print(type(error).__name__, error)
"""


def test_an_agent_without_its_packages_is_one_sentence():
    run = subprocess.run(
        [sys.executable, "-c", WITHOUT], capture_output=True, text=True, check=True, env={**os.environ}
    )
    first, second = run.stdout.splitlines()
    assert first == f'AgentError muzero needs torch: pip install "memplace[agents]"{FIRST}'
    assert second == 'AgentError portfolio needs torch, which is not installed; run: pip install "memplace[agents]".'


def test_defaults_play_their_formulation_and_need_nothing():
    assert set(Formulation) - set(DEFAULTS) == {Formulation.STEPS}
    for formulation, name in DEFAULTS.items():
        assert name in agent_specs(formulation)
        assert SPECS[name].needs == ()


def test_lists_of_a_formulation_are_parts_of_the_whole():
    assert list(SPECS) == list(agent_specs())
    for formulation in Formulation:
        expected = {name: spec for name, spec in SPECS.items() if formulation in spec.formulations}
        assert agent_specs(formulation) == expected


@every(("typed", "meant"), [("exakt", "'exact'"), ("EGRL", "egrl"), ("", "random"), ("???", "muzero")])
def test_unknown_names_get_one_sentence(typed, meant):
    with pytest.raises(AgentError, match=meant) as caught:
        make_agent(typed)
    one_sentence(caught)


# Third parties'.


def test_an_installed_agent_is_one_of_the_list(monkeypatch):
    third_party.install(monkeypatch, theirs=f"{HERE}:Theirs", player=f"{HERE}:Player")
    assert list(agent_specs()) == [*SPECS, "player", "theirs"]
    spec = agent_spec("theirs")
    assert (spec.summary, spec.formulations, spec.learns) == (
        "Random maps, sixteen at a time.",
        (Formulation.ONE_SHOT,),
        False,
    )
    assert "theirs" in agent_specs(Formulation.ONE_SHOT)
    assert "theirs" not in agent_specs(Formulation.GAME)
    assert list(agent_specs(Formulation.GAME))[-1] == "player"


def test_an_installed_agent_solves(monkeypatch):
    third_party.install(monkeypatch, theirs=f"{HERE}:Theirs", player=f"{HERE}:Player")
    env, game = small_env(Formulation.ONE_SHOT), small_env(Formulation.GAME)
    solution = memplace_agents.make_agent("theirs").solve(env, budget=50, seed=3)
    assert (solution.agent, solution.evaluations, solution.seed, solution.outcome) == ("theirs", 50, 3, "feasible")
    assert violations(env.unwrapped.task, solution.plan) == []
    played = memplace_agents.make_agent("player", games=3).solve(game, budget=10)
    assert (played.agent, played.evaluations) == ("player", 10)
    assert violations(game.unwrapped.task, played.plan) == []
    with pytest.raises(AgentError, match="one-shot"):
        memplace_agents.make_agent("theirs").solve(game)


def test_what_entry_points_may_say_works(monkeypatch):
    third_party.install(monkeypatch, nested=f"{HERE}:Package.Inner", extra=f"{HERE}:Theirs [agents]")
    nested = agent_spec("nested")
    assert (nested.summary, nested.learns, len(nested.formulations)) == (f"{HERE}:Package.Inner", True, 2)
    for name in ("nested", "extra"):
        assert isinstance(make_agent(name), third_party.Theirs)


@pytest.fixture
def broken(tmp_path, monkeypatch):
    """Homes of agents that cannot be loaded, each in its own way."""
    (tmp_path / "raises_at_import.py").write_text("raise RuntimeError('no licence')\n")
    (tmp_path / "no_python.py").write_text("def (\n")
    monkeypatch.syspath_prepend(tmp_path)
    homes = {
        "missing": "no_such_package_at_all:Agent",
        "raises": "raises_at_import:Agent",
        "syntax": "no_python:Agent",
        "nameless": f"{HERE}:Nobody",
        "nonsense": "not a home",
        "confused": f"{HERE}:Confused",
    }
    third_party.install(monkeypatch, theirs=f"{HERE}:Theirs", **homes)
    return homes


def test_broken_agents_do_not_end_the_list(broken):
    specs = agent_specs()
    assert set(specs) == {*SPECS, *broken, "theirs"}
    for name in broken:
        assert specs[name].summary.startswith("cannot be loaded: ")
    assert "no licence" in specs["raises"].summary
    assert specs["theirs"].make()


@every("name", ["missing", "raises", "syntax", "nameless", "nonsense"])
def test_broken_agents_are_one_sentence_when_made(broken, name):
    with pytest.raises(AgentError, match=f"^{name} cannot be loaded \\(.*\\); install it anew\\.$") as caught:
        make_agent(name)
    one_sentence(caught)


def test_a_class_that_is_not_found_is_no_installation():
    with pytest.raises(
        AgentError, match=r"^nowhere:A cannot be loaded \(.*\); it is looked for here and among"
    ) as caught:
        make_agent("nowhere:A")
    one_sentence(caught)


def test_what_is_missing_when_an_agent_is_made_is_named(monkeypatch):
    third_party.install(monkeypatch, lazy=f"{HERE}:Lazy")
    assert agent_spec("lazy").summary == "Finds out too late what it lacks."
    with pytest.raises(AgentError, match=r"lazy cannot be loaded .*a_package_that_nobody_has"):
        make_agent("lazy")


def test_ours_wins_where_names_clash(monkeypatch):
    third_party.install(monkeypatch, random=f"{HERE}:Impostor", exact="no_such_package_at_all:Agent")
    assert agent_specs() == SPECS
    assert type(make_agent("random")) is memplace_agents.RandomSearch
    assert type(make_agent("exact")) is memplace_agents.Exact
