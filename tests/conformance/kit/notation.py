"""A notation for frames: "A0 A1 B0!" are frames 0 and 1 of channel A and frame 0, the last, of channel B.

After these, `'` makes another frame of the same number, and `:1000` gives it 1,000 bytes of data. Otherwise a frame's
data is its own name, so a channel's body shows the frames that it was assembled from."""

import re
from collections.abc import Iterable

from rollup_node.stages.derivation.codec.frames import Frame
from rollup_node.tools.batcher import channels

_FRAME = re.compile(r"([A-Z])(\d+)('?)(!?)(?::(\d+))?")


def channel_id(name: str) -> bytes:
    """Return the id of a channel with a short name."""
    return name.encode().ljust(16, b".")


def frames(text: str) -> list[Frame]:
    """Return the frames of a line of notation."""
    return [_frame(word) for word in text.split()]


def _frame(word: str) -> Frame:
    match = _FRAME.fullmatch(word)
    assert match is not None, word
    letter, number, other, last, size = match.groups()
    data = f"{letter}{number}{other} ".encode()
    if size is not None:
        data = data.ljust(int(size), b".")[: int(size)]
    return Frame(channel_id(letter), int(number), data, bool(last))


def item(text: str) -> bytes:
    """Return the frames as one data item, encoded by the batcher's library."""
    return channels.batcher_data([channels.Frame(*frame) for frame in frames(text)])


def names(frames: Iterable[Frame]) -> str:
    """Return the notation of frames."""
    return " ".join(frame.data.decode().split()[0] + "!" * frame.is_last for frame in frames)


def parts(body: bytes) -> str:
    """Return the notation of the frames in a channel's body, without end marks."""
    return " ".join(word.rstrip(".") for word in body.decode().split())
