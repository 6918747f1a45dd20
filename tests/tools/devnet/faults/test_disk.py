"""A small disk that can be filled."""

import subprocess
import sys
from pathlib import Path

import pytest

from rollup_node.tools.devnet.faults import disk
from rollup_node.tools.devnet.faults.disk import SmallDisk

MOUNTED = """
import sys
from pathlib import Path
from rollup_node.tools.devnet.faults import disk

disk.SIZE = 1 << 20
with disk.small_disk(Path(sys.argv[1])) as small:
    if not small.is_mounted:
        print("not mounted")
        sys.exit()
    file = small.folder / "file"
    small.fill([])
    try:
        file.write_bytes(bytes(5000))
    except OSError as error:
        print(error.strerror)
    small.free([])
    print(file.write_bytes(bytes(5000)), (small.folder / "ballast").exists())
    (small.folder / "node.log").write_text("text")
"""
"""In a process of its own, which moves into another mount namespace."""

WRITER = """
import sys
for _ in sys.stdin:
    try:
        with open(sys.argv[1], "ab") as file:
            file.write(bytes(10))
        print("written", flush=True)
    except OSError as error:
        print(error.strerror, flush=True)
"""


def test_a_file_system_that_is_full(tmp_path: Path) -> None:
    folder = tmp_path / "disk"
    ran = subprocess.run([sys.executable, "-c", MOUNTED, str(folder)], capture_output=True, text=True, timeout=30)
    assert ran.stdout.splitlines() in (["No space left on device", "5000 False"], ["not mounted"]), ran.stderr
    kept = {path.name: path.read_text() for path in folder.iterdir()}
    assert kept in ({"node.log": "text"}, {}), "nobody else sees the rest"


def test_files_that_may_not_grow(tmp_path: Path) -> None:
    small = SmallDisk(tmp_path, is_mounted=False)
    command = [sys.executable, "-c", WRITER, str(tmp_path / "file")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) as writer:
        assert writer.stdin is not None and writer.stdout is not None
        found = []
        for change in (small.free, small.fill, small.free):
            change([writer.pid])
            writer.stdin.write("go\n")
            found.append(writer.stdout.readline().strip())
        writer.stdin.close()
    assert found == ["written", "File too large", "written"]
    small.fill([writer.pid])
    small.free([writer.pid])


def test_where_nothing_may_be_mounted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk, "_mount", lambda libc, folder: False)
    with disk.small_disk(tmp_path / "disk") as small:
        assert not small.is_mounted and small.folder.is_dir()
