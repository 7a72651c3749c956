"""The model of a command: its flags, the registered environment that it may name, and the environment made of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memplace_env._lib.errors import AgentError, MemPlaceError, PlanError
from memplace_env._lib.hints import nearest
from memplace_env.cli.console import note
from memplace_env.cli.shared_options import Command, gathered
from memplace_env.envs.registration import Formulation, formulation_of_id
from memplace_env.program.model_file import as_written

if TYPE_CHECKING:
    from gymnasium.envs.registration import EnvSpec

    from memplace_env.envs.malloc_game import MallocGameEnv
    from memplace_env.envs.one_shot import OneShotEnv
    from memplace_env.envs.steps import StepsEnv
    from memplace_env.placement.memory_plan import MemoryPlan
    from memplace_env.placement.resolve_task import Order, Slicing
    from memplace_env.placement.task import Task
    from memplace_env.report.plans.evaluated_plan import EvaluatedPlan

    Env = OneShotEnv | StepsEnv | MallocGameEnv


def settings_of_id(env_id: str, *, drawn: bool = False) -> dict[str, Any]:
    """Return the arguments with which an environment is registered; errors as in `make_registered`.

    `drawn` is as there.
    """
    registered = registered_envs()
    if env_id not in registered:
        close = nearest(env_id, registered)
        hint = f"did you mean {close!r}?" if close else "see 'memplace envs'."
        raise AgentError(f"There is no environment {env_id!r}; {hint}")
    if "programs" in registered[env_id].kwargs and not drawn:
        raise AgentError(
            f"{env_id!r} draws another program in each episode, and agents plan one; take the id of a program, or "
            "train an agent such as ppo on it."
        )
    if env_id in {formulation.traits.env_id() for formulation in Formulation}:
        raise AgentError(f"{env_id} has no program of its own; pass an id that names one, see 'memplace envs'.")
    return dict(registered[env_id].kwargs)


def posed_by(model: str, formulation: Formulation | None = None) -> Formulation:
    """Return the formulation to play a model in: the given one, or else that of an id, or else one-shot.

    Raises:
        AgentError: if an id poses another problem.
    """
    if not is_env_id(model):
        return formulation or Formulation.ONE_SHOT
    of_id = formulation_of_id(model).base
    if formulation is not None and formulation.base is not of_id:
        raise AgentError(
            f"{model} is the id of a {of_id} environment and cannot be played as a {formulation} one; pass the id of "
            "one, or the model's name."
        )
    return formulation or of_id


def registered_envs() -> dict[str, EnvSpec]:
    """Return Gymnasium's spec of each of memplace's environments, by id."""
    import gymnasium as gym

    return {name: spec for name, spec in gym.registry.items() if str(spec.entry_point).startswith("memplace_env.")}


def is_env_id(name: str) -> bool:
    """Return whether a name is an environment's id by its form, and not a model."""
    prefixes = "|".join(formulation.traits.prefix for formulation in Formulation)
    return re.fullmatch(rf"({prefixes})-(.+-)?v\d+", name) is not None


def make_env(model: str, flags: ModelFlags, formulation: Formulation) -> Env:
    """Return the environment of a model, without wrappers.

    Raises:
        MemPlaceError: naming what cannot be resolved, or why the formulation cannot be played on it.
    """
    if formulation is Formulation.STEPS:
        return _made(formulation.traits.env_id(), {"workload": flags.task(model)})
    return _made(formulation.traits.env_id(), flags.arguments(model))


def make_game(model: str, flags: ModelFlags) -> MallocGameEnv:
    """Return the game of a model; see `make_env`."""
    env: Any = make_env(model, flags, Formulation.GAME)
    game: MallocGameEnv = env
    return game


def make_registered(env_id: str, drawn: bool = False, **arguments: Any) -> Env:
    """Return the environment with that id, with these arguments beside its settings.

    Args:
        env_id: the id.
        drawn: whether it may be one that draws its programs.
        arguments: of the environment.

    Raises:
        AgentError: if memplace has none with that id, or it has no program of its own.
    """
    settings_of_id(env_id, drawn=drawn)
    return _made(env_id, arguments)


