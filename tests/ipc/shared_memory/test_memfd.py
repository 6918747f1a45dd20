"""Sealed shared memory."""

import gc
import os
from collections.abc import Iterator

import pytest

from rollup_node.ipc.shared_memory.memfd import SharedMemory


@pytest.fixture
def memory() -> Iterator[SharedMemory]:
    memory = SharedMemory("test", 5000)
    yield memory
    memory.close()


def test_size_is_whole_pages_and_all_zero(memory: SharedMemory) -> None:
    assert memory.size == 8192
    assert bytes(memory.octets) == bytes(8192)


def test_words_and_octets_are_the_same_memory(memory: SharedMemory) -> None:
    memory.words[3] = 0x0102
    assert memory.octets[24] == 2 and memory.octets[25] == 1


@pytest.mark.parametrize("size", [0, 4096, 16384])
def test_size_is_sealed(memory: SharedMemory, size: int) -> None:
    with pytest.raises(PermissionError):
        os.ftruncate(memory.fd, size)


def test_close_leaves_no_descriptor_and_may_be_repeated() -> None:
    gc.collect()
    before = set(os.listdir("/proc/self/fd"))
    held = SharedMemory("test", 4096)
    assert len(set(os.listdir("/proc/self/fd")) - before) == 1, "the mapping itself holds no descriptor"
    held.close()
    held.close()
    assert set(os.listdir("/proc/self/fd")) == before


def test_nothing_has_a_name_in_dev_shm(memory: SharedMemory) -> None:
    assert "test" not in os.listdir("/dev/shm")
