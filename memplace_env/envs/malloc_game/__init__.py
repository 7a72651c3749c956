"""The sequential formulation: mallocGame, as in mallocMuZero."""

from memplace_env.envs.malloc_game.env import MallocGameEnv, MallocGameVectorEnv
from memplace_env.envs.malloc_game.game_batch import GameBatch
from memplace_env.envs.malloc_game.plan_actions import nearest_actions
from memplace_env.envs.malloc_game.problem import MallocGameProblem

__all__ = ["GameBatch", "MallocGameEnv", "MallocGameProblem", "MallocGameVectorEnv", "nearest_actions"]
