"""The one list of agents: what the command line and the leaderboard know of them, without loading any.

A third party's agent is an `Agent` class, or anything with its attributes, under the entry-point group
`memplace.agents`; the first line of its docstring describes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from importlib.util import find_spec
from inspect import signature
from typing import TYPE_CHECKING, Any

from memplace_env.errors import AgentError
from memplace_env.hints import instead
from memplace_env.plugins import AGENTS, installed
from memplace_env.registration import Formulation
from memplace_env.threads import cached_property

if TYPE_CHECKING:
    from agents.base import Agent

_TORCH = ("torch", "tensorboard")
_GRAPHS = (*_TORCH, "torch_geometric")
_SB3 = (*_GRAPHS, "stable_baselines3", "sb3_contrib")

_ONE_SHOT, _GAME, _DYNAMIC = (Formulation.ONE_SHOT,), (Formulation.GAME,), (Formulation.DYNAMIC,)
_BOTH = (*_ONE_SHOT, *_GAME)


@dataclass(frozen=True)
class AgentSpec:
    """What is known of an agent before it is loaded.

    Attributes:
        name: what the command line calls it.
        home: "module:Class".
        formulations: which environments it plays.
        summary: one line.
        needs: modules beyond those that memplace always has.
        learns: whether it learns a policy while it searches, and takes `policy=` and `out=`.
        several: whether it trains one policy on several environments at once, by `train(envs, ...)`.
        resumes: whether it keeps checkpoints in `out` and goes on from them with `resume=True`.
        configs: "module:NAME" of its named settings, dataclasses for `config=`; None if it has none to choose.
    """

    name: str
    home: str
    formulations: tuple[Formulation, ...]
    summary: str
    needs: tuple[str, ...] = ()
    learns: bool = False
    several: bool = False
    resumes: bool = False
    configs: str | None = None

    @property
    def lacking(self) -> str | None:
        """What it lacks and how to get it, as a clause; None if it lacks nothing."""
        missing = [module for module in self.needs if find_spec(module) is None]
        return f'{self.name} needs {" and ".join(missing)}: pip install "memplace[agents]"' if missing else None

    def make(self, **options: Any) -> Agent[Any]:
        """The agent.

        Raises:
            AgentError: if its packages are missing or broken, or an option makes no sense.
        """
        try:
            kind = _load(self.home)
        except Exception as error:  # whatever a third party's module may raise
            raise self._broken(error) from error
        if isinstance(config := options.get("config"), str):
            if config not in self.named_settings:
                raise AgentError(
                    f"{self.name} has no settings called {config!r}; {instead(config, self.named_settings)}"
                )
            options["config"] = self.named_settings[config]
        if not callable(getattr(kind, "solve", None)):
            raise AgentError(f"{self.home} is no agent: it needs name, formulations and solve(env, ...).")
        try:
            signature(kind).bind(**options)
            agent: Agent[Any] = kind(**options)
        except ImportError as error:
            raise self._broken(error) from error
        except TypeError as error:
            raise AgentError(f"{self.name} cannot be made with {options or 'no options'}: {error}.") from error
        return agent

    def _broken(self, error: Exception) -> AgentError:
        return AgentError(self.lacking or f"{self.name} cannot be loaded ({error}); install it anew.")

    @cached_property
    def named_settings(self) -> Mapping[str, Any]:
        """Its named settings; empty if it has none to choose."""
        settings: Mapping[str, Any] = _load(self.configs) if self.configs else {}
        return settings


BUILT_IN = (
    AgentSpec(
        "auto",
        "agents.auto:Auto",
        _ONE_SHOT,
        "heuristics, then exact, then a search where nothing is proven; no exact where a black box judges",
    ),
    AgentSpec(
        "egrl",
        "agents.egrl:EGRL",
        _ONE_SHOT,
        "evolution of graph policies with policy gradients, and annealing of the best map",
        needs=_GRAPHS,
        learns=True,
        several=True,
        resumes=True,
        configs="agents.egrl.config:CONFIGS",
    ),
    AgentSpec(
        "native", "agents.heuristic:CompilersRule", _BOTH, "one plan by a rule of the compiler, by default its own"
    ),
    AgentSpec(
        "density-greedy",
        "agents.heuristic:DensityGreedy",
        _ONE_SHOT,
        "no search: who saves most time for the bytes it holds goes first; milliseconds",
    ),
    AgentSpec("random", "agents.heuristic:RandomSearch", _ONE_SHOT, "uniformly random maps"),
    AgentSpec(
        "greedy-dp", "agents.dp:GreedyDP", _ONE_SHOT, "EGRL's baseline: op by op, all choices tried, the rest frozen"
    ),
    AgentSpec(
        "local-search",
        "agents.heuristic:LocalSearch",
        _ONE_SHOT,
        "simulated annealing from the best map known without search",
    ),
    AgentSpec(
        "exact",
        "agents.exact:Exact",
        _BOTH,
        "mixed-integer linear programs: the best plan and a proven bound",
    ),
    AgentSpec(
        "exact-dynamic",
        "agents.exact:ExactDynamic",
        _DYNAMIC,
        "exact, then a mixed-integer linear program of plans that move tensors, and a bound for plans of any kind",
    ),
    AgentSpec(
        "portfolio",
        "agents.game:Portfolio",
        _GAME,
        "xla-msa with all public option sets, exact, then the searches, each from the best before it",
    ),
    AgentSpec(
        "muzero",
        "agents.muzero:MuZero",
        _GAME,
        "games planned by tree search, from which a network learns, after mallocMuZero",
        needs=_TORCH,
        learns=True,
        several=True,
        resumes=True,
        configs="agents.muzero.config:CONFIGS",
    ),
    AgentSpec(
        "xla-msa",
        "agents.xla_msa:XlaMsa",
        _GAME,
        "XLA's memory-space assignment, the default that mallocMuZero is compared with",
    ),
    AgentSpec(
        "xla-autotune",
        "agents.xla_msa:XlaAutotune",
        _GAME,
        "search over xla-msa's options from the public sets on, by successive halving",
    ),
    AgentSpec("greedy-player", "agents.game:GreedyPlayer", _GAME, "one game, always the best immediate reward"),
    AgentSpec(
        "beam-search",
        "agents.game:BeamSearch",
        _GAME,
        "partial games side by side, judged by how the best known game would finish them",
    ),
    AgentSpec(
        "game-local-search",
        "agents.game:GameLocalSearch",
        _GAME,
        "simulated annealing from the greedy player's game",
    ),
    AgentSpec(
        "solver-order",
        "agents.game:SolverOrder",
        _GAME,
        "hill climbing over the order in which xla-msa serves the buffers",
    ),
    AgentSpec(
        "ppo",
        "agents.ppo:PPOAgent",
        _BOTH,
        "Stable-Baselines3's PPO with a network that suits the observation",
        needs=_SB3,
        learns=True,
    ),
    AgentSpec(
        "maskable-ppo",
        "agents.ppo:MaskablePPOAgent",
        _BOTH,
        "sb3-contrib's PPO, which plays legal actions only",
        needs=_SB3,
        learns=True,
    ),
    AgentSpec(
        "a2c",
        "agents.ppo:A2CAgent",
        _BOTH,
        "Stable-Baselines3's A2C, to see that any algorithm plugs in",
        needs=_SB3,
        learns=True,
    ),
)

DEFAULTS = {
    Formulation.ONE_SHOT: "auto",
    Formulation.GAME: "portfolio",
    Formulation.DYNAMIC: "exact-dynamic",
}
"""Who searches unless another agent is asked for; these lack no packages."""


def agent_specs(formulation: Formulation | None = None) -> dict[str, AgentSpec]:
    """Every agent by name, those of third parties after ours; of one formulation if that is given."""
    specs = {spec.name: spec for spec in BUILT_IN}
    specs |= {name: _third_party(name, point.value) for name, point in installed(AGENTS).items() if name not in specs}
    return {name: spec for name, spec in specs.items() if formulation is None or formulation in spec.formulations}


def agent_spec(name: str) -> AgentSpec:
    """What is known of the agent with that name, or of the class that "module:Class" names.

    Raises:
        AgentError: if there is none.
    """
    if ":" in name:
        return _third_party(name, name)
    specs = agent_specs()
    if name not in specs:
        raise AgentError(f"No agent is called {name!r}; {instead(name, specs)}")
    return specs[name]


def make_agent(name: str, **options: Any) -> Agent[Any]:
    """The agent with that name, made with those options.

    Raises:
        AgentError: if there is none, it cannot be loaded, or an option makes no sense.
    """
    return agent_spec(name).make(**options)


def _third_party(name: str, home: str) -> AgentSpec:
    """What an installed class says of itself; it plays both formulations unless it says otherwise."""
    try:
        kind = _load(home)
        formulations = tuple(Formulation(value) for value in getattr(kind, "formulations", _BOTH))
    except Exception as error:  # whatever a third party's module may raise: the list must not end with it
        return AgentSpec(name, home, _BOTH, f"cannot be loaded: {error}")
    lines = (kind.__doc__ or "").strip().splitlines()
    return AgentSpec(name, home, formulations, lines[0] if lines else home, learns=bool(getattr(kind, "learns", False)))


def _load(home: str) -> Any:
    """What "module:Class" names, by all the rules of entry points."""
    return EntryPoint("", home, "").load()