def baseline_of(env: Env) -> EvaluatedPlan:
    """Return the plan that speed-ups are over in the environment's formulation."""
    from memplace_env.report.plans.evaluated_plan import all_backing_baseline, native_baseline

    return (all_backing_baseline if env.formulation is Formulation.GAME else native_baseline)(env.task)


def _made(env_id: str, arguments: dict[str, Any]) -> Env:
    import gymnasium as gym

    unwrapped: Any = gym.make(env_id, disable_env_checker=True, **arguments).unwrapped
    env: Env = unwrapped
    note_no_mechanisms(env.task)
    return env


def note_no_mechanisms(task: Task) -> None:
    """Write a line to stderr if the event simulator has nothing to add to the task's costs."""
    from memplace_env.machine.accelerator.event_description import NO_MECHANISMS
    from memplace_env.placement.simulator import EventSimulator

    simulator = task.simulator
    if isinstance(simulator, EventSimulator) and simulator.mechanisms_of(task) == NO_MECHANISMS:
        note(
            f"{task.accelerator.name} describes no mechanisms, so --simulator {simulator.name} equals builtin here; "
            "without it agents can prove a bound."
        )


_OPTIONS = {
    "accelerator": Annotated[
        str | None,
        typer.Option(
            "--accelerator",
            "-a",
            help="A name of 'memplace accelerators' or a .toml file.",
            show_default="{}; for a game {}; for a plan its own".format(
                *(formulation.traits.accelerator for formulation in (Formulation.ONE_SHOT, Formulation.GAME))
            ),
        ),
    ],
    "batch": Annotated[int | None, typer.Option("--batch", help="Batch size.")],
    "dim": Annotated[
        list[str] | None, typer.Option("--dim", metavar="NAME=VALUE", help="Size of a symbolic dim; repeat.")
    ],
    "dtype": Annotated[
        str | None,
        typer.Option(
            "--dtype", help="int8, float16, bfloat16 or float32.", show_default="the accelerator's; for a plan its own"
        ),
    ],
    "fusion": Annotated[str | None, typer.Option("--fusion", help="none, activation, chain, conv or epilogue.")],
    "in_place": Annotated[
        str | None,
        typer.Option("--in-place", help="Results in an operand's place: none, elementwise or rows."),
    ],
    "patterns": Annotated[
        str | None,
        typer.Option("--patterns", help="on: known formulas, such as a written-out GELU, are one op; or off."),
    ],
    "trips": Annotated[int | None, typer.Option("--trips", help="Trip count of data-dependent loops.")],
    "value": Annotated[
        list[str] | None,
        typer.Option("--value", metavar="NAME=NUMBER", help="Value of a graph input of one element; repeat."),
    ],
    "cut": Annotated[
        str | None, typer.Option("--cut", metavar="TENSOR", help="Load an .onnx or .tflite file up to this tensor.")
    ],
    "alias": Annotated[
        list[str] | None,
        typer.Option("--alias", metavar="OUTPUT=INPUT", help="Write an output in the place of an input; repeat."),
    ],
    "slices": Annotated[
        str | None,
        typer.Option("--slices", help="Cut tensors larger than this share of the fastest memory: 0.1, or auto."),
    ],
    "alignment": Annotated[
        int | None,
        typer.Option("--align", metavar="BYTES", help="Offsets and sizes of blocks are multiples of this."),
    ],
    "io_level": Annotated[
        str | None,
        typer.Option("--io-level", help="Memory of graph inputs and outputs: backing, any, or a name."),
    ],
    "copies": Annotated[
        str | None,
        typer.Option("--copies", help="Copies of plans that move tensors: backing (to or from it), or all."),
    ],
    "pin": Annotated[
        list[str] | None,
        typer.Option(
            "--pin", metavar="TENSOR=MEMORY[@OFFSET]", help="Memory of a tensor, and its address there; repeat."
        ),
    ],
    "order": Annotated[
        str | None,
        typer.Option(
            "--order",
            help="Order of ops: file, memory (few bytes alive at once), or free (only solve: a search).",
        ),
    ],
    "costs": Annotated[
        str | None, typer.Option("--costs", help="A cost model: roofline, tiled, measured or an installed one.")
    ],
    "simulator": Annotated[
        str | None, typer.Option("--simulator", help="A simulator: builtin, event or an installed one.")
    ],
}

