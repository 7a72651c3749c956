"""Completion in a shell: the script that the command prints, run by bash."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
eval "$(memplace --show-completion bash)"
complete -p memplace
complete_line() { COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)); _memplace_completion memplace; echo "${COMPREPLY[@]}"; }
complete_line memplace lead
complete_line memplace solve --accel
"""


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_completes_commands_and_options():
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    variables = {**os.environ, "PATH": path, "SHELL": "bash"}
    ended = subprocess.run(["bash", "-c", SCRIPT], env=variables, capture_output=True, text=True)
    bound = "complete -o default -F _memplace_completion memplace"
    assert (ended.stdout.splitlines(), ended.stderr) == ([bound, "leaderboard", "--accelerator"], "")
