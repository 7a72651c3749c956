"""`memplace train`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memplace_env.cli.console import print_json, stdout
from memplace_env.cli.formulations import TRAITS, Formulation, check_plays, known_agents
from memplace_env.cli.learners import LEARNERS, ConfigFlag, PolicyFlag, SetFlag, to_install
from memplace_env.cli.options import (
    AcceleratorFlag,
    BatchFlag,
    DimFlag,
    DtypeFlag,
    FusionFlag,
    JsonFlag,
    ModelFlags,
    SimulatorFlag,
)
from memplace_env.errors import AgentError, MemPlaceError

if TYPE_CHECKING:
    from memplace_env.cli.runs import Job
    from memplace_env.cli.subject import Subject


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog="Example: memplace train egrl MemPlace-BERT-v0 --budget 4000 --seeds 3 --out out/bert")(train)


def train(
    agent: Annotated[str, typer.Argument(metavar="AGENT", help=f"Who learns: {', '.join(LEARNERS)}.")],
    envs: Annotated[
        list[str], typer.Argument(metavar="ENV...", help="Ids as 'memplace envs' lists them, or models as for 'solve'.")
    ],
    budget: Annotated[int, typer.Option("--budget", min=1, help="Plans to evaluate at most, of each ENV.")] = 4000,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of the first run.")] = 0,
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="Independent runs, each with the next seed.")] = 1,
    resume: Annotated[bool, typer.Option("--resume", help="Go on in --out until the budget is spent.")] = False,
    policy: PolicyFlag = None,
    config: ConfigFlag = None,
    settings: SetFlag = None,
    formulation: Annotated[
        Formulation | None, typer.Option("--formulation", help="Of models; ids say it.", show_default="one-shot")
    ] = None,
    accelerator: AcceleratorFlag = None,
    batch: BatchFlag = None,
    dim: DimFlag = None,
    dtype: DtypeFlag = None,
    fusion: FusionFlag = None,
    simulator: SimulatorFlag = None,
    out: Annotated[Path | None, typer.Option("--out", help="Folder; default out/train-AGENT-ENV.")] = None,
    json: JsonFlag = False,
) -> None:
    """Train an agent and keep its policy for 'memplace solve --policy'.

    Each seed gets a folder seed-N with policy.pt, plan.json, history.json, TensorBoard's curves and, if the agent can
    go on from it, checkpoint.pt. Several ENV train one policy for all of them. Flags about the model are for models,
    not for ids. --json prints agent, config, budget, out, and runs: seed, folder, policy and workloads of each.
    """
    flags = ModelFlags.parse(accelerator, batch, dim, dtype, fusion, simulator)
    from memplace_env.cli.output import check_folder
    from memplace_env.cli.runs import Job, slug

    _check(agent, envs)
    folder = out or Path("out") / slug(f"train-{agent}-" + "+".join(_short(env) for env in envs))
    check_folder(folder)
    if folder.exists() and any(folder.iterdir()) and not resume:
        raise MemPlaceError(f"{folder} is not empty; pass --resume to go on with the run in it, or another --out.")
    subjects = {env: _subject(env, flags, formulation) for env in envs}
    for subject in subjects.values():
        check_plays(subject.formulation, agent)
    job = Job.claim(agent, (config, tuple(settings or ()), policy), subjects, budget, folder)
    runs = job.run(range(seed, seed + seeds))
    if json:
        for run in runs:
            for workload in run["workloads"]:
                del workload["history"]
        print_json({"agent": agent, "config": job.config, "budget": budget, "out": str(folder), "runs": runs})
        return
    _show(job, runs)


def _check(agent: str, envs: list[str]) -> None:
    """Refuse what no environment has to be made for."""
    if agent not in LEARNERS:
        able = ", ".join(LEARNERS)
        if any(agent in known for known in known_agents().values()):
            raise AgentError(f"{agent} does not learn, so there is nothing to train; agents that do: {able}.")
        raise AgentError(f"No learning agent is called {agent!r}; there are: {able}.")
    lacking = to_install(agent)
    if lacking:
        raise AgentError(lacking)
    if len(envs) > 1 and not LEARNERS[agent].several:
        raise AgentError(f"{agent} trains on one environment at a time, not on {' and '.join(envs)}; pass one.")
    if len({env.lower() for env in envs}) < len(envs):
        raise AgentError(f"{' '.join(envs)} names an environment twice; name each once.")


def _short(env: str) -> str:
    """What a folder is called after: the id, the model's name, or the stem of its file."""
    return Path(env).stem if env.lower().endswith(".onnx") else env


def _subject(env: str, flags: ModelFlags, formulation: Formulation | None) -> Subject:
    """The environment with that id, or that of a model."""
    from memplace_env.cli.subject import is_id, subject_of, subject_of_id

    if not is_id(env):
        kind = formulation or Formulation.ONE_SHOT
        return subject_of(*flags.registered(env, kind), kind)
    subject = subject_of_id(env)
    if flags != ModelFlags() or formulation not in (None, subject.formulation):
        raise MemPlaceError(f"{env} has settings of its own; leave out the flags about the model, or name a model.")
    return subject


def _show(job: Job, runs: list[dict[str, Any]]) -> None:
    from memplace_env.views.tables import add_row, new_table
    from memplace_env.views.units import ratio

    console = stdout()
    traits = TRAITS[job.formulation]
    columns = ("seed", "workload", "speed-up", "plans evaluated", "seconds")
    table = new_table("Runs", *columns, left=(1,), caption=f"Speed-ups are over {traits.baseline}.")
    for run in runs:
        for item in run["workloads"]:
            spent = item["evaluations"], f"{item['seconds']:.1f}"
            add_row(table, run["seed"], item["workload"], ratio(item["speedup"]), *spent)
    console.print(table, "")
    best = max(runs, key=lambda run: sum(item["speedup"] for item in run["workloads"]))
    env, subject = next(iter(job.subjects.items()))
    command = ["memplace", "solve", env if env not in _ids(job) else subject.env.program.name]
    if job.formulation is not Formulation.ONE_SHOT:
        command += ["--formulation", job.formulation.value]
    if subject.env.accelerator.name != traits.accelerator:
        command += ["--accelerator", subject.env.accelerator.name]
    if job.agent != traits.agent:
        command += ["--agent", job.agent]
    command += ["--policy", best["policy"]]
    console.print(f"Written: {job.folder}", markup=False, soft_wrap=True)
    console.print(f"To use the policy: {shlex.join(command)}", markup=False, soft_wrap=True)


def _ids(job: Job) -> list[str]:
    from memplace_env.cli.subject import is_id

    return [env for env in job.subjects if is_id(env)]