BUILTIN = "builtin"
"""Name of the simulator of costs, which is the default."""

_DIGITS = 18
"""Most digits of a size."""

_WRITTEN: dict[str, type | tuple[type, ...]] = {
    "accelerator": str,
    "batch": int,
    "dims": dict,
    "dtype": str,
    "fusion": str,
    "in_place": str,
    "patterns": str,
    "trips": int,
    "values": dict,
    "cut": str,
    "aliases": dict,
    "slices": (float, dict),
    "alignment": int,
    "io_level": str,
    "pins": dict,
    "copies": str,
    "order": list,
    "costs": str,
}
"""Settings in a plan, and the type of each."""


def model_flags(*, without: Sequence[str] = ()) -> Callable[[Command], Command]:
    """Return a decorator that gives a command `flags: ModelFlags`, and the command line an option for each flag.

    Args:
        without: names of the options that the command does not have.
    """
    return gathered("flags", ModelFlags.parse, {name: _OPTIONS[name] for name in _OPTIONS if name not in without})


def plan_flags(*without: str) -> Callable[[Command], Command]:
    """Return a decorator as `model_flags`, for commands on a saved plan, whose other settings are inside."""
    return model_flags(without=[*_OPTIONS.keys() - {"accelerator", "costs", "simulator"}, *without])


