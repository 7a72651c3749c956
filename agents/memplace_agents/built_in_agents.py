"""The agents of this package as data, read without loading any of them.

A row is the one home of an agent's name and formulations: `Agent` copies both to the class.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from importlib.util import find_spec
from inspect import signature
from typing import Any

from memplace_env._lib.errors import AgentError
from memplace_env._lib.hints import instead
from memplace_env._lib.lazy import missing
from memplace_env._lib.threads import cached_property
from memplace_env.envs.registration import Formulation

CPU_TORCH = "pip install torch --index-url https://download.pytorch.org/whl/cpu"
"""Command that installs PyTorch without CUDA; as a dependency it comes with several GB of it."""
_TORCH = ("torch", "tensorboard")

_ONE_SHOT, _GAME, _DYNAMIC = (Formulation.ONE_SHOT,), (Formulation.GAME,), (Formulation.DYNAMIC,)
BOTH = (*_ONE_SHOT, *_GAME)

CHECKPOINT, POLICY, CURVES = "checkpoint.pt", "policy.pt", "tensorboard"
"""Two files and a folder of TensorBoard's that learning agents write into the folder `out`."""
POLICY_BYTES, CHECKPOINT_BYTES = 2**28, 2**32
"""Largest files that are read: the largest policy that our agents train by default has 2 MB, and a checkpoint may hold
MuZero's replays of twenty programs."""


@dataclass(frozen=True)
class AgentSpec:
    """Description of an agent that is not loaded yet.

    Attributes:
        name: its name on the command line.
        entry_point: "module:Class" from which it is loaded.
        formulations: environments for which it is listed.
        summary: one line for lists of agents.
        needs: modules that it imports beyond the dependencies of memplace itself.
        learns: True if it trains a policy while it searches, and takes `policy=` and `out=`.
        prior: True if it does not learn a policy but takes one of other programs as `policy=`.
        multi_env: True if it trains one policy on several environments at once, by `train(envs, ...)`.
        samples_programs: True if it also trains on environments that draw their programs.
        resumes: True if it writes checkpoints to `out` and continues from them with `resume=True`.
        breaks_ties: True if it takes `tie_break=`.
        reuses_machine: True if it takes `machine=`, what was learned of a machine on other programs.
        configs: "module:NAME" of its named settings, dataclasses for `config=`; None if it has none.
    """

    name: str
    entry_point: str
    formulations: tuple[Formulation, ...]
    summary: str
    needs: tuple[str, ...] = ()
    learns: bool = False
    prior: bool = False
    multi_env: bool = False
    samples_programs: bool = False
    resumes: bool = False
    breaks_ties: bool = False
    reuses_machine: bool = False
    configs: str | None = None

    @property
    def missing_packages(self) -> str | None:
        """Clause that names the missing packages and the command that installs them; None if nothing is missing."""
        absent = [module for module in self.needs if find_spec(module) is None]
        if not absent:
            return None
        cpu = f" (without a GPU, first: {CPU_TORCH})" if "torch" in absent else ""
        return f'{self.name} needs {" and ".join(absent)}: pip install "memplace[agents]"{cpu}'

    def make(self, **options: Any) -> Any:
        """Load the class and return an `Agent` with these options.

        Raises:
            AgentError: if its packages are missing or broken, or an option makes no sense.
        """
        try:
            kind = load(self.entry_point)
        except Exception as error:  # a third party's module may raise anything
            raise self._broken(error) from error
        if isinstance(config := options.get("config"), str):
            if config not in self.named_settings:
                raise AgentError(
                    f"{self.name} has no settings called {config!r}; {instead(config, self.named_settings)}"
                )
            options["config"] = self.named_settings[config]
        if not callable(getattr(kind, "solve", None)):
            raise AgentError(f"{self.entry_point} is not an agent: it needs name, formulations and solve(env, ...).")
        try:
            signature(kind).bind(**options)
            return kind(**options)
        except ImportError as error:
            raise self._broken(error) from error
        except TypeError as error:
            raise AgentError(f"{self.name} cannot be made with {options or 'no options'}: {error}.") from error

    def _broken(self, error: Exception) -> AgentError:
        if isinstance(error, ModuleNotFoundError) and self in BUILT_IN and not self.missing_packages:
            return AgentError(missing(self.name, error))
        remedy = "it is looked for here and among installed packages" if ":" in self.name else "install it anew"
        return AgentError(self.missing_packages or f"{self.name} cannot be loaded ({error}); {remedy}.")

    @cached_property
    def named_settings(self) -> Mapping[str, Any]:
        """Named settings for `config=`; empty if the agent has none."""
        settings: Mapping[str, Any] = load(self.configs) if self.configs else {}
        return settings

    def describes(self, kind: type) -> bool:
        """Return whether the class is the one that `entry_point` names, wherever in that package it is defined."""
        module, _, name = self.entry_point.partition(":")
        return kind.__qualname__ == name and f"{kind.__module__}.".startswith(f"{module}.")


