"""derivation-rules 7 by its conformance ids."""

from dataclasses import replace
from typing import Any

import pytest

from rollup_node.stages.derivation.codec.frames import Frame
from rollup_node.stages.derivation.pipeline.channel_bank import ChannelBank, ReadyChannel
from rollup_node.stages.derivation.pipeline.events import Trace
from rollup_node.stages.protocol.forks.rules import L1Rules
from rollup_node.stages.protocol.types import L1BlockRef

CANYON = L1Rules(read_any_ready_channel=True)


class Play:
    """Frames in text (`A0`, `A1!`, with `:n` for n bytes) into a bank."""

    def __init__(self, rules: L1Rules = CANYON) -> None:
        self.trace = Trace()
        self.bank = ChannelBank(self.trace)
        self.rules = rules
        self.origin = 100

    def _ref(self) -> L1BlockRef:
        return L1BlockRef(bytes(32), self.origin, bytes(32), 0)

    def take_in(self, text: str) -> "Play":
        for word in text.split():
            head, _, size = word.partition(":")
            frame = Frame(
                head[0].encode() * 16,
                int(head[1:].rstrip("!")),
                head.encode() if not size else bytes(int(size)),
                head.endswith("!"),
            )
            self.bank.take_in(frame, self._ref(), self.rules)
        return self

    def read(self) -> str | None:
        channel = self.bank.read(self._ref(), self.rules)
        return None if channel is None else chr(channel.id[0]) + ":" + channel.body.decode()

    def reasons(self) -> list[str]:
        return [dropped.reason.rule.id for dropped in self.trace.dropped]


@pytest.mark.parametrize(
    ("frames", "read", "reasons"),
    [
        pytest.param("A0 A1!", ["A:A0A1!"], [], id="bank_simple"),
        pytest.param("A1! A0", ["A:A0A1!"], [], id="bank_out_of_order"),
        pytest.param("A0 B0! A1!", ["A:A0A1!", "B:B0!"], [], id="two_ready_in_order_of_opening"),
        pytest.param("A0 B0!", ["B:B0!"], [], id="bank_interleaved_canyon"),
        pytest.param("A0 A0 A1!", ["A:A0A1!"], ["CB9.2"], id="bank_dup_frame"),
        pytest.param("A1! A2! A0", ["A:A0A1!"], ["CB9.1"], id="bank_dup_close"),
        pytest.param("A0 A1 A1!", [], ["CB9.2"], id="bank_close_on_existing"),
        pytest.param("A1! A2 A0", ["A:A0A1!"], ["CB9.3"], id="bank_beyond_end"),
        pytest.param("A0 A2 A3 A1!", ["A:A0A1!"], ["CB10", "CB10"], id="bank_close_prunes_higher"),
        pytest.param("A0!:0", ["A:"], [], id="bank_empty_channel"),
    ],
)
def test_frames_to_channels(frames: str, read: list[str], reasons: list[str]) -> None:
    play = Play().take_in(frames)
    found = []
    while (channel := play.read()) is not None:
        found.append(channel)
    assert found == read
    assert play.reasons() == reasons


def test_bank_interleaved_pre_canyon() -> None:
    play = Play(L1Rules()).take_in("A0 B0!")
    assert play.read() is None
    play.take_in("A1!")
    assert [play.read(), play.read(), play.read()] == ["A:A0A1!", "B:B0!", None]


def test_bank_canyon_origin_switch() -> None:
    play = Play(L1Rules()).take_in("A0 B0!")
    assert play.read() is None
    play.rules = CANYON
    assert play.read() == "B:B0!"


def test_bank_size_after_close_prune() -> None:
    play = Play(replace(CANYON, max_channel_bank_size=2400))
    play.take_in("A0:1000 A2:1000")
    assert play.reasons() == []
    play.take_in("A1!:10 B0:1990")
    assert play.reasons() == ["CB10"], "the close takes away 2,400 and adds 210; 210 + 2,190 are just allowed"
    play.take_in("B1:0")
    assert play.reasons() == ["CB10", "CB12"]


def test_bank_timeout_equal() -> None:
    play = Play().take_in("A0")
    play.origin += 300
    play.take_in("A1!")
    assert play.read() == "A:A0A1!"


def test_bank_timeout_plus1() -> None:
    play = Play().take_in("A0")
    play.origin += 301
    play.take_in("A1!")
    assert play.reasons() == ["CB8"]
    assert play.read() is None
    assert play.reasons() == ["CB8", "CB2"]
    assert play.take_in("A0!").read() == "A:A0!", "the id is free again"


def test_bank_timeout_granite_switch() -> None:
    play = Play().take_in("A0 A1!")
    play.origin += 51
    play.rules = replace(CANYON, channel_timeout=50)
    assert play.read() is None
    assert play.reasons() == ["CB2"]


def test_bank_timed_out_middle_blocks_id() -> None:
    play = Play()
    play.bank.take_in(Frame(b"B" * 16, 0, b"", False), L1BlockRef(bytes(32), 100, bytes(32), 0), CANYON)
    play.bank._channels.move_to_end(b"B" * 16)
    play.origin = 200
    play.take_in("A0")
    play.bank._channels.move_to_end(b"B" * 16)
    play.origin = 401
    play.take_in("B0!")
    assert play.read() is None
    assert play.reasons() == ["CB8"]
    assert len(play.bank) == 2, "B stays until it is the oldest"


def test_bank_id_reuse_after_read() -> None:
    play = Play().take_in("A0!")
    assert play.read() == "A:A0!"
    assert play.take_in("A0!").read() == "A:A0!"


@pytest.mark.parametrize(("size", "reasons"), [(99_300, []), (99_301, ["CB12"])])
def test_bank_prune_exact(size: int, reasons: list[str]) -> None:
    rules = L1Rules(max_channel_bank_size=100_000)
    play = Play(rules).take_in(f"A0:300 B0:{size}")
    assert play.reasons() == reasons
    assert len(play.bank) == 2 - len(reasons)


def test_bank_prune_self() -> None:
    play = Play(L1Rules(max_channel_bank_size=1000)).take_in("A0:500 A1:500")
    assert play.reasons() == ["CB12"]
    assert len(play.bank) == 0


def test_bank_prune_completing() -> None:
    play = Play(L1Rules(max_channel_bank_size=1000)).take_in("A0:300 B0:100 A1!:100")
    assert play.reasons() == ["CB12"]
    assert play.read() is None, "A was dropped unread"


def test_bank_ignored_frame_no_prune() -> None:
    play = Play(L1Rules(max_channel_bank_size=10_000)).take_in("A0:900 B0:900")
    play.rules = L1Rules(max_channel_bank_size=1000)
    play.take_in("B0:900")
    assert play.reasons() == ["CB9.2"]
    assert len(play.bank) == 2


def test_bank_65536_frames() -> None:
    play = Play()
    ref, rules = play._ref(), CANYON
    for number in range(65536):
        play.bank.take_in(Frame(b"A" * 16, number, b"x", number == 65535), ref, rules)
    channel = play.bank.read(ref, rules)
    assert isinstance(channel, ReadyChannel)
    assert channel.body == b"x" * 65536


def test_bank_read_before_ingest(made: Any) -> None:
    """A channel that is ready is read before the next frame can push it out."""
    world = made.World(made.forks_to("canyon"), max_sequencer_drift=600)
    world.put(
        1,
        made.item(
            made.Frame(made.CHANNEL, 0, made.channel_body([world.singular(1, 0)], made.Compression.ZLIB), True),
            made.Frame(b"B" * 16, 0, b"", False),
        ),
    )
    assert made.told(world.run(1)) == ["1+0"]
