"""The observation of one decision: a vector of the same size for every program and chip."""

from __future__ import annotations

from typing import Final

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from memplace_env.envs.placement_env import Observation
from memplace_env.envs.steps.step_features import ENTRY_FEATURES, PROGRAM_FEATURES, STATE_FEATURES
from memplace_env.envs.steps.step_tables import LEVELS

FEATURES: Final = (*ENTRY_FEATURES, *STATE_FEATURES, *PROGRAM_FEATURES)
"""Names of the 68 features, in order."""

OBSERVATION_SIZE: Final = LEVELS + len(FEATURES)
"""Length of a flat observation: the action mask, then the features."""


def flat_space() -> spaces.Box:
    """Return Box(0, 1, (71,) float32), the same for every program and chip.

    Bytes b are shown as b / (b + capacity of that level), times t as t / (t + mean op), where the mean op is that with
    everything in the backing memory. Each pair is about the fast and the middle level; of a middle level that the chip
    has not, bytes show 1, times and free shares 0.

    | numbers                   | meaning                                                                              |
    |---------------------------|--------------------------------------------------------------------------------------|
    | 0..2 `action_mask`        | 1 for levels with room for the entry: fast, middle, backing (always)                 |
    | 3 `weight`                | 1 for weights, 0 for results                                                         |
    | 4 `log_bytes`             | log2(1 + most bytes held at once) / 40                                               |
    | 5, 6 `life`, `log_life`   | ops for which bytes are held over all ops; log2(1 + those ops) / 20                  |
    | 7 `position`              | the op that is the first to read it, or that makes it, over all ops                  |
    | 8 `density_rank`          | number of denser entries over all; density: time saved per byte and op of life       |
    | 9 `density`               | d / (d + mean density)                                                               |
    | 10 `uses`                 | n / (n + 4) for n ops that use it                                                    |
    | 11 `copy`                 | time of its copy in, on chips with streamed weights                                  |
    | 12, 13 `bytes`            | its bytes                                                                            |
    | 14, 15 `denser`           | most bytes at once during its life that denser entries would hold                    |
    | 16, 17 `later`            | the same of the entries that are decided after it                                    |
    | 18, 19 `gain_alone`       | time that it alone saves, with everything else in the backing memory                 |
    | 20, 21 `gain_last`        | time that it saves with all other entries in their fastest levels                    |
    | 22..33 `position` waves   | of the position: sines of 1, 2, 4, .. 32 half turns, then cosines; (1 + wave) / 2    |
    | 34..45 `rank` waves       | of the density rank, likewise                                                        |
    | 46, 47 `free`             | fewest free bytes during its life over the capacity                                  |
    | 48, 49 `left`             | the same after its own bytes                                                         |
    | 50, 51 `saves`            | time that it saves now, with undecided entries in the backing memory                 |
    | 52, 53 `would_save`       | time that it saves now, with undecided entries in their fastest levels               |
    | 54, 55 `held`             | mean share of the level that decided entries hold                                    |
    | 56, 57 `fullest`          | largest share of it that is taken in any op                                          |
    | 58 `progress`             | decided entries over all                                                             |
    | 59 `latency`              | estimated latency over that with everything in the backing memory                    |
    | 60 `gain_so_far`          | time saved so far over that saved if everything found room in the fastest level      |
    | 61 `speedup`              | s / (1 + s) for the estimated speed-up s over native                                 |
    | 62, 63 `capacity`         | capacity c as c / (c + bytes of all weights and results)                             |
    | 64, 65 `traffic`          | time t of all reads and writes there as t / (t + that in the backing memory)         |
    | 66 `compute`              | compute time of all ops over the latency with everything in the backing memory       |
    | 67, 68 `log_ops`, `log_entries` | log2(1 + n) / 20 of the numbers of ops and of entries                          |
    | 69 `streamed`             | 1 if each inference starts with the weights in the backing memory                    |
    | 70 `has_middle`           | 1 if the chip has three levels                                                       |
    """
    return spaces.Box(0, 1, (OBSERVATION_SIZE,), np.float32)


def dict_space() -> spaces.Dict:
    """Return the space of `observation="dict"`: `features` are numbers 3..70 of `flat_space`; `action_mask` int8[3]."""
    return spaces.Dict(
        {
            "features": spaces.Box(0, 1, (len(FEATURES),), np.float32),
            "action_mask": spaces.Box(0, 1, (LEVELS,), np.int8),
        }
    )


def in_form(rows: NDArray[np.float32], flat: bool) -> Observation:
    """Return observations float32[..., 71] as they are, or as the arrays of a Dict."""
    if flat:
        return rows
    mask = rows[..., :LEVELS].astype(np.int8)
    return {"features": rows[..., LEVELS:], "action_mask": mask}
