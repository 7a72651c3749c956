"""The sequential environment, mallocGame."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Unpack

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from memplace_env.envs.arguments import checked_flag
from memplace_env.envs.batch.sequential_env import SCALES, Info, SequentialEnv
from memplace_env.envs.batch.sequential_vector import SequentialVectorEnv
from memplace_env.envs.malloc_game.flat import MASK, flat_space
from memplace_env.envs.malloc_game.game_batch import GameBatch, Seen
from memplace_env.envs.malloc_game.graph import STATE_COLUMNS, state_columns
from memplace_env.envs.malloc_game.observation import Observations, dict_space
from memplace_env.envs.malloc_game.problem import MallocGameProblem
from memplace_env.envs.malloc_game.state import ACTIONS
from memplace_env.envs.many.drawn import MOST_LOADED, Drawn, drawn_problem
from memplace_env.envs.many.draws import Draws
from memplace_env.envs.many.setting import Setting
from memplace_env.envs.one_shot.graph import TASK_COLUMNS, graph_space
from memplace_env.envs.placement_env import Observation, Observed
from memplace_env.envs.registration import Formulation
from memplace_env.machine.accelerator import Accelerator
from memplace_env.placement.resolve_task import TaskOptions
from memplace_env.placement.task import Task
from memplace_env.program.program import Ints, Program


class MallocGameEnv(SequentialEnv[MallocGameProblem, GameBatch]):
    """Decide use by use which tensors live in fast memory, and when they move there and back.

    | specification | the same for every program and chip                                                           |
    |---------------|-----------------------------------------------------------------------------------------------|
    | action        | `Discrete(3)`: Copy, NoCopy, Drop                                                             |
    | observation   | `Dict` of six arrays; flat: `Box(0, 1, (546,))`, by index in `flat.flat_space`                |
    | reward        | percent of the latency with all in the backing memory that a decision saves; their sum ≤ 100  |
    | horizon       | number of uses, 635 of BERT, of which half are forced; gamma must be 1                        |
    | BERT          | mean return of 100 random games of legal actions 2.2, proven optimum 6.2                      |

    ## Description
    The formulation of mallocMuZero (Wang et al., arXiv 2305.07440), a single-player game, on a machine with a fast
    and a backing memory. Weights and inputs start in the backing memory, graph outputs must end there. The decisions
    are the uses of tensors in execution order: for each op its distinct operands, then its results. Copies run
    beside the ops in the time that these leave of the backing memory's port. An op waits for a late copy in. It also
    waits for a write-back if it reads that data from the backing memory, or needs its room. `rules` has the rules.
    The paper also describes alias groups and a drop-backup for dead ends: here views share one tensor, and data that
    exists nowhere else is protected, so that some action is always legal.

    ## Action space
    `Discrete(3)`:

    - 0 Copy: an operand that is not in fast memory is copied there; if it comes late, the op waits. An operand that is
      only there is used and sent back to the backing memory. A result is made in fast memory and sent back.
    - 1 NoCopy: use the operand where it lies in fast memory, or make the result there, and no more.
    - 2 Drop: read the operand from the backing memory, or write the result there.

    A result in fast memory that may take an operand's place (`in_place`) does so if the operand's block ends with its
    op and is not being sent back. Then it needs no other room.

    The mask marks the legal actions. An illegal one is replaced by Drop. If Drop is illegal too, or must wait, NoCopy
    is played, or else Copy. `info` reports it.

    ## Observation space
    `Dict`, see `observation.dict_space` for every field: `profile` uint8 (2, 64, 64), `bandwidth` (64,),
    `tensor` (17,), `lookahead` (32, 12), `progress` (6,), `action_mask` int8 (3,).

    `observation="flat"`: one vector instead, Box(0, 1, (546,) float32), for a plain MLP: the same with the profile and
    the bandwidth eight times coarser; `flat.flat_space` lists every number.

    `observation="graph"`: Gymnasium's `Graph` of the ops, see `one_shot.graph` and `graph.STATE_COLUMNS`.

    ## Reward
    `reward="percent"` (default): the drop of the estimated latency, in percent of the latency with everything in the
    backing memory. The estimate has decided ops as they are, everything undecided in the backing memory, and all waits
    so far. So the reward of a decision includes its own wait; that of the last one also has the copies that are still
    under way. The return is 100 * (1 - latency / latency(all backing)), at most 100, and negative where waits cost more
    than fast memory saves. Such returns are of order one, as learners with default settings need them. Random games of
    BERT return 2.2 with a standard deviation of 0.35, its proven optimum 6.2; elsewhere optima lie between about 2 and
    97. Rewards telescope, so learn with gamma = 1.

    `"fraction"`: the same divided by 100.

    `"gain"`, with `programs`: 100 is the gain of the program's best cheap plan. Cheap plans are those of XLA's solver
    with its public options and of the greedy player; of programs outside the list the greedy player's alone; of
    synthetic ones the planted optimum is 100. A gain below 1 % of the latency counts as 1 %, which limits good rewards;
    bad ones have no limit.

    With a `simulator` the estimate still comes from the cost arrays. The last decision adds the difference to the
    simulator's latency, so the return is that of the simulator.

    ## As a decision process
    The state (`get_state()`) is where each tensor's data and blocks are, and how much of the port's time is taken.
    Transition and reward are deterministic; the program fixes the horizon. Observations are not Markov: they show
    addresses in 64 bins (flat: 8) and 32 decisions ahead, but not which tensor a block holds, nor its next use.

    ## Episode end
    After the last use (`terminated=True`); every game of a program has the same length.

    ## Info
    `latency_s`: estimated, exact at the end; `played`: the action that was played, -1 after `reset`; `illegal`: whether
    that differs from the action passed. With `skip_forced` also `skipped`: how many forced decisions were played
    after it, or by `reset` before the first one with a choice. With `optimum=True`, as in `MallocGame-Tiny-v0`, also
    `optimal_latency_s` and `optimal_return`, which are known for planted programs only.
    With `programs` also the setting: `program`, `accelerator`, `dims` and `dtype` as texts, `batch` as a number, 0
    where it is fixed; `env.unwrapped.setting.options` are the options of `reset` that draw it again. Synthetic programs
    add `optimal_latency_s` and `optimal_return`, NaN if no optimum is planted on this chip.

    ## Arguments
    As `OneShotEnv` (`workload`, `accelerator`, `simulator`, `batch`, `dims`, `dtype`, `fusion`, `in_place`, `patterns`,
    `trips`, `values`, `cut`, `aliases`, `costs`, `observation`, `optimum`); the default accelerator is `"tpu-v4i"`. Any
    machine with two levels will do; one with resident weights is replaced by a copy that streams them, named so in
    `accelerator.name`: `"edge-tpu-streamed"`.
    A program that updates its weights needs such a name, or a chip that streams weights.

    And `reward`, see above; `skip_forced`: True plays decisions with a single legal action at once. These are half
    of BERT's 635: about 310 in a random game, 346 in the greedy player's. Their rewards are added to that of the step
    before them, so that the return is the same; those before the first choice earn nothing. Each step then has two or
    three legal actions. In a program without any choice, `reset` leaves the last decision.

    `programs`, instead of a workload: "train", "validation", "test" or "synthetic", or a distribution of your own, see
    `many.draws.Draws`. Each `reset` draws a program, its batch, dims and dtype, and a chip, from the environment's own
    generator; its options `program`, `accelerator`, `batch`, `dims` and `dtype` narrow the draw. If no setting of the
    distribution agrees with them, the environment takes them as they are. `MallocGame-Train-v0` and its like are made
    so, with `reward="gain"` and `skip_forced=True`.

    ## Version history
    - v0: first version.
    """

    formulation = Formulation.GAME
    metadata = {"render_modes": ["rgb_array", "ansi"], "render_fps": 8}  # noqa: RUF012
    ACTIONS = ACTIONS
    state_columns = staticmethod(state_columns)
    graph_columns = (*TASK_COLUMNS, *STATE_COLUMNS)
    mask_slice = MASK

    def __init__(
        self,
        workload: str | Program | Task | None = None,
        accelerator: str | Accelerator = "tpu-v4i",
        render_mode: str | None = None,
        observation: str = "dict",
        reward: str = "percent",
        optimum: bool = False,
        skip_forced: bool = False,
        programs: str | Draws | None = None,
        **options: Unpack[TaskOptions],
    ) -> None:
        self.skip_forced = checked_flag("skip_forced", skip_forced)
        super().__init__(
            workload,
            accelerator,
            programs,
            reward=reward,
            rewards=[*SCALES],
            optimum=optimum,
            render_mode=render_mode,
            observation=observation,
            options=options,
        )
        space: spaces.Space[Any] = flat_space() if self.flat else dict_space()
        self.observation_space = graph_space(self.graph_columns) if self.graph else space

    def drawn(self, setting: Setting) -> Drawn[MallocGameProblem]:
        """Return the game of a setting, see `drawn_game`."""
        return drawn_game(setting)

    def problem_of(self, task: Task) -> MallocGameProblem:
        """Return the game of a task."""
        return MallocGameProblem(task)

    def start_of(self, problem: MallocGameProblem, state: Ints | None = None) -> Ints:
        """Return the state in which a game begins, with `skip_forced` before the first decision with a choice."""
        if state is None:
            return problem.first_choice if self.skip_forced else problem.first_state
        return problem.without_forced(state) if self.skip_forced else state

    def steps_of(self, problem: MallocGameProblem) -> int:
        """Return the steps of a game; with `skip_forced`, where games differ, the mean of random ones."""
        return problem.num_choices if self.skip_forced else problem.num_decisions

    def new_batch(self, problems: list[MallocGameProblem], states: list[Ints]) -> GameBatch:
        """Return games in copies of these states."""
        return GameBatch(problems, states, self.flat or self.graph)

    def play(
        self, batch: GameBatch, actions: Ints, scale: float | NDArray[np.float64], seen: Seen
    ) -> tuple[NDArray[np.float64], Info]:
        """Play an action int64[B] in each game, see `SequentialEnv.play`."""
        moves = batch.step(actions, seen, self.skip_forced)
        fractions, latency_s = batch.settle(moves)
        info = {"latency_s": latency_s, "played": moves.played, "illegal": moves.played != actions}
        if self.skip_forced:
            info["skipped"] = moves.skipped
        return scale * fractions, info

    def first_infos(self, batch: GameBatch) -> Info:
        """Return the infos of games that have just begun, arrays of length B."""
        none = np.full(len(batch), -1)
        info = {"latency_s": batch.latency_s(), "played": none, "illegal": none == 0}
        return info | {"skipped": batch.heads[:, batch.DECIDED].copy()} if self.skip_forced else info

    def form_of(self, seen: Seen) -> Observation:
        """Return observations in the form that Gymnasium takes."""
        return seen._asdict() if isinstance(seen, Observations) else seen

    def step(self, action: int | np.integer) -> tuple[Observed, float, bool, bool, dict[str, Any]]:
        """Play one decision; errors as in `SequentialEnv.step`."""
        observation, reward, over, truncated, info = super().step(action)
        self.problem.evaluated += over and not self.task.is_black_box  # `settle` counts those of a black box
        return observation, reward, over, truncated, info

    @property
    def latency_s(self) -> float:
        """Estimated latency in seconds; once the game is over its plan's latency, by the simulator if there is one."""
        if self.task.is_black_box and self._batch.done()[0]:
            return self.report().latency_s
        return float(self._batch.latency_s()[0])

    def get_state(self) -> Ints:
        """Return a copy of the state, int64[size]."""
        state = super().get_state()
        self.problem.known.add(state)
        return state

    def _view(self, mode: str) -> Any:
        from memplace_env.envs.malloc_game.viewer.viewer import render

        return render(self.problem, self._state, mode)


class MallocGameVectorEnv(SequentialVectorEnv[MallocGameEnv]):
    """`num_envs` games of `MallocGameEnv` in one; takes the same arguments, and those of `SequentialVectorEnv`."""

    single = MallocGameEnv


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

    return drawn_problem(setting, Formulation.GAME, problem, greedy_s)
