"""The outbound queue of one peer: whole RPC frames, urgent ones first, bounded in number and bytes."""

from collections import deque


class RpcQueue:
    """A queue that rejects frames when it is full."""

    def __init__(self, max_frames: int, max_bytes: int) -> None:
        self._max_frames = max_frames
        self._max_bytes = max_bytes
        self._urgent: deque[bytes] = deque()
        self._normal: deque[bytes] = deque()
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._urgent) + len(self._normal)

    def push(self, frame: bytes, urgent: bool = False) -> bool:
        """Queues a frame; False when there is no room."""
        if len(self) >= self._max_frames or self.bytes + len(frame) > self._max_bytes:
            return False
        (self._urgent if urgent else self._normal).append(frame)
        self.bytes += len(frame)
        return True

    def pop(self) -> bytes | None:
        """Return the next frame to write; None when the queue is empty."""
        queue = self._urgent or self._normal
        if not queue:
            return None
        frame = queue.popleft()
        self.bytes -= len(frame)
        return frame
