"""Messages between the chains of a local network."""

from typing import Any

import pytest

from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.interop_messages import executing_message, log_hash
from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.tools.multichain.messages import KINDS, LOGGER, WRONG, Messages, execution_call

TOPICS = (b"\x01" * 32, b"\x02" * 32)
LOG = {
    "address": to_hex(LOGGER),
    "topics": [to_hex(topic) for topic in TOPICS],
    "data": "0x0304",
    "blockNumber": "0x11",
    "logIndex": "0x2",
}


def test_a_call_executes_the_log() -> None:
    """[MS2, MS4]"""
    call = execution_call(901, LOG, 1000)
    message = executing_message((call[:32], call[32:64]), call[64:])
    assert message is not None
    assert (message.chain_id, message.block_number, message.log_index, message.timestamp) == (901, 17, 2, 1000)
    assert message.log_hash == log_hash(LOGGER, keccak256(b"".join(TOPICS) + b"\x03\x04"))


def test_what_is_wrong_takes_turns_among_what_is_possible() -> None:
    def wrongs(window: int, block_time: int, *kinds: str) -> tuple[str, ...]:
        return Messages({}, 1, 0, print, window, block_time, kinds)._wrongs

    assert wrongs(0, 0) == WRONG and wrongs(10, 1) == KINDS
    assert wrongs(10, 1, "cycle", "expired") == ("expired", "cycle") and wrongs(0, 1, "cycle") == ("cycle",)


class Engine:
    """An engine whose blocks have the time `now`, which takes each transaction into its next block."""

    def __init__(self) -> None:
        self.now = 100

    async def call(self, method: str, *_: Any) -> Any:
        block = {"number": hex(self.now), "timestamp": hex(self.now)}
        receipt = {"blockNumber": hex(self.now), "blockHash": "0x01", "logs": [LOG]}
        answers = {"eth_getBlockByNumber": block, "eth_getTransactionReceipt": receipt}
        return answers.get(method, "0x1")


async def test_a_message_is_expired_by_the_time_of_its_chains() -> None:
    """[EM8] A machine that is too slow lets them fall behind its clock, and each other."""
    chains = {901: Engine(), 902: Engine()}
    errors: list[str] = []
    messages = Messages(chains, 1, 0, errors.append, window=10, kinds=("expired",))  # type: ignore[arg-type]
    for first, second in ((100, 100), (110, 111), (120, 110), (111, 112)):
        chains[901].now, chains[902].now = first, second
        await messages.send_round()
    assert [sent.wrong for sent in messages.sent] == ["", "", "", "expired"] and errors == []


@pytest.mark.parametrize("wrong", WRONG)
def test_an_invalid_message_is_one_that_is_nowhere(wrong: str) -> None:
    right, other = execution_call(901, LOG, 1000), execution_call(901, LOG, 1000, wrong)
    assert other != right
    assert executing_message((other[:32], other[32:64]), other[64:]) is not None
