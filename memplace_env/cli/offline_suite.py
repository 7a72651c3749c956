"""`memplace offline-suite`: write offline data of small games in three grades."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from memplace_env.cli.agent_choice import choose_agent
from memplace_env.cli.console import check_folder, print_json, stdout
from memplace_env.cli.dataset import Written, solved
from memplace_env.cli.shared_options import FolderFlag, ForceFlag, JsonFlag


def offline_suite(
    *,
    episodes: Annotated[int, typer.Option("--episodes", min=1, help="Episodes of each grade of a game.")] = 40,
    out: FolderFlag = None,
    force: ForceFlag = False,
    json: JsonFlag = False,
) -> None:
    """Write offline data of six small games in the grades random, rule and expert, in the format of Minari.

    The games are the six of the suite quick-v2 whose ids have the lowest SHA-256; forced decisions are skipped. random
    plays random legal decisions; rule follows the best rule's plan, and expert the exact plan or local search's,
    whichever game returns more, with one decision in fifty random but for the first episode. A score is the return
    where 0 is everything in the backing memory, and 1 the best known plan.

    minari.MinariDataset("OUT/ID/GRADE/data") reads one of the folders; OUT is out/offline-suite if --out is left out.
    --json prints id, grade, dataset_id, data, episodes, steps, mean score (score) and bytes of each.
    """
    from memplace_env._lib.files import alone
    from memplace_env.cli.agent_run import Limits
    from memplace_env.cli.interrupts import reporting
    from memplace_env.cli.model_flags import make_registered
    from memplace_env.envs.datasets.grades import GRADES, OFFLINE, best_return, graded_episodes
    from memplace_env.envs.datasets.minari_folder import DATA, check_free, check_minari, write_minari
    from memplace_env.report.tables import add_row, new_table

    check_minari()
    folder = out or Path("out") / "offline-suite"
    check_folder(folder)
    for place in [folder / env_id / grade for env_id in OFFLINE for grade in GRADES]:
        check_free(place, force)
    rows = list[dict[str, Any]]()
    with alone(folder), reporting(lambda: f"{len(rows)} datasets were written"):
        names = sorted({name for agents, _ in GRADES.values() for name in agents})
        for env_id in OFFLINE:
            env: Any = make_registered(env_id, observation="flat", skip_forced=True)
            specs = [choose_agent(env.formulation, name) for name in names]
            plans: dict[str, Any] = {spec.name: solved(spec.make(), env, Limits(4000, 0), 1)[0].plan for spec in specs}
            best = best_return(env)
            for grade, (agents, epsilon) in GRADES.items():
                written, place, by = Written(), folder / env_id / grade, " or ".join(agents)
                stream = written.counted(graded_episodes(env, [plans[name] for name in agents], epsilon, episodes))
                dataset_id = write_minari(place, env, stream, by, force, grade, best)
                score = sum(written.returns) / episodes / best
                size = sum(path.stat().st_size for path in (place / DATA).iterdir())
                head = {"id": env_id, "grade": grade, "dataset_id": dataset_id, "data": str(place / DATA)}
                rows.append(head | {"episodes": episodes, "steps": written.steps, "score": score, "bytes": size})
    if json:
        print_json(rows)
        return
    shown = new_table(None, "id", "grade", "episodes", "steps", "mean score", "kB", left=(0, 1))
    for row in rows:
        values = (row["episodes"], f"{row['steps']:,}", f"{row['score']:.3f}", f"{row['bytes'] / 1e3:,.0f}")
        add_row(shown, row["id"], row["grade"], *values)
    stdout().print(shown)
    stdout().print(f"Written: {folder}, {sum(row['bytes'] for row in rows) / 1e6:.1f} MB", markup=False, soft_wrap=True)
