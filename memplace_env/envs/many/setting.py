"""Settings that environments of many programs play: a program, its batch, dims and dtype, and a chip."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Final, NamedTuple

from memplace_env._lib.errors import EnvError
from memplace_env._lib.foreign import described
from memplace_env.envs.arguments import is_integer
from memplace_env.envs.many.kept_programs import read_kept
from memplace_env.envs.registration import Formulation
from memplace_env.placement.resolve_task import resolve_task
from memplace_env.placement.task import Task
from memplace_env.program.model_file import as_written

FIELDS: Final = ("program", "accelerator", "batch", "dims", "dtype")
"""Names of a setting's parts, in the options of `reset` and in infos."""


_OPTIONS: Final = (*FIELDS, "state", "reset_mask")
"""Options of `reset`; `state` says where an episode begins and `reset_mask` which ones do: environments read these."""


class Setting(NamedTuple):
    """A program on a chip.

    Attributes:
        program: zoo name, `synthetic:...`, or path of a model file.
        accelerator: shipped name, or path of a .toml file.
        batch: size of the batch; None where the program has it fixed, or for its default.
        dims: sizes of other symbolic dims by name, sorted by it.
        dtype: of the program's floating-point tensors; None for its own, or the chip's.
    """

    program: str
    accelerator: str
    batch: int | None = None
    dims: tuple[tuple[str, int], ...] = ()
    dtype: str | None = None

    @classmethod
    def of(cls, options: Mapping[str, Any], chip: str = "") -> Setting:
        """Return the setting that options of `reset` describe, on `chip` if they name none; the program may be empty.

        Raises:
            EnvError: for unknown options, or if a name is no text, a batch no integer or dims no dictionary.
        """
        for key in options:
            if key not in _OPTIONS:
                raise EnvError(f"A reset that draws takes the options {', '.join(FIELDS)}, and no {described(key)}.")
        fields: dict[str, Any] = {"program": "", "accelerator": chip}
        fields |= {key: options[key] for key in FIELDS if options.get(key) is not None}
        for key in ("program", "accelerator", "dtype"):
            if not isinstance(fields.get(key, ""), str):
                raise EnvError(f"The option {key!r} of a reset is a name, not {described(fields[key])}.")
        batch, dims = fields.get("batch"), fields.get("dims", {})
        if isinstance(dims, Mapping):
            sizes = [batch if batch is not None else 1, *dims.values()]
            if all(isinstance(name, str) for name in dims) and all(map(is_integer, sizes)):
                fields["dims"] = tuple(sorted((name, int(size)) for name, size in dims.items()))
                return cls(**fields | {"batch": None if batch is None else int(batch)})
        raise EnvError(
            "The options 'batch' and 'dims' of a reset are an integer and a dictionary from names to integers, not "
            f"{described(batch)} and {described(dims)}."
        )

    @property
    def options(self) -> dict[str, Any]:
        """Options with which `reset` plays this setting again."""
        parts = {**self._asdict(), "dims": dict(self.dims)}
        return {key: part for key, part in parts.items() if part}

    @property
    def info(self) -> dict[str, Any]:
        """The setting as plain values of fixed types, for infos; batch 0, and empty texts, where there is none."""
        dims = ", ".join(f"{name}={size}" for name, size in self.dims)
        return {**self._asdict(), "batch": self.batch or 0, "dims": dims, "dtype": self.dtype or ""}

    def task(self) -> Task:
        """Return the task of the setting, made anew; as in all ids its ops are the file's and share no place.

        Raises:
            MemPlaceError: naming what cannot be resolved.
        """
        settings: dict[str, Any] = {"batch": self.batch, "dims": dict(self.dims) or None, "dtype": self.dtype}
        return resolve_task(self.program, self.accelerator, read=read_kept, **settings, **as_written(self.accelerator))


class Reference(NamedTuple):
    """Latencies that the rewards of a setting are relative to.

    Attributes:
        backing_s: latency with everything in the backing memory, seconds.
        cheap_s: latency of the best plan of rules that search nothing, seconds.
    """

    backing_s: float
    cheap_s: float


@cache
def known_settings(formulation: Formulation) -> Mapping[Setting, Reference]:
    """Return the settings of a formulation that splits draw from, with their references.

    `settings.json` holds them, which `python -m benchmarks run many-programs --write` writes by the rule of its
    docstring.
    """
    table = json.loads(files("memplace_env.envs.many").joinpath("settings.json").read_text("utf-8"))
    settings = {}
    for row in table[Formulation.ONE_SHOT if formulation is Formulation.STEPS else formulation]:
        setting = Setting.of({key: row.get(key) for key in FIELDS} | {"program": row["workload"]})
        settings[setting] = Reference(row["backing_s"], row["cheap_s"])
    return settings
