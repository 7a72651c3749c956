"""Reference pages that are made of the code: environments, public names, and the command line."""

import importlib
import inspect
from collections.abc import Iterator
from enum import Enum
from typing import Any

import gymnasium as gym
import typer
from typer.core import TyperCommand, TyperGroup

from memplace_env import best_known
from memplace_env.envs.best_known import known_id, known_results
from memplace_env.envs.registration import Formulation
from memplace_env.report.tables import markdown_table
from scripts.docs_site.docstrings import markdown_of, signature_of

ENVIRONMENTS = {
    "one-shot": ("memplace_env.envs.one_shot:OneShotEnv", "memplace_env.envs.one_shot.flat:flat_space"),
    "steps": ("memplace_env.envs.steps:StepsEnv", "memplace_env.envs.steps.observation:flat_space"),
    "game": ("memplace_env.envs.malloc_game:MallocGameEnv", "memplace_env.envs.malloc_game.flat:flat_space"),
}
"""Specifications of the formulations: the environment's docstring, and that of its flat observation."""
MODULES = {
    "python-api": ("memplace_env", "Public names of memplace_env"),
    "wrappers": ("memplace_env.envs.wrappers", "Wrappers and adapters"),
    "agents": ("memplace_agents", "Public names of memplace_agents"),
    "testing": ("memplace_env.testing", "Checks for your own parts"),
}


def reference_pages() -> dict[str, str]:
    """Return the text of each reference page by its path on the site."""
    pages = {f"reference/{name}.md": environment_page(name) for name in ENVIRONMENTS}
    pages |= {f"reference/{name}.md": module_page(*module) for name, module in MODULES.items()}
    return {"reference/command-line.md": command_line_page(), **pages}


def environment_page(name: str) -> str:
    """Return the specification of a formulation: docstrings, an episode of its smallest id, and scores of its ids."""
    spec, flat = (_named(target) for target in ENVIRONMENTS[name])
    prefix = Formulation(name).traits.prefix
    head = ["id", "random", "best rule", "best known", "best known episode", "proven", "reward threshold"]
    rows = [
        [*row, "yes" if proven else "no", "–" if threshold is None else f"{threshold:.4f}"]
        for *row, proven, threshold in _scores(prefix)
    ]
    parts = [
        f"# {spec.__name__}",
        markdown_of(spec.__doc__),
        f"## An episode\n\n![{prefix}-Tiny-v0, played as the exact agent's plan says](../pictures/{name}.gif)",
        f"## The flat observation, number by number\n\n{markdown_of(flat.__doc__)}",
        "## Returns\n\nReturns of the default reward; `memplace_env.best_known` gives them.",
        markdown_table(head, rows),
    ]
    return "\n\n".join(parts) + "\n"


def _named(target: str) -> Any:
    module, _, name = target.partition(":")
    return getattr(importlib.import_module(module), name)


def _scores(prefix: str) -> Iterator[tuple[Any, ...]]:
    """Yield the returns of each id with that prefix, whether the best is proven, and the threshold."""
    for env_id, spec in sorted(gym.registry.items()):
        if env_id.startswith(f"{prefix}-") and known_id(env_id) in known_results():
            known = best_known(env_id)
            returns = known.random_return, known.rule_return, known.best_return, known.reachable_return
            yield f"`{env_id}`", *(f"{value:.4f}" for value in returns), known.proven, spec.reward_threshold


def module_page(name: str, title: str) -> str:
    """Return the page of a package: each public name with its signature and docstring."""
    package = importlib.import_module(name)
    own = [each for each in package.__all__ if not each.startswith("_")]
    parts = [f"# {title}", markdown_of(package.__doc__ or "")]
    return "\n\n".join([*parts, *(entry(each, getattr(package, each)) for each in own)]) + "\n"


def entry(name: str, part: Any) -> str:
    """Return what a public name is: heading, signature, docstring, and a class's own methods and properties."""
    if inspect.ismodule(part):
        return f"## {name}\n\n{markdown_of(part.__doc__ or '')}"
    lines = [f"## {name}", f"```python\n{signature_of(name, part)}\n```"]
    docstring = inspect.getdoc(part) or ""
    if inspect.isclass(part) and "## Description" in docstring:
        return "\n\n".join(
            [f"## {name}", docstring.partition("\n")[0] + " It has a page of its own in this reference."]
        )
    lines.append(markdown_of(docstring))
    if inspect.isclass(part) and not issubclass(part, Enum | Exception):
        lines += members(part)
    return "\n\n".join(lines)


def members(part: type) -> Iterator[str]:
    """Yield the public methods and properties that a class defines itself and says something about."""
    for name, member in vars(part).items():
        function = member.__func__ if isinstance(member, classmethod | staticmethod) else member
        docstring = inspect.getdoc(function.fget if isinstance(function, property) else function)
        if name.startswith("_") or not docstring:
            continue
        if isinstance(function, property):
            yield f"### {part.__name__}.{name}\n\n{markdown_of(docstring)}"
        elif inspect.isfunction(function):
            call = signature_of(name, function)
            yield f"### {part.__name__}.{name}\n\n```python\n{call}\n```\n\n{markdown_of(docstring)}"


def command_line_page() -> str:
    """Return the page of all commands, with what `--help` says of each."""
    from memplace_env.cli.app import app

    parts = ["# Command line", "All commands with all flags, as `--help` lists them."]
    parts.append("[Commands](../commands.md) shows them by purpose.")
    return "\n\n".join([*parts, *commands("memplace", typer.main.get_command(app))]) + "\n"


def commands(name: str, command: TyperCommand | TyperGroup) -> Iterator[str]:
    """Yield the sections of a command, or of all commands of a group."""
    inner = getattr(command, "commands", None)
    if inner:
        for each, part in inner.items():
            yield from commands(f"{name} {each}", part)
        return
    yield f"## {name}\n\n{inspect.cleandoc(command.help or '')}"
    example = (command.epilog or "").strip().removeprefix("Example: ")
    if example:
        yield f"```\n{example}\n```"
    rows = [row(each) for each in command.params if not getattr(each, "hidden", False)]
    yield "\n".join(["| argument or flag | meaning |", "|---|---|", *rows])


def row(parameter: Any) -> str:
    """Return a row of a table about an argument or a flag."""
    names = [parameter.metavar or parameter.name.upper()] if parameter.param_type_name == "argument" else parameter.opts
    default = parameter.default
    if callable(default) or default in (None, False, (), []) or parameter.param_type_name == "argument":
        suffix = ""
    else:
        value = default.value if isinstance(default, Enum) else default
        suffix = f" The default is `{value}`."
    text = (parameter.help or "").replace("|", "\\|")
    return f"| {' '.join(f'`{name}`' for name in names)} | {text}{suffix} |"
