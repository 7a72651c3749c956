"""Submit to the leaderboard.

A row of the leaderboard is a folder: the agent's plans, its learning curves, and who made it. Everybody can verify it,
because plans are replayed. This page makes a small one and looks at it.
"""

import json
import subprocess
import sys
from pathlib import Path

# ## Run
#
# The agent is [the hill climber](own_agent.py) of another page, `module:Class`. Each run is a process of its own, and a
# judge in another process counts plans and time. A real submission leaves `--budget` out and takes all budgets of the
# suite.


def memplace(*arguments):
    """Run a command where `own_agent.py` lies, and return what it prints."""
    command = [sys.executable, "-m", "memplace", *arguments]
    return subprocess.run(command, cwd=Path(__file__).parent, check=True, capture_output=True, text=True).stdout


mine = str(Path("mine").absolute())
memplace(
    "leaderboard", "run", "own_agent:Climber", "--budget", "10", "--deterministic", "--name", "mine", "--out", mine
)
print(sorted(path.name for path in Path(mine).iterdir()))

# ## Verify
#
# Every plan is checked and timed again; an edited number is named.

(result,) = json.loads(memplace("leaderboard", "verify", mine, "--json"))
print(result["plans"], "plans, all valid:", result["ok"])

# ## Look at it
#
# `memplace leaderboard table mine` shows it beside the rules that need no search, and `memplace leaderboard page mine
# --out site` draws a page to explore. Then open a pull request that adds the folder to `benchmarks/submissions/`:
# [how a row gets onto the leaderboard](../docs/submit.md) says who runs it again, and what is refused.
