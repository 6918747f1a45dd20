"""The memory that is left: of the machine, or of the control group."""

from pathlib import Path

import pytest

from rollup_node.node.system.memory import Memory, in_mb, is_little, read_memory

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
