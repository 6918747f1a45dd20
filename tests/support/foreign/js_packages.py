"""The packages of the foreign peers written in JavaScript (tests/interop/js): installed once beside them by npm, as the
lock file pins them."""

import fcntl
import shutil
import subprocess
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "interop" / "js"
_INSTALL = ("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--fetch-retries=1", "--loglevel=error")
_INSTALL_SECONDS = 50


def need_packages() -> None:
    """Make sure that the packages are installed, or skips the test with the reason."""
    for program in ("node", "npm"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed: no foreign peers in JavaScript")
    if int(_version("node").removeprefix("v").partition(".")[0]) < 20:
        pytest.skip(f"node {_version('node')} is older than v20: no foreign peers in JavaScript")
    try:
        _install()
    except (OSError, subprocess.SubprocessError) as error:
        pytest.skip(f"the npm packages of tests/interop/js cannot be installed: {_short(error)}")


def _version(program: str) -> str:
    return subprocess.run([program, "--version"], capture_output=True, text=True, timeout=20, check=True).stdout.strip()


def _install() -> None:
    """Installs under a lock, unless the packages of this lock file are installed."""
    wanted = (FOLDER / "package-lock.json").read_bytes()
    stamp = FOLDER / "node_modules" / ".installed"
    with (FOLDER / "package.json").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if stamp.is_file() and stamp.read_bytes() == wanted:
            return
        subprocess.run(_INSTALL, cwd=FOLDER, capture_output=True, text=True, timeout=_INSTALL_SECONDS, check=True)
        stamp.write_bytes(wanted)


def _short(error: Exception) -> str:
    said = getattr(error, "stderr", None) or str(error)
    return " ".join(str(said).split())[-300:]
