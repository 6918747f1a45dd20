"""derivation-rules 8 by its conformance ids."""

from dataclasses import replace

import pytest

from rollup_node.stages.derivation.codec.frames import Frame
from rollup_node.stages.derivation.pipeline.channel_assembler import ChannelAssembler
from rollup_node.stages.derivation.pipeline.events import Trace
from rollup_node.stages.protocol.forks.rules import L1Rules
from rollup_node.stages.protocol.types import L1BlockRef

RULES = L1Rules(channel_timeout=50, max_rlp_bytes_per_channel=100_000_000)


class Play:
    """Frames in text; `@n` moves to L1 block n. Each frame is read for, as derivation does."""

    def __init__(self, rules: L1Rules = RULES) -> None:
        self.trace = Trace()
        self.stage = ChannelAssembler(self.trace)
        self.rules = rules

    def run(self, text: str) -> tuple[list[str], list[str]]:
        read: list[str] = []
        origin = L1BlockRef(bytes(32), 100, bytes(32), 0)
        for word in text.split():
            if word.startswith("@"):
                origin = L1BlockRef(bytes(32), int(word[1:]), bytes(32), 0)
            else:
                head, _, size = word.partition(":")
                data = head.encode() if not size else bytes(int(size))
                number = int(head[1:].rstrip("!'"))
                self.stage.take_in(Frame(head[0].encode() * 16, number, data, head.endswith("!")), origin, self.rules)
            channel = self.stage.read(origin, self.rules)
            if channel is not None:
                read.append(channel.body.decode())
        return read, [dropped.reason.rule.id for dropped in self.trace.dropped]


@pytest.mark.parametrize(
    ("text", "read", "reasons"),
    [
        pytest.param("A0!", ["A0!"], [], id="asm_single_frame"),
        pytest.param("A0 A1!", ["A0A1!"], [], id="asm_two_txs"),
        pytest.param("A0 @103 A1!", ["A0A1!"], [], id="asm_two_blocks"),
        pytest.param("A0 A2! A1", [], ["CA5"], id="asm_gap_cross_tx"),
        pytest.param("A1", [], ["CA4"], id="asm_nonfirst_no_channel"),
        pytest.param("A0 B1", [], ["CA5"], id="asm_other_id"),
        pytest.param("A0 B1 A1!", ["A0A1!"], ["CA5"], id="asm_other_id_then_continue"),
        pytest.param("A0 B0! A1!", ["B0!"], ["CA3", "CA4"], id="asm_new_first_replaces"),
        pytest.param("A0 A0!", ["A0!"], ["CA3"], id="asm_same_id_restart"),
        pytest.param("A0 @150 A1!", ["A0A1!"], [], id="asm_timeout_equal"),
        pytest.param("A0 @151 A1!", [], ["CA1", "CA4"], id="asm_timeout_plus1"),
        pytest.param("A0 @160 A0 @210 A1!", ["A0A1!"], ["CA1"], id="asm_timeout_then_first"),
        pytest.param("A0 A0'", [], ["CA3"], id="restart_keeps_the_new_one"),
    ],
)
def test_frames_to_channels(text: str, read: list[str], reasons: list[str]) -> None:
    assert Play().run(text) == (read, reasons)


@pytest.mark.parametrize(
    ("text", "reads", "reasons"),
    [
        pytest.param("A0:1000 A1:601 A2", 0, ["CA6", "CA4"], id="asm_oversize"),
        pytest.param("A0:1000 A1!:600", 1, [], id="asm_exact_size"),
        pytest.param("A0:1000 A1!:601", 0, ["CA6"], id="asm_oversize_on_last"),
        pytest.param("A0:1801", 0, ["CA6"], id="asm_overhead_counts"),
    ],
)
def test_size_limit(text: str, reads: int, reasons: list[str]) -> None:
    play = Play(replace(RULES, max_rlp_bytes_per_channel=2000))
    read, found = play.run(text)
    assert (len(read), found) == (reads, reasons)


def test_flush_forgets_the_unfinished_channel() -> None:
    play = Play()
    play.run("A0")
    assert len(play.stage) == 1
    play.stage.flush()
    assert len(play.stage) == 0
    assert play.run("A1!")[1] == ["CA4"]
