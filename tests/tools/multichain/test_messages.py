"""Messages between the chains of a local network."""

import pytest

from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.interop_messages import executing_message
from rollup_node.tools.multichain.messages import KINDS, LOGGER, WRONG, Messages, execution_call

TOPICS = (b"\x01" * 32, b"\x02" * 32)
LOG = {
    "address": to_hex(LOGGER),
    "topics": [to_hex(topic) for topic in TOPICS],
    "data": "0x0304",
    "blockNumber": "0x11",
    "logIndex": "0x2",
}


def test_what_is_wrong_takes_turns_among_what_is_possible() -> None:
    def wrongs(window: int, block_time: int, *kinds: str) -> tuple[str, ...]:
        return Messages({}, 1, 0, print, window, block_time, kinds)._wrongs

    assert wrongs(0, 0) == WRONG and wrongs(10, 1) == KINDS
    assert wrongs(10, 1, "cycle", "expired") == ("expired", "cycle") and wrongs(0, 1, "cycle") == ("cycle",)


@pytest.mark.parametrize("wrong", WRONG)
def test_an_invalid_message_is_one_that_is_nowhere(wrong: str) -> None:
    right, other = execution_call(901, LOG, 1000), execution_call(901, LOG, 1000, wrong)
    assert other != right
    assert executing_message((other[:32], other[32:64]), other[64:]) is not None
