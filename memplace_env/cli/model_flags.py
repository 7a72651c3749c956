"""The flags about the model: what is to be placed, on which chip, and who says what it costs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memplace_env.cli.console import note
from memplace_env.cli.options import Command, gathered
from memplace_env.errors import MemPlaceError, PlanError
from memplace_env.registration import Formulation

if TYPE_CHECKING:
    from memplace_env.plan import MemoryPlan
    from memplace_env.task import Task

_OPTIONS = {
    "accelerator": Annotated[str | None, typer.Option("--accelerator", "-a", help="A shipped name or a .toml file.")],
    "batch": Annotated[int | None, typer.Option("--batch", help="Batch size.")],
    "dim": Annotated[
        list[str] | None, typer.Option("--dim", metavar="NAME=VALUE", help="Size of a symbolic dim; repeat.")
    ],
    "dtype": Annotated[str | None, typer.Option("--dtype", help="int8, float16, bfloat16 or float32.")],
    "fusion": Annotated[str | None, typer.Option("--fusion", help="none, activation, chain, conv or epilogue.")],
    "costs": Annotated[
        str | None, typer.Option("--costs", help="A cost model: roofline, tiled, measured or an installed one.")
    ],
    "simulator": Annotated[str | None, typer.Option("--simulator", help="Name of an installed simulator.")],
}

_DIGITS = 18
"""That a size may have."""

_WRITTEN = {"accelerator": str, "batch": int, "dims": dict, "dtype": str, "fusion": str, "costs": str}
"""Settings in a plan, and the type of each."""


def model_flags(*, without: Sequence[str] = ()) -> Callable[[Command], Command]:
    """A decorator that gives a command `flags: ModelFlags`, and the command line an option for each flag.

    Args:
        without: names of the options that the command does not have.
    """
    return gathered("flags", ModelFlags.parse, {name: _OPTIONS[name] for name in _OPTIONS if name not in without})


@dataclass(frozen=True)
class ModelFlags:
    """How a program is to be made and judged; None leaves the choice to the defaults."""

    accelerator: str | None = None
    batch: int | None = None
    dims: Mapping[str, int] | None = None
    dtype: str | None = None
    fusion: str | None = None
    costs: str | None = None
    simulator: str | None = None

    @classmethod
    def parse(cls, *, dim: list[str] | None = None, **typed: Any) -> ModelFlags:
        """From the flags as typed.

        Raises:
            MemPlaceError: for a `--dim` that is not NAME=VALUE, or a flag with an empty text.
        """
        for name, value in typed.items():
            if value == "":
                raise MemPlaceError(f"--{name} is empty; say which, or leave the flag out for the default.")
        return cls(dims=parsed_dims(dim or [], "--dim") or None, **typed)

    def registered(self, model: str, formulation: Formulation = Formulation.ONE_SHOT) -> tuple[str, ModelFlags]:
        """The model, with the settings of its registered environment if it has one and no flag says otherwise."""
        traits = formulation.traits
        flags = replace(self, accelerator=self.accelerator or traits.accelerator)
        asked = (self.batch, self.dims, self.dtype, self.fusion)
        for key, settings in traits.settings.items():
            named = {"workload": key, "accelerator": traits.accelerator, **settings}
            name = named.pop("workload")
            meant = model.lower() in (name.lower(), key.lower())
            if meant and named["accelerator"] == flags.chip and asked == (None,) * len(asked):
                told = [f"batch {named['batch']}"] if "batch" in named else []
                told += [f"{dim} {n}" for dim, n in named.get("dims", {}).items()]
                told += [named["dtype"]] if "dtype" in named else []
                if told:
                    overriding = "--batch, --dim, --dtype, --fusion override"
                    note(f"{name} with its registered settings: {', '.join(told)} ({overriding}).")
                return name, replace(flags, **named)
        return model, flags

    def with_defaults_of(self, plan: MemoryPlan) -> ModelFlags:
        """These flags, and where they say nothing what the plan says of itself.

        Files that a plan names are not opened: it may be a stranger's.

        Raises:
            PlanError: if the plan's settings are not of the kind that memplace writes, or its chip is not shipped and
                no flag says which it is.
        """
        from memplace_env.accelerator import is_shipped

        said: dict[str, Any] = {name: plan.settings.get(name) for name in _WRITTEN}
        for name, kind in _WRITTEN.items():
            if said[name] is not None and not isinstance(said[name], kind):
                raise PlanError(f"The plan's setting {name!r} is {said[name]!r}, which no memplace wrote.")
        sizes = [said["batch"], *(said["dims"] or {}).values()]
        if not all(size is None or type(size) is int for size in sizes) or None in sizes[1:]:
            raise PlanError("The plan's batch and dims are not the whole numbers that memplace writes.")
        said["accelerator"] = said["accelerator"] or plan.accelerator
        if self.accelerator is None and not is_shipped(said["accelerator"]):
            raise PlanError(
                f"The plan is for the accelerator {said['accelerator']!r}, which is not shipped, and no file is opened "
                "because a plan names it; pass it yourself with --accelerator."
            )
        given = {name: value for name, value in vars(self).items() if value is not None}
        dims = {**(said["dims"] or {}), **(self.dims or {})} or None
        return ModelFlags(**{**said, **given, "dims": dims})

    @property
    def chip(self) -> str:
        """The accelerator, by name or path."""
        return self.accelerator or Formulation.ONE_SHOT.traits.accelerator

    def arguments(self, model: str) -> dict[str, Any]:
        """Keyword arguments of `gym.make("MemPlace-v0", ...)` and `resolve_task`.

        Raises:
            MemPlaceError: if the model is an environment's id.
        """
        for traits in (formulation.traits for formulation in Formulation):
            for key, settings in traits.settings.items():
                if model == traits.env_id(key):
                    meant = settings.get("workload", key)
                    raise MemPlaceError(f"{model} is the id of an environment, not a model; did you mean {meant!r}?")
        return {**vars(self), "workload": model, "accelerator": self.chip}

    def task(self, model: str, *, must_fit: bool = True) -> Task:
        """What these flags make of a model; `must_fit`: see `resolve_task`.

        Raises:
            MemPlaceError: naming what cannot be resolved.
        """
        from memplace_env.resolve import resolve_task

        return resolve_task(**self.arguments(model), must_fit=must_fit)


def parsed_dims(texts: list[str], where: str) -> dict[str, int]:
    """Sizes of symbolic dims from texts like sequence=384; `where` is what messages call the place they stand in.

    Raises:
        MemPlaceError: for a text that is not NAME=VALUE, or a name that is there twice.
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
