"""A kind of case for the campaign in which everything goes wrong that can, by the case's number."""

import os
import subprocess
import sys
import time
from itertools import count

import numpy as np

from memplace_env._lib.errors import PlanError
from tests.fuzz import Wrong

NAME = "bad"
_numbers = count(int(sys.argv[3]))


class UnreadableError(PlanError):
    def __str__(self):
        return "a sentence\nand\x1b another"


def prepare(folder):
    (folder / "seed").write_text("there")
    return folder


def case(prepared, rng, folder):
    assert (folder / "seed").read_text() == "there"
    match next(_numbers):
        case 0:
            return True
        case 1:
            return False
        case 2:
            raise PlanError("it is bad; pass another.")
        case 3:
            raise KeyError(f"by {rng.integers(1000)}")
        case 4:
            raise Wrong("an overlap was accepted")
        case 5:
            raise UnreadableError("so")
        case 6:
            return bool(np.ones(2**26).sum())  # 512 MiB
        case 7:
            time.sleep(60)
        case 8:
            os.abort()
        case 10:
            subprocess.run([sys.executable, "-c", "b'x' * 2**29"], check=True)
    return True
