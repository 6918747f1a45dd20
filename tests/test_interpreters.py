"""Every Python that the project names compiles its files without a warning, where it is installed."""

import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PREFIX = "Programming Language :: Python :: 3."
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
VERSIONS = [line.removeprefix(PREFIX) for line in PROJECT["classifiers"] if line.startswith(PREFIX)]
COMPILE = """
import pathlib, sys
for folder in sys.argv[1:]:
    for path in pathlib.Path(folder).rglob("*.py"):
        compile(path.read_bytes(), str(path), "exec")
"""


@pytest.mark.parametrize("minor", VERSIONS)
def test_an_interpreter_compiles_every_file(minor: str) -> None:
    program = shutil.which(f"python3.{minor}")
    if program is None or subprocess.run([program, "-c", ""], capture_output=True).returncode:
        pytest.skip(f"python3.{minor} is not on PATH")
    command = [
        program,
        "-W",
        "error",
        "-c",
        COMPILE,
        *(str(ROOT / name) for name in ("ipc", "stages", "node", "tools")),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=50)
    assert done.returncode == 0, done.stderr


def test_the_whole_suite_runs_with_the_same_interpreters() -> None:
    script = (ROOT / ".ci" / "run").read_text()
    assert [f"python3.{minor}" for minor in VERSIONS] == script.partition("for python in ")[2].partition(";")[0].split()
