"""A socket that keeps what is sent, for tests of one side of a channel."""

from collections.abc import Callable

from rollup_node.ipc.wire.codec import MessageHeader, decode_header
from rollup_node.ipc.wire.sockets import ChannelSocket


class RecordingSocket(ChannelSocket):
    """Sends into `sent` while `works`; receives nothing."""

    def __init__(self) -> None:
        self.sent: list[list[bytes]] = []
        self.works = True
        self.fileno = -1

    def send(self, frames: list[bytes]) -> bool:
        if self.works:
            self.sent.append(frames)
        return self.works

    def receive(self, handle: Callable[[list[bytes]], None]) -> bool:
        return False

    @property
    def headers(self) -> list[MessageHeader]:
        """The headers of the messages sent, which have no route."""
        return [decode_header(frames[0]) for frames in self.sent]