@dataclass(frozen=True)
class ModelFlags:
    """Settings of a program, its chip and its simulator; None leaves the choice to the defaults."""

    accelerator: str | None = None
    batch: int | None = None
    dims: Mapping[str, int] | None = None
    dtype: str | None = None
    fusion: str | None = None
    in_place: str | None = None
    patterns: str | None = None
    trips: int | None = None
    values: Mapping[str, float] | None = None
    cut: str | None = None
    aliases: Mapping[str, str] | None = None
    slices: Slicing | None = None
    alignment: int | None = None
    io_level: str | None = None
    pins: Mapping[str, str] | None = None
    copies: str | None = None
    order: Order | None = None
    costs: str | None = None
    simulator: str | None = None

    @classmethod
    def parse(
        cls,
        *,
        dim: list[str] | None = None,
        value: list[str] | None = None,
        alias: list[str] | None = None,
        slices: str | None = None,
        pin: list[str] | None = None,
        **typed: Any,
    ) -> ModelFlags:
        """Return the flags as typed.

        Raises:
            MemPlaceError: for a `--dim` that is not NAME=VALUE, a `--value` that is not NAME=NUMBER, an `--alias` that
                is not OUTPUT=INPUT, a `--pin` that is not TENSOR=MEMORY, slices of another kind, or an empty text.
        """
        for name, text in typed.items():
            if text == "":
                raise MemPlaceError(
                    f"--{name.replace('_', '-')} is empty; pass a value, or leave the flag out for the default."
                )
        return cls(
            dims=parsed_dims(dim or [], "--dim") or None,
            values=_parsed_values(value) or None,
            aliases=_parsed_pairs(alias, "--alias", "OUTPUT=INPUT, such as present=past", marks=1) or None,
            slices=_parsed_slices(slices),
            pins=_parsed_pairs(pin, "--pin", "TENSOR=MEMORY[@OFFSET], such as input=SRAM") or None,
            **typed,
        )

    def registered(self, model: str, formulation: Formulation = Formulation.ONE_SHOT) -> tuple[str, ModelFlags]:
        """Return the program and its settings: of an id all that it is registered with, of a name its id's sizes.

        The name of a model with an id on the chip stands for that model at the id's batch, dims and dtype, unless a
        flag is about them, with the chip's defaults for all that its compiler decides.

        Raises:
            MemPlaceError: if the model is an id, see `of_id`, that cannot be played in the formulation.
        """
        traits = posed_by(model, formulation).traits
        if is_env_id(model):
            name, flags = self.of_id(model)
            graph = {"fusion": flags.fusion, "patterns": flags.patterns, "in place": flags.in_place}
            shown = [f"{setting} {value}" for setting, value in graph.items() if value]
            if shown:
                note(f"{model}, the registered problem: {name} with {', '.join(shown)}.")
            return name, flags
        flags = replace(self, accelerator=self.accelerator or traits.accelerator)
        env_id = self.id_named(model, formulation)
        if env_id is None:
            return model, flags
        named = settings_of_id(env_id)
        name, sizes = named["workload"], {key: named[key] for key in ("batch", "dims", "dtype") if key in named}
        shown = [f"batch {sizes['batch']}"] if "batch" in sizes else []
        shown += [f"{dim} {size}" for dim, size in sizes.get("dims", {}).items()]
        shown += [sizes["dtype"]] if "dtype" in sizes else []
        if shown:
            note(f"{name} at the sizes of {env_id}: {', '.join(shown)} (--batch, --dim, --dtype override).")
        return name, replace(flags, **sizes)

    def id_named(self, model: str, formulation: Formulation) -> str | None:
        """Return the id whose program and chip a model's name and these flags name; None if a flag is about sizes."""
        traits = formulation.traits
        if {self.batch, self.dtype, self.trips, self.cut} != {None} or self.dims or self.values or self.aliases:
            return None
        chip = self.accelerator or traits.accelerator
        for key, settings in traits.settings.items():
            names = (key.lower(), settings.get("workload", key).lower())
            if model.lower() in names and settings.get("accelerator", traits.accelerator) == chip:
                return traits.env_id(key)
        return None

    def of_id(self, model: str) -> tuple[str, ModelFlags]:
        """Return the program of an environment's id and its settings, single ones replaced by these flags.

        Any other model is returned with these flags.

        Raises:
            MemPlaceError: if there is no such id, or it names no program.
        """
        from memplace_env.machine.accelerator import load_accelerator

        if not is_env_id(model):
            return model, self
        formulation = formulation_of_id(model)
        settings = {"accelerator": formulation.traits.accelerator, **settings_of_id(model)}
        if formulation is Formulation.GAME:  # which streams weights
            settings["accelerator"] = load_accelerator(settings["accelerator"]).streamed().name
        settings.pop("optimum", None)
        return settings.pop("workload"), self._completed(settings)

    def _completed(self, settings: Mapping[str, Any]) -> ModelFlags:
        """Return these flags, with settings where there is none."""
        given = {name: value for name, value in vars(self).items() if value is not None}
        dims = {**(settings.get("dims") or {}), **(self.dims or {})} or None
        return ModelFlags(**{**settings, **given, "dims": dims})

    def with_defaults_of(self, plan: MemoryPlan) -> ModelFlags:
        """Return these flags, completed by the plan's own settings.

        Files that a plan names are not opened: the plan may be a stranger's.

        Raises:
            PlanError: if the plan's settings are not of the kind that memplace writes, or its chip is not shipped and
                no flag names it.
        """
        from memplace_env.machine.accelerator import is_shipped

        written: dict[str, Any] = {name: plan.settings.get(name) for name in _WRITTEN}
        written |= {name: plan.settings.get(name, value) for name, value in as_written(plan.accelerator).items()}
        for name, kind in _WRITTEN.items():
            if written[name] is not None and not isinstance(written[name], kind):
                raise PlanError(f"The plan's setting {name!r} is {written[name]!r}, which no memplace wrote.")
        sizes = [written["batch"], *(written["dims"] or {}).values()]
        if not all(size is None or type(size) is int for size in sizes) or None in sizes[1:]:
            raise PlanError("The plan's batch and dims are not the whole numbers that memplace writes.")
        if any(type(number) not in (bool, int, float) for number in (written["values"] or {}).values()):
            raise PlanError("The plan's values are not the numbers that memplace writes.")
        if not all(isinstance(level, str) for level in (written["pins"] or {}).values()):
            raise PlanError("The plan's pins are not the names that memplace writes.")
        written["accelerator"] = written["accelerator"] or plan.accelerator
        if self.accelerator is None and not is_shipped(written["accelerator"]):
            raise PlanError(
                f"The plan is for the accelerator {written['accelerator']!r}, which is not shipped, and no file "
                "is opened because a plan names it; pass it yourself with --accelerator."
            )
        return self._completed(written)

    @property
    def other_simulator(self) -> str | None:
        """Name of the simulator; None for the built-in one."""
        return None if self.simulator == BUILTIN else self.simulator

    @property
    def chip(self) -> str:
        """Name or path of the accelerator."""
        return self.accelerator or Formulation.ONE_SHOT.traits.accelerator

    def arguments(self, model: str) -> dict[str, Any]:
        """Return keyword arguments of `gym.make("MemPlace-v0", ...)` and `resolve_task`.

        Raises:
            MemPlaceError: if the model is an id, see `of_id`, that names no program.
        """
        model, flags = self.of_id(model)
        return {**vars(flags), "workload": model, "accelerator": flags.chip}

    def task(self, model: str, *, must_fit: bool = True) -> Task:
        """Return the task of a model with these flags; `must_fit`: see `resolve_task`.

        Raises:
            MemPlaceError: naming what cannot be resolved.
        """
        from memplace_env.placement.resolve_task import resolve_task

        return resolve_task(**self.arguments(model), must_fit=must_fit)


