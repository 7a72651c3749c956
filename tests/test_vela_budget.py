"""The example that compiles a network for several arenas names the best one."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import patience
from tests.source import ROOT

FAKE = """#!{python}
import sys
from pathlib import Path
at = dict(zip(sys.argv[2::2], sys.argv[3::2]))
kib = int(at["--arena-cache-size"]) // 1024
print("no such system") or sys.exit(1) if at["--system-config"] == "None" else None
seconds = {{64: 3e-3, 128: 5e-3, 256: 2e-3, 384: 2.5e-3}}[kib]
Path(at["--output-dir"], "net_summary_x.csv").write_text(f"network,inference_time\\nnet,{{seconds}}\\n")
"""


@pytest.fixture
def budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Run the example with a compiler that needs most for 128 KiB."""
    (tmp_path / "vela").write_text(FAKE.format(python=sys.executable))
    (tmp_path / "vela").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setenv("SIZES_KIB", "64 128 256 384")

    def run(*options: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, str(ROOT / "examples" / "vela_budget.py"), "net.tflite", *options]
        return subprocess.run(command, capture_output=True, text=True, timeout=patience(60))

    return run


def test_the_best_size_is_named(budget):
    lines = budget("--system-config", "Some").stdout.splitlines()
    rows = [line.split() for line in lines[:-1]]
    assert [(row[0], row[4]) for row in rows] == [("64", "1.00"), ("128", "1.67"), ("256", "1.00"), ("384", "1.25")]
    assert lines[-1] == "Best: --arena-cache-size 262144 (256 KiB), 2.000 ms."


def test_a_failure_of_the_compiler_is_shown(budget):
    done = budget("--system-config", "None")
    assert done.returncode == 1
    assert "Vela failed for 65,536 bytes:\nno such system" in done.stderr


def test_without_the_compiler_the_package_is_named(budget, monkeypatch):
    monkeypatch.setenv("PATH", "")
    done = budget()
    assert done.returncode == 1
    assert "pip install ethos-u-vela" in done.stderr
    assert "Traceback" not in done.stderr
