"""`memplace train`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memplace_env._lib.errors import AgentError, MemPlaceError
from memplace_env.cli.agent_choice import built_in_learners, check_plays, choose_learner
from memplace_env.cli.console import note, print_json, stdout
from memplace_env.cli.model_flags import (
    ModelFlags,
    is_env_id,
    make_env,
    make_registered,
    model_flags,
    posed_by,
    registered_envs,
)
from memplace_env.cli.shared_options import (
    BudgetFlag,
    FolderFlag,
    FormulationFlag,
    JsonFlag,
    LearnerFlags,
    SeedFlag,
    learner_flags,
)
from memplace_env.envs.registration import Formulation, formulation_of_id

if TYPE_CHECKING:
    from memplace_agents.built_in_agents import AgentSpec
    from memplace_env.cli.model_flags import Env
    from memplace_env.cli.runs import TrainingJob


@model_flags()
@learner_flags
def train(
    agent: Annotated[str, typer.Argument(metavar="AGENT", help=f"A learning agent: {', '.join(built_in_learners())}.")],
    envs: Annotated[
        list[str], typer.Argument(metavar="ENV...", help="Ids as 'memplace envs' lists them, or models as for 'solve'.")
    ],
    *,
    budget: BudgetFlag = 4000,
    seed: SeedFlag = 0,
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="Independent runs, each with the next seed.")] = 1,
    resume: Annotated[bool, typer.Option("--resume", help="Continue in --out until the budget is spent.")] = False,
    learner: LearnerFlags,
    played: FormulationFlag = None,
    flags: ModelFlags,
    out: FolderFlag = None,
    json: JsonFlag = False,
) -> None:
    """Train an agent and keep its policy for 'memplace solve --policy'.

    Each seed gets a folder seed-N in out/train-AGENT-ENV with policy.pt, plan.json, history.json, TensorBoard's curves
    and, if the agent can go on from it, checkpoint.pt. Several ENV train one policy for all of them. Flags about the
    model replace single settings of an id. --json prints agent, config, budget, out, and runs: seed, folder, policy and
    workloads of each.
    """
    spec = choose_learner(agent)
    _check_envs(spec, envs)
    from memplace_env._lib.files import alone, is_empty
    from memplace_env.cli.console import check_folder, short_name, slug
    from memplace_env.cli.runs import TrainingJob

    folder = out or Path("out") / slug(f"train-{agent}-" + "+".join(map(short_name, envs)))
    check_folder(folder)
    if not is_empty(folder) and not resume:
        raise MemPlaceError(f"{folder} is not empty; pass --resume to go on with the run in it, or another --out.")
    formulation = Formulation(played) if played else None
    environments = {name: _make(name, flags, formulation, spec) for name in envs}
    with alone(folder):
        job = TrainingJob.claim(spec, learner, environments, budget, folder)
        runs = job.run(range(seed, seed + seeds))
    if json:
        for run in runs:
            for workload in run["workloads"]:
                del workload["history"]
        print_json({"agent": agent, "config": job.config, "budget": budget, "out": str(folder), "runs": runs})
        return
    _show(job, runs)


def _check_envs(spec: AgentSpec, envs: list[str]) -> None:
    """Refuse names that can be refused without making an environment."""
    if len(envs) > 1 and not spec.multi_env:
        raise AgentError(f"{spec.name} trains on one environment at a time, not on {' and '.join(envs)}; pass one.")
    if len({env.lower() for env in envs}) < len(envs):
        raise AgentError(f"{' '.join(envs)} names an environment twice; name each once.")


def _make(name: str, flags: ModelFlags, formulation: Formulation | None, spec: AgentSpec) -> Env:
    """Return the environment with that id, or of a model, if the agent plays it.

    Agents that play no steps get the one-shot environment of an id in steps.
    """
    from memplace_env.envs.one_shot import OneShotEnv

    kind = posed_by(name, formulation)
    if is_env_id(name) and flags == ModelFlags():
        poses = formulation_of_id(name)
        env = make_registered(name, drawn=spec.samples_programs and poses in spec.formulations)
        if poses is Formulation.STEPS and poses not in spec.formulations:
            note(f"{name} is played at once, as the one-shot problem that it is: the plans are the same.")
            env = OneShotEnv(env.task)
    else:
        env = make_env(*flags.registered(name, kind), kind)
    check_plays(spec, kind)
    return env


def _show(job: TrainingJob, runs: list[dict[str, Any]]) -> None:
    from memplace_env.report.quantities import ratio
    from memplace_env.report.tables import add_row, new_table

    console = stdout()
    columns = ("seed", "workload", "speed-up", "plans evaluated", "seconds")
    caption = f"Speed-ups are over {job.formulation.traits.baseline}."
    table = new_table("Runs", *columns, left=(1,), caption=caption)
    for run in runs:
        for item in run["workloads"]:
            spent = item["evaluations"], f"{item['seconds']:.1f}"
            add_row(table, run["seed"], item["workload"], ratio(item["speedup"]), *spent)
    console.print(table, "")
    best = max(runs, key=lambda run: sum(item["speedup"] for item in run["workloads"]))
    console.print(f"Written: {job.folder}", markup=False, soft_wrap=True)
    console.print(f"To use the policy: {_command(job, best['policy'])}", markup=False, soft_wrap=True)


def _command(job: TrainingJob, policy: str) -> str:
    """Return the command line that solves the first environment with a policy."""
    from memplace_agents.registry import DEFAULTS

    name, env = next(iter(job.envs.items()))
    drawn = is_env_id(name) and "programs" in registered_envs()[name].kwargs
    command = ["memplace", "solve", env.program.name if drawn else name]
    named = is_env_id(name) and not drawn  # which says what follows, but that it is to be played in steps
    if job.formulation is Formulation.STEPS or not (named or job.formulation is Formulation.ONE_SHOT):
        command += ["--formulation", job.formulation.value]
    if not named and env.accelerator.name != job.formulation.traits.accelerator:
        command += ["--accelerator", env.accelerator.name]
    if job.agent.name != DEFAULTS.get(job.formulation):
        command += ["--agent", job.agent.name]
    return shlex.join([*command, "--policy", policy])