def _parsed_slices(text: str | None) -> float | str | None:
    """Return the share that a text like 0.1 names, or "auto"."""
    if text is None or text == "auto":
        return text
    try:
        return float(text)
    except ValueError:
        raise MemPlaceError(f"--slices takes a share of the fastest memory or auto, not {text!r}.") from None


def _parsed_pairs(texts: list[str] | None, flag: str, form: str, marks: float = inf) -> dict[str, str]:
    """Return what follows the last of at most so many = in texts by what stands before; `form` has an example."""
    pairs: dict[str, str] = {}
    for text in texts or ():
        name, _, value = text.rpartition("=")
        if not name or not value or name in pairs or text.count("=") > marks:
            raise MemPlaceError(f"{flag} takes {form}, once for each name, not {text!r}.")
        pairs[name] = value
    return pairs


def _parsed_values(texts: list[str] | None) -> dict[str, float]:
    """Return numbers of graph inputs from texts like sr=16000."""
    form, values = "NAME=NUMBER, such as sr=16000", dict[str, float]()
    for name, number in _parsed_pairs(texts, "--value", form).items():
        try:
            values[name] = int(number) if number.strip().lstrip("+-").isdecimal() else float(number)
        except ValueError:
            raise MemPlaceError(f"--value takes {form}, not {f'{name}={number}'!r}.") from None
    return values


def parsed_dims(texts: list[str], where: str) -> dict[str, int]:
    """Return sizes of symbolic dims from texts like sequence=384; `where` names their source in messages.

    Raises:
        MemPlaceError: for a text that is not NAME=VALUE, or a name that occurs twice.
    """
    dims: dict[str, int] = {}
    for text in texts:
        name, equals, value = text.rpartition("=")
        if not equals or not name or not value.strip().isdecimal() or len(value) > _DIGITS:
            raise MemPlaceError(f"{where} takes NAME=VALUE with a whole number, such as sequence=384, not {text!r}.")
        if name in dims:
            raise MemPlaceError(f"{where} sets {name!r} twice; pass it once.")
        dims[name] = int(value)
    return dims
