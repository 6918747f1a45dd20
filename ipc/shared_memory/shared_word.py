"""One number that all processes share: any of them may set it, and the last one set counts."""

from rollup_node.ipc.shared_memory.memfd import SharedMemory


class SharedWord:
    """An unsigned number of 64 bits. Created before the first fork; `fd` is the descriptor that children keep."""

    def __init__(self, name: str, value: int) -> None:
        self._memory = SharedMemory(name, 8)
        self.set(value)

    @property
    def fd(self) -> int:
        return self._memory.fd

    def get(self) -> int:
        """Return the number set last, by whichever process."""
        value: int = self._memory.words[0]
        return value

    def set(self, value: int) -> None:
        """Set the number for all processes."""
        self._memory.words[0] = value

    def close(self) -> None:
        """Unmaps the memory in this process."""
        self._memory.close()
