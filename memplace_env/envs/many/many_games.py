"""The game with another program in each episode."""

from __future__ import annotations

from functools import lru_cache

from memplace_env.envs.malloc_game.env import MallocGameEnv
from memplace_env.envs.malloc_game.problem import MallocGameProblem
from memplace_env.envs.many.drawn import MOST_LOADED, Drawn, drawn_problem
from memplace_env.envs.many.many_env import ManyProgramsEnv
from memplace_env.envs.many.setting import Setting
from memplace_env.envs.registration import Formulation
from memplace_env.program.program import Ints


@lru_cache(maxsize=MOST_LOADED)
def drawn_game(setting: Setting) -> Drawn[MallocGameProblem]:
    """Return the game of a setting, made once and shared by all environments of the process.

    Raises:
        MemPlaceError: naming what cannot be resolved.
    """
    problem = MallocGameProblem(setting.task())

    def greedy_s() -> float:
        states = problem.new_states(1)
        problem.finish_greedily(states)
        return float(problem.latency_s(states)[0])

    parts = problem.tables, problem.layout, problem.unchanging
    return drawn_problem(setting, Formulation.GAME, problem, parts, problem.all_backing_ps, problem.task, greedy_s)


class MallocGameManyEnv(ManyProgramsEnv, MallocGameEnv):
    """Play mallocGame on programs that `reset` draws, one for all of them in spaces that never change.

    ## Description
    Everything is as in `MallocGameEnv`, but each `reset` draws a program, its batch, dims and dtype, and a chip, from
    the environment's own generator. `many.draws` says how; docs/environments.md counts what there is. Before the first
    `reset` the program is the first of the list.

    ## Reward
    `reward="gain"` (default): the drop of the estimated latency, in percent of what the best cheap plan of this program
    gains over everything in the backing memory: a return of 100 is as good as that plan, more is better. Cheap plans
    are those of XLA's solver with its public options and of the greedy player; of programs outside the list the greedy
    player alone; of synthetic ones the planted optimum is 100. A gain below 1 % of the latency counts as 1 %, so that
    no reward grows beyond all bounds. `"percent"`: as `MallocGameEnv`, in percent of the latency with everything in
    the backing memory. Both telescope, so learn with gamma = 1.

    ## Options of `reset`
    `program`, `accelerator`, `batch`, `dims`, `dtype`: what is drawn agrees with those given. If nothing of the split
    does, the setting is what they say and need not belong to the split, with defaults as in `gym.make`.

    ## Info
    As `MallocGameEnv`, and the setting: `program`, `accelerator`, `dims` and `dtype` as texts, `batch` as a number, 0
    where it is fixed. `env.unwrapped.setting.options` are the options that draw it again. The synthetic distribution
    adds `optimal_latency_s` and `optimal_return`, NaN if no optimum is planted on this chip.

    ## Arguments
    `split`: "train", "validation", "test" or "synthetic". `render_mode`, `observation`: as `MallocGameEnv`. `reward`:
    see above. `skip_forced`: as there, but on by default.

    ## Version history
    - v0: first version.
    """

    def __init__(
        self,
        split: str = "train",
        render_mode: str | None = None,
        observation: str = "dict",
        reward: str = "gain",
        skip_forced: bool = True,
    ) -> None:
        self._prepare(split, reward)
        first = drawn_game(self.draws.first)
        MallocGameEnv.__init__(
            self, first.problem.task, "", render_mode, observation, "percent", skip_forced=skip_forced
        )
        self.turn_to(first)

    def drawn(self, setting: Setting) -> Drawn[MallocGameProblem]:
        """Return the game of a setting, shared by all environments of the process.

        Raises:
            MemPlaceError: naming what cannot be resolved.
        """
        return drawn_game(setting)

    def first_of(self, drawn: Drawn[MallocGameProblem]) -> Ints:
        """Return the state int64[size] in which an episode of that game begins; read-only."""
        return drawn.problem.first_choice if self.skip_forced else drawn.problem.first_state

    def _turn_to(self, drawn: Drawn[MallocGameProblem]) -> None:
        self.problem, self.task, self.reward_scale = drawn.problem, drawn.problem.task, drawn.scale(self.unit)
        self._begin(self.first_of(drawn))