BUILT_IN = (
    AgentSpec(
        "auto",
        "memplace_agents.auto:Auto",
        _ONE_SHOT,
        "rules, exact, then local search until proven optimal; calibrated for black boxes",
        breaks_ties=True,
    ),
    AgentSpec(
        "egrl",
        "memplace_agents.egrl:EGRL",
        _ONE_SHOT,
        "a policy learned on a surrogate, then annealing; the paper's evolution and policy gradients beside them",
        needs=_TORCH,
        learns=True,
        multi_env=True,
        resumes=True,
        configs="memplace_agents.egrl.egrl_config:CONFIGS",
    ),
    AgentSpec("best-rule", "memplace_agents.rule_agents:BestRule", BOTH, "the best plan of all rules; no search"),
    AgentSpec(
        "native",
        "memplace_agents.rule_agents:CompilersRule",
        BOTH,
        "one plan by a compiler rule, by default its own; no search",
    ),
    AgentSpec(
        "density-greedy",
        "memplace_agents.rule_agents:DensityGreedy",
        _ONE_SHOT,
        "greedy by time saved per byte; no search",
    ),
    AgentSpec(
        "calibrated",
        "memplace_agents.calibrated:Calibrated",
        BOTH,
        "for black boxes: fits costs to measured plans, solves them exactly, measures again",
        reuses_machine=True,
    ),
    AgentSpec("random", "memplace_agents.random_search:RandomSearch", _ONE_SHOT, "uniformly random assignments"),
    AgentSpec(
        "greedy-dp",
        "memplace_agents.greedy_dp:GreedyDP",
        _ONE_SHOT,
        "tries all levels of one op at a time; EGRL's baseline",
    ),
    AgentSpec(
        "local-search",
        "memplace_agents.search.local_search:LocalSearch",
        _ONE_SHOT,
        "simulated annealing from the best rule's assignment",
    ),
    AgentSpec(
        "exact",
        "memplace_agents.exact:Exact",
        BOTH,
        "mixed-integer linear programming: the best plan and a proven bound",
        breaks_ties=True,
    ),
    AgentSpec(
        "exact-dynamic",
        "memplace_agents.exact:ExactDynamic",
        _DYNAMIC,
        "mixed-integer linear programming over plans that move tensors, with a proven bound",
        breaks_ties=True,
    ),
    AgentSpec(
        "portfolio",
        "memplace_agents.auto:Portfolio",
        _GAME,
        "rules, exact, then cross-entropy until proven optimal; calibrated for black boxes",
        breaks_ties=True,
    ),
    AgentSpec(
        "muzero",
        "memplace_agents.muzero:MuZero",
        _GAME,
        "tree search with a learned network, after mallocMuZero",
        needs=_TORCH,
        learns=True,
        multi_env=True,
        samples_programs=True,
        resumes=True,
        configs="memplace_agents.muzero.muzero_config:CONFIGS",
    ),
    AgentSpec(
        "xla-msa",
        "memplace_agents.rule_agents:XlaMsa",
        _GAME,
        "XLA's memory-space assignment, mallocMuZero's baseline",
    ),
    AgentSpec(
        "xla-autotune",
        "memplace_agents.xla_autotune:XlaAutotune",
        _GAME,
        "tunes xla-msa's options by successive halving",
    ),
    AgentSpec(
        "greedy-player",
        "memplace_agents.rule_agents:GreedyPlayer",
        _GAME,
        "always takes the best immediate reward; one game",
    ),
    AgentSpec(
        "game-local-search",
        "memplace_agents.search.game_local_search:GameLocalSearch",
        _GAME,
        "simulated annealing from the best rule's game",
    ),
    AgentSpec(
        "cross-entropy",
        "memplace_agents.cross_entropy:CrossEntropy",
        BOTH,
        "samples whole plans from a table that learns from each round's best",
        prior=True,
    ),
    AgentSpec(
        "plan-gradient",
        "memplace_agents.plan_gradient:PlanGradient",
        BOTH,
        "policy gradient over whole plans; credit to each round's best",
        needs=_TORCH,
        learns=True,
        multi_env=True,
        resumes=True,
        configs="memplace_agents.plan_gradient.plan_gradient_config:CONFIGS",
    ),
    AgentSpec(
        "ppo",
        "memplace_agents.ppo:PPO",
        (*BOTH, Formulation.STEPS),
        "proximal policy optimisation by Stable-Baselines3",
        needs=(*_TORCH, "stable_baselines3", "sb3_contrib"),
        learns=True,
        multi_env=True,
        samples_programs=True,
        resumes=True,
        configs="memplace_agents.ppo.ppo_config:CONFIGS",
    ),
)


def built_in_spec(kind: type) -> AgentSpec | None:
    """Return the row of a class of this package; None for any other class."""
    return next((spec for spec in BUILT_IN if spec.describes(kind)), None)


def load(entry_point: str) -> Any:
    """Return the object that "module:Class" names, by the rules of entry points."""
    return EntryPoint("", entry_point, "").load()
