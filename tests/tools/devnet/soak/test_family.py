"""What the kernel says of processes: run by a program of its own, which adopts orphans."""

import mmap
import os
import socket
import subprocess
import sys
from pathlib import Path
from tempfile import NamedTemporaryFile

from rollup_node.tools.devnet.soak.family import LineCount, listening, shared_files, sockets_below

PROGRAM = """
import os, subprocess, sys, time
from rollup_node.tools.devnet.soak.family import PATIENCE, Family, adopt_orphans
adopt_orphans()
family = Family()
own = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
assert family.check([own.pid]) == [] == family.check([own.pid]) == family.check([own.pid])
middle = subprocess.Popen(["/bin/sh", "-c", "sleep 61 & sleep 62 & exec sleep 0.05"])
middle.wait()
found = [family.check([own.pid]) for _ in range(PATIENCE + 1)]
assert [len(each) for each in found] == [0] * (PATIENCE - 1) + [2, 0], found
assert all("sleep 6" in text and "outlives its parent" in text for text in found[PATIENCE - 1]), found
left = set(family.left())
assert len(left) == 3 and own.pid in left, left
for pid in left:
    os.kill(pid, 9)
own.wait()
while family.left():
    time.sleep(0.01)
print("as it should be")
"""
ZOMBIE = """
import subprocess, sys, time
from rollup_node.tools.devnet.soak.family import PATIENCE, Family, adopt_orphans
adopt_orphans()
careless = subprocess.Popen(
    [sys.executable, "-c", "import os, time; os.fork() or os._exit(0); print(flush=True); time.sleep(60)"],
    stdout=subprocess.PIPE,
)
careless.stdout.readline()
time.sleep(0.1)
family = Family()
found = [family.check([careless.pid]) for _ in range(PATIENCE)]
assert [len(each) for each in found] == [0] * (PATIENCE - 1) + [1] and "is a zombie of" in found[-1][0], found
careless.kill()
print("as it should be")
"""
USAGE = """
import os
from rollup_node.tools.devnet.soak.family import title, usage
before = usage([os.getpid()])
assert before.processes == 1 and 1 < before.memory < 10_000 and before.descriptors > before.segments, before
descriptor = os.memfd_create("soak")
found = usage([os.getpid()])
assert (found.descriptors, found.segments) == (before.descriptors + 1, before.segments + 1), (before, found)
assert usage([os.getpid(), os.getpid()]).segments == found.segments
os.dup(descriptor)
assert usage([os.getpid()])[1:3] == (found.descriptors + 1, found.segments)
assert usage([1 << 30]) == (0.0, 0, 0, 0)
assert "python" in title(os.getpid()) and title(1 << 30) == "ended"
print("as it should be")
"""


def run(program: str) -> str:
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=50)
    return result.stdout.strip().splitlines()[-1] if result.returncode == 0 else result.stderr


def test_orphans_are_named_once_and_found_at_the_end() -> None:
    assert run(PROGRAM) == "as it should be"


def test_a_zombie_of_another_process_is_named() -> None:
    assert run(ZOMBIE) == "as it should be"


def test_what_processes_use() -> None:
    assert run(USAGE) == "as it should be"


def test_sockets_and_ports(tmp_path: Path) -> None:
    assert sockets_below(tmp_path) == []
    with socket.socket(socket.AF_UNIX) as unix, socket.create_server(("127.0.0.1", 0)) as tcp:
        unix.bind(str(tmp_path / "s"))
        unix.listen()
        port = tcp.getsockname()[1]
        assert sockets_below(tmp_path) == [str(tmp_path / "s")]
        assert listening([port, 1]) == [port]
    assert listening([port]) == []
    assert sockets_below(tmp_path) == [str(tmp_path / "s")]  # the file of the closed socket


def test_shared_memory_that_is_mapped() -> None:
    with NamedTemporaryFile(dir="/dev/shm", prefix="rollup-soak-") as file:
        file.truncate(4096)
        assert file.name not in shared_files([os.getpid()])
        with mmap.mmap(file.fileno(), 4096):
            assert file.name in shared_files([os.getpid(), 1 << 30])
        assert file.name not in shared_files([os.getpid()])


def test_lines_that_are_appended(tmp_path: Path) -> None:
    path = tmp_path / "log"
    lines = LineCount(path)
    assert lines.more() == 0
    path.write_text("a\nb\n")
    assert (lines.more(), lines.more()) == (2, 0)
    with path.open("a") as file:
        file.write("c\nhalf")
    assert lines.more() == 1
    path.write_text("x\n")
    assert lines.more() == 1
