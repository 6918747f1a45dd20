"""The memory that is left: of the machine, or of the control group."""

import os
from pathlib import Path

import pytest

from rollup_node.node.system.memory import EVERY_SECONDS, Memory, MemoryWatch, in_mb, is_little, read_memory, trim_heap
from rollup_node.node.system.procfs import read_stat
from rollup_node.stages.io.log import logger as log
from rollup_node.stages.io.log.logger import get_logger
from rollup_node.stages.messages.codes import Code

MEMINFO = "MemTotal:        8000000 kB\nMemFree: 10 kB\nMemAvailable:    2000000 kB\n"
MACHINE = Memory(8_000_000 << 10, 2_000_000 << 10)


def read(folder: Path, own: str = "0::/") -> Memory | None:
    (folder / "own").write_text(own)
    return read_memory(folder / "meminfo", folder / "groups", folder / "own")


def group(path: Path, limit: str, current: int, inactive_file: int = 0) -> None:
    path.mkdir(parents=True, exist_ok=True)
    (path / "memory.max").write_text(f"{limit}\n")
    (path / "memory.current").write_text(f"{current}\n")
    (path / "memory.stat").write_text(f"anon 7\ninactive_file {inactive_file}\n")


def test_the_machine(tmp_path: Path) -> None:
    assert read(tmp_path) is None
    (tmp_path / "meminfo").write_text(MEMINFO)
    assert read(tmp_path) == MACHINE
    group(tmp_path / "groups", "max", 5)
    assert read(tmp_path) == MACHINE, "without a limit"


def test_the_group_with_the_least_left_counts(tmp_path: Path) -> None:
    (tmp_path / "meminfo").write_text(MEMINFO)
    group(tmp_path / "groups" / "system" / "node", "1000000000", 700_000_000, 100_000_000)
    assert read(tmp_path, "1:name=x:/\n0::/system/node\n") == Memory(10**9, 400_000_000)
    group(tmp_path / "groups" / "system", "900000000", 800_000_000)
    assert read(tmp_path, "0::/system/node\n") == Memory(900_000_000, 100_000_000)


def test_strange_files_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "meminfo").write_bytes(b"\xff MemTotal")
    group(tmp_path / "groups", "lots", 1)
    assert read(tmp_path) is None and read(tmp_path, "0::/../..\n") is None


@pytest.mark.parametrize(
    "memory, little",
    [
        (Memory(4 << 30, 300 << 20), False),
        (Memory(4 << 30, 200 << 20), True),
        (Memory(256 << 30, 513 << 20), False),
        (Memory(256 << 30, 511 << 20), True),
    ],
)
def test_what_is_little(memory: Memory, little: bool) -> None:
    assert is_little(memory) == little


def test_megabytes() -> None:
    assert in_mb(1_234_567_890) == "1235 MB"


@pytest.mark.sign("MEMORY", line=True)
def test_little_memory(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "_configuration", log.configuration()._replace(level=log.Level.INFO))
    left = [
        Memory(4 * 10**9, 10**9),
        None,
        Memory(4 * 10**9, 10**8),
        Memory(4 * 10**9, 10**8),
        Memory(4 * 10**9, 10**9),
    ]
    sizes = {"l1": 900_000_000, "compute": 300_000_000, "rpc": 100_000_000, "p2p": 500_000_000}
    watch = MemoryWatch(get_logger("supervisor"), lambda: sizes, lambda: left.pop(0))
    now = 0.0
    while left:
        watch.step(now)
        watch.step(now + EVERY_SECONDS / 2)
        now += EVERY_SECONDS
    warning, end = capsys.readouterr().err.splitlines()
    assert warning == (
        "warn supervisor: little memory is left code=MEMORY available=100 MB total=4000 MB"
        f" largest=l1 900 MB, p2p 500 MB, compute 300 MB do={Code.MEMORY.remedy}"
    )
    assert end.startswith("info supervisor: there is memory again code=MEMORY available=1000 MB")


def test_the_free_pages_of_the_heap_are_given_back() -> None:
    """Every second value is freed, so that the C library cannot do it by itself."""

    def resident() -> int:
        stat = read_stat(os.getpid())
        assert stat is not None
        return stat.resident

    values = [bytes(60_000) for _ in range(1000)]
    kept = values[::2]
    del values
    before = resident()
    trim_heap()
    assert before - resident() > 10_000_000 and len(kept) == 500
