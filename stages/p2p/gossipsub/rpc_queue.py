"""What waits to be written to one peer: whole frames, urgent ones first, bounded in number and bytes."""

from collections import deque


class RpcQueue:
    """A queue that refuses rather than grows."""

    def __init__(self, most: int, most_bytes: int) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._urgent: deque[bytes] = deque()
        self._normal: deque[bytes] = deque()
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._urgent) + len(self._normal)

    def push(self, frame: bytes, urgent: bool = False) -> bool:
        """Queues a frame; False if there is no room."""
        if len(self) >= self._most or self.bytes + len(frame) > self._most_bytes:
            return False
        (self._urgent if urgent else self._normal).append(frame)
        self.bytes += len(frame)
        return True

    def pop(self) -> bytes | None:
        """The next frame to write; None if there is none."""
        queue = self._urgent or self._normal
        if not queue:
            return None
        frame = queue.popleft()
        self.bytes -= len(frame)
        return frame
