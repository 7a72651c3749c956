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
from memplace_env._lib.threads import cached_property
from memplace_env.envs.registration import Formulation

CPU_TORCH = "pip install torch --index-url https://download.pytorch.org/whl/cpu"
"""Command that installs PyTorch without CUDA; as a dependency it comes with several GB of it."""
_TORCH = ("torch", "tensorboard")
_GRAPHS = (*_TORCH, "torch_geometric")

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
        home: "module:Class" from which it is loaded.
        formulations: environments for which it is listed.
        summary: one line for lists of agents.
        needs: modules that it imports beyond the dependencies of memplace itself.
        learns: True if it trains a policy while it searches, and takes `policy=` and `out=`.
        several: True if it trains one policy on several environments at once, by `train(envs, ...)`.
        draws: True if it also trains on environments that draw their programs.
        resumes: True if it writes checkpoints to `out` and continues from them with `resume=True`.
        breaks_ties: True if it takes `tie_break=`.
        carries_over: True if it takes `machine=`, what was learned of a machine on other programs.
        configs: "module:NAME" of its named settings, dataclasses for `config=`; None if it has none.
    """

    name: str
    home: str
    formulations: tuple[Formulation, ...]
    summary: str
    needs: tuple[str, ...] = ()
    learns: bool = False
    several: bool = False
    draws: bool = False
    resumes: bool = False
    breaks_ties: bool = False
    carries_over: bool = False
    configs: str | None = None

    @property
    def lacking(self) -> str | None:
        """Clause that names the missing packages and the command that installs them; None if nothing is missing."""
        missing = [module for module in self.needs if find_spec(module) is None]
        if not missing:
            return None
        cpu = f" (without a GPU, first: {CPU_TORCH})" if "torch" in missing else ""
        return f'{self.name} needs {" and ".join(missing)}: pip install "memplace[agents]"{cpu}'

    def make(self, **options: Any) -> Any:
        """Load the class and return an `Agent` with these options.

        Raises:
            AgentError: if its packages are missing or broken, or an option makes no sense.
        """
        try:
            kind = load(self.home)
        except Exception as error:  # a third party's module may raise anything
            raise self._broken(error) from error
        if isinstance(config := options.get("config"), str):
            if config not in self.named_settings:
                raise AgentError(
                    f"{self.name} has no settings called {config!r}; {instead(config, self.named_settings)}"
                )
            options["config"] = self.named_settings[config]
        if not callable(getattr(kind, "solve", None)):
            raise AgentError(f"{self.home} is not an agent: it needs name, formulations and solve(env, ...).")
        try:
            signature(kind).bind(**options)
            return kind(**options)
        except ImportError as error:
            raise self._broken(error) from error
        except TypeError as error:
            raise AgentError(f"{self.name} cannot be made with {options or 'no options'}: {error}.") from error

    def _broken(self, error: Exception) -> AgentError:
        remedy = "it is looked for here and among installed packages" if ":" in self.name else "install it anew"
        return AgentError(self.lacking or f"{self.name} cannot be loaded ({error}); {remedy}.")

    @cached_property
    def named_settings(self) -> Mapping[str, Any]:
        """Named settings for `config=`; empty if the agent has none."""
        settings: Mapping[str, Any] = load(self.configs) if self.configs else {}
        return settings

    def describes(self, kind: type) -> bool:
        """Return whether the class is the one that `home` names, wherever in that package it is defined."""
        module, _, name = self.home.partition(":")
        return kind.__qualname__ == name and f"{kind.__module__}.".startswith(f"{module}.")


BUILT_IN = (
    AgentSpec(
        "auto",
        "memplace_agents.auto:Auto",
        _ONE_SHOT,
        "heuristics, then exact, then a search if nothing is proven; calibrated if the simulator is a black box",
        breaks_ties=True,
    ),
    AgentSpec(
        "egrl",
        "memplace_agents.egrl:EGRL",
        _ONE_SHOT,
        "evolution of graph policies with policy gradients, and annealing of the best assignment",
        needs=_GRAPHS,
        learns=True,
        several=True,
        resumes=True,
        configs="memplace_agents.egrl.egrl_config:CONFIGS",
    ),
    AgentSpec(
        "best-rule", "memplace_agents.compiler_rules:BestRule", BOTH, "the best plan of all rules, without a search"
    ),
    AgentSpec(
        "native",
        "memplace_agents.compiler_rules:CompilersRule",
        BOTH,
        "one plan by a rule of the compiler, by default its own",
    ),
    AgentSpec(
        "density-greedy",
        "memplace_agents.density_greedy:DensityGreedy",
        _ONE_SHOT,
        "no search: tensors that save most time for the bytes they hold go first; milliseconds",
    ),
    AgentSpec(
        "calibrated",
        "memplace_agents.calibrated:Calibrated",
        BOTH,
        "for black boxes: costs fitted to measured plans, solved exactly, measured again",
        carries_over=True,
    ),
    AgentSpec("random", "memplace_agents.random_search:RandomSearch", _ONE_SHOT, "uniformly random assignments"),
    AgentSpec(
        "greedy-dp",
        "memplace_agents.greedy_dp:GreedyDP",
        _ONE_SHOT,
        "EGRL's baseline: op by op, all levels tried, the rest frozen",
    ),
    AgentSpec(
        "local-search",
        "memplace_agents.search.local_search:LocalSearch",
        _ONE_SHOT,
        "simulated annealing from the best assignment known without search",
    ),
    AgentSpec(
        "exact",
        "memplace_agents.exact:Exact",
        BOTH,
        "mixed-integer linear programs: the best plan and a proven bound",
        breaks_ties=True,
    ),
    AgentSpec(
        "exact-dynamic",
        "memplace_agents.exact:ExactDynamic",
        _DYNAMIC,
        "exact, then a mixed-integer linear program of plans that move tensors, and a bound for plans of any kind",
        breaks_ties=True,
    ),
    AgentSpec(
        "portfolio",
        "memplace_agents.auto:Portfolio",
        _GAME,
        "all rules, exact, cross-entropy, each from the best so far; calibrated if the simulator is a black box",
        breaks_ties=True,
    ),
    AgentSpec(
        "muzero",
        "memplace_agents.muzero:MuZero",
        _GAME,
        "games planned by tree search, from which a network learns, after mallocMuZero",
        needs=_TORCH,
        learns=True,
        several=True,
        draws=True,
        resumes=True,
        configs="memplace_agents.muzero.muzero_config:CONFIGS",
    ),
    AgentSpec(
        "xla-msa",
        "memplace_agents.xla_msa:XlaMsa",
        _GAME,
        "XLA's memory-space assignment, the default that mallocMuZero is compared with",
    ),
    AgentSpec(
        "xla-autotune",
        "memplace_agents.xla_msa:XlaAutotune",
        _GAME,
        "search over xla-msa's options from the public sets on, by successive halving",
    ),
    AgentSpec(
        "greedy-player",
        "memplace_agents.greedy_player:GreedyPlayer",
        _GAME,
        "one game, always the best immediate reward",
    ),
    AgentSpec(
        "game-local-search",
        "memplace_agents.search.game_local_search:GameLocalSearch",
        _GAME,
        "simulated annealing from the greedy player's game",
    ),
    AgentSpec(
        "cross-entropy",
        "memplace_agents.cross_entropy:CrossEntropy",
        BOTH,
        "all decisions of a plan sampled at once from tables that learn from the best of each round",
    ),
    AgentSpec(
        "plan-gradient",
        "memplace_agents.plan_gradient:PlanGradient",
        BOTH,
        "policy gradient for whole plans: all decisions at once, credit for the best",
        needs=_TORCH,
        learns=True,
        several=True,
        draws=True,
        resumes=True,
        configs="memplace_agents.plan_gradient.plan_gradient_config:CONFIGS",
    ),
)


def built_in_spec(kind: type) -> AgentSpec | None:
    """Return the row of a class of this package; None for any other class."""
    return next((spec for spec in BUILT_IN if spec.describes(kind)), None)


def load(home: str) -> Any:
    """Return the object that "module:Class" names, by the rules of entry points."""
    return EntryPoint("", home, "").load()
