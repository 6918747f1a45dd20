"""Where a run was made: the commit of the checkout, and the machine."""

import os
import platform
import subprocess
from pathlib import Path


def commit_of_checkout() -> str:
    """Return the commit of this checkout, with a plus where files were changed since; "unknown" without git."""
    folder = Path(__file__).resolve().parent
    words = [("rev-parse", "--short=10", "HEAD"), ("status", "--porcelain", "--untracked-files=no")]
    try:
        commit, changed = (
            subprocess.run(["git", *each], cwd=folder, capture_output=True, text=True, check=True, timeout=20).stdout
            for each in words
        )
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return commit.strip() + ("+" if changed.strip() else "")


def machine_text() -> str:
    """Cores, memory, system and Python of this machine."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e9
    return (
        f"{os.cpu_count()} cores, {memory:.0f} GB, {platform.system()} {platform.machine()}, "
        f"Python {platform.python_version()}"
    )
