"""The flags that name a workload, and what becomes of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memplace_env.cli.console import note
from memplace_env.cli.formulations import TRAITS, Formulation
from memplace_env.errors import MemPlaceError, PlanError

if TYPE_CHECKING:
    from memplace_env.envs.settings import Task
    from memplace_env.plan import MemoryPlan

DEFAULT_ACCELERATOR = TRAITS[Formulation.ONE_SHOT].accelerator

Model = Annotated[
    str, typer.Argument(metavar="MODEL", help="A zoo name, the path of an .onnx file, or synthetic:chain?ops=24.")
]
AcceleratorFlag = Annotated[str | None, typer.Option("--accelerator", "-a", help="A shipped name or a .toml file.")]
BatchFlag = Annotated[int | None, typer.Option("--batch", help="Batch size.")]
DimFlag = Annotated[
    list[str] | None, typer.Option("--dim", metavar="NAME=VALUE", help="Size of a symbolic dim; repeat.")
]
DtypeFlag = Annotated[str | None, typer.Option("--dtype", help="int8, float16, bfloat16 or float32.")]
FusionFlag = Annotated[str | None, typer.Option("--fusion", help="none, conv or epilogue.")]
FormulationFlag = Annotated[
    Formulation, typer.Option("--formulation", help="one-shot: a level for each tensor; game: use by use.")
]
SimulatorFlag = Annotated[str | None, typer.Option("--simulator", help="Name of an installed simulator.")]
JsonFlag = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of tables.")]


@dataclass(frozen=True)
class ModelFlags:
    """How a program is to be made and judged; None leaves the choice to the defaults."""

    accelerator: str | None = None
    batch: int | None = None
    dims: Mapping[str, int] | None = None
    dtype: str | None = None
    fusion: str | None = None
    simulator: str | None = None

    @classmethod
    def parse(
        cls,
        accelerator: str | None,
        batch: int | None,
        dim: list[str] | None,
        dtype: str | None,
        fusion: str | None,
        simulator: str | None = None,
    ) -> ModelFlags:
        """From the flags as typed.

        Raises:
            MemPlaceError: for a `--dim` that is not NAME=VALUE.
        """
        return cls(accelerator, batch, _dims(dim or []) or None, dtype, fusion, simulator)

    def registered(self, model: str, formulation: Formulation = Formulation.ONE_SHOT) -> tuple[str, ModelFlags]:
        """The model, with the settings of its registered environment if it has one and no flag says otherwise."""
        traits = TRAITS[formulation]
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

        Raises:
            PlanError: if the plan's settings are not of the kind that memplace writes.
        """
        said = plan.settings
        kinds = {"accelerator": str, "batch": int, "dims": dict, "dtype": str, "fusion": str}
        for key, kind in kinds.items():
            if said.get(key) is not None and not isinstance(said[key], kind):
                raise PlanError(f"The plan's setting {key!r} is {said[key]!r}, which no memplace wrote.")
        return ModelFlags(
            accelerator=self.accelerator or said.get("accelerator") or plan.accelerator,
            batch=said.get("batch") if self.batch is None else self.batch,
            dims={**(said.get("dims") or {}), **(self.dims or {})} or None,
            dtype=self.dtype or said.get("dtype"),
            fusion=self.fusion or said.get("fusion"),
            simulator=self.simulator,
        )

    @property
    def chip(self) -> str:
        """The accelerator, by name or path."""
        return self.accelerator or DEFAULT_ACCELERATOR

    def arguments(self, model: str) -> dict[str, Any]:
        """Keyword arguments of `gym.make("MemPlace-v0", ...)` and `resolve_task`."""
        return {
            "workload": model,
            "accelerator": self.chip,
            "simulator": self.simulator,
            "batch": self.batch,
            "dims": self.dims,
            "dtype": self.dtype,
            "fusion": self.fusion,
        }

    def task(self, model: str) -> Task:
        """The program, chip and simulator.

        Raises:
            MemPlaceError: naming what cannot be resolved.
        """
        from memplace_env.envs.settings import resolve_task

        return resolve_task(**self.arguments(model))


def _dims(texts: list[str]) -> dict[str, int]:
    dims: dict[str, int] = {}
    for text in texts:
        name, equals, value = text.rpartition("=")
        if not equals or not name or not value.strip().isdecimal():
            raise MemPlaceError(f"--dim takes NAME=VALUE with a whole number, such as sequence=384, not {text!r}.")
        if name in dims:
            raise MemPlaceError(f"--dim sets {name!r} twice; pass it once.")
        dims[name] = int(value)
    return dims
