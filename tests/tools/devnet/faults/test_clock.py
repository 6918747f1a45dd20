"""A clock of a program's own."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from rollup_node.tools.devnet.faults import clock
from rollup_node.tools.devnet.faults.clock import LIBRARY_NAME, OwnClock, find_clock_library


def test_the_library_by_its_variable_or_where_packages_put_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = tmp_path / "lib" / "x86" / "faketime" / LIBRARY_NAME
    library.parent.mkdir(parents=True)
    library.touch()
    monkeypatch.delenv("LIBFAKETIME", raising=False)
    monkeypatch.setattr(clock, "FOLDERS", (f"{tmp_path}/lib/*/faketime",))
    assert find_clock_library() == library
    monkeypatch.setattr(clock, "FOLDERS", ("/missing/*",))
    assert find_clock_library() is None
    monkeypatch.setenv("LIBFAKETIME", str(library))
    assert find_clock_library() == library
    monkeypatch.setenv("LIBFAKETIME", "/missing")
    assert find_clock_library() is None


def test_how_far_it_is_ahead(tmp_path: Path) -> None:
    file = tmp_path / "clock.txt"
    own = OwnClock(Path("/lib/x"), file)
    assert file.read_text() == "+0s\n"
    assert {"LD_PRELOAD=/lib/x", f"FAKETIME_TIMESTAMP_FILE={file}"} <= set(own.prefix())
    own.set(300)
    assert file.read_text() == "+300s\n"
    own.set(-20)
    assert file.read_text() == "-20s\n"


@pytest.mark.skipif(find_clock_library() is None, reason="libfaketime is not installed")
def test_the_wall_clock_of_a_program_is_another_one(tmp_path: Path) -> None:
    library = find_clock_library()
    assert library is not None
    own = OwnClock(library, tmp_path / "clock.txt")
    own.set(-600)
    command = [*own.prefix(), sys.executable, "-c", "import time; print(time.time(), time.monotonic())"]
    wall, steady = map(float, subprocess.run(command, capture_output=True, check=True, timeout=20).stdout.split())
    assert -610 < wall - time.time() < -590 and abs(steady - time.monotonic()) < 10
