"""Logs of a block as messages [MS1 to MS5]; tests/vectors/test_interop.py has known answers."""

import msgspec
import pytest

from rollup_node.stages.protocol.interop_messages import (
    EXECUTING_MESSAGE,
    BlockLogs,
    ExecutingMessage,
    block_logs,
    executing_message,
    log_hash_at,
)
from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.stages.protocol.receipts import LogJson, ReceiptError
from tests.support.interop.values import Claim, block, claim_data, executing_log, logs_of, plain_log

CLAIM = Claim(902, 7, 3, 1007, b"hello")
BLOCK = block(5, 1005)
TOPICS = [EXECUTING_MESSAGE, keccak256(b"hello")]
MESSAGE = ExecutingMessage((902).to_bytes(32, "big"), 7, 3, 1007, CLAIM.log_hash)


def test_the_topic_of_executing_messages() -> None:
    assert EXECUTING_MESSAGE.hex() == "5c37832d2e8d10e346e55ad62071a6a2f9fa5130614ef2ec6617555c6f467ba7"


def test_logs_are_counted_over_the_block() -> None:
    """[MS1]: every log is an initiating message, the executing ones too."""
    logs = logs_of(BLOCK, [b"a", CLAIM, b"b"])
    assert logs.block == BLOCK and logs.executing == ((1, MESSAGE),)
    assert logs.log_hash(0) == Claim(0, 0, 0, 0, b"a").log_hash and logs.log_hash(2) == Claim(0, 0, 0, 0, b"b").log_hash
    assert logs.log_hash(3) is None and logs.log_hash(2**32 - 1) is None
    assert log_hash_at(logs.log_hashes, 1) == logs.log_hash(1)
    assert block_logs(BLOCK, []) == BlockLogs(BLOCK, b"", ())


def test_it_travels_between_processes() -> None:
    """Whatever chain id a message names: its sender chooses it."""
    logs = logs_of(BLOCK, [CLAIM._replace(chain_id=2**256 - 1, number=2**64 - 1)])
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(logs), type=BlockLogs) == logs
    assert logs.executing[0][1].chain_id == 2**256 - 1


@pytest.mark.parametrize("at", [0, 11, 32, 55, 64, 91, 96, 119])
def test_padding_is_zero(at: int) -> None:
    """[MS4]"""
    data = bytearray(claim_data(CLAIM))
    assert executing_message(TOPICS, bytes(data)) == MESSAGE
    data[at] = 1
    assert executing_message(TOPICS, bytes(data)) is None


@pytest.mark.parametrize(
    ("topics", "data"),
    [
        (TOPICS[:1], claim_data(CLAIM)),
        ([*TOPICS, bytes(32)], claim_data(CLAIM)),
        ([bytes(32), TOPICS[1]], claim_data(CLAIM)),
        (TOPICS, claim_data(CLAIM)[:-1]),
        (TOPICS, claim_data(CLAIM) + b"\0"),
        (TOPICS, b""),
        ([], b""),
    ],
)
def test_other_forms_execute_nothing(topics: list[bytes], data: bytes) -> None:
    """[MS4, MS5]"""
    assert executing_message(topics, data) is None


def test_another_contract_executes_nothing() -> None:
    """[MS4]: the log counts all the same."""
    log = executing_log(CLAIM)
    log.address = "0x" + "42" * 20
    logs = block_logs(BLOCK, [log])
    assert logs.executing == () and len(logs.log_hashes) == 32


@pytest.mark.parametrize(
    ("log", "text"),
    [
        (LogJson("0x" + "0a" * 19, [], "0x"), "another size"),
        (LogJson("0x" + "0a" * 20, ["0x" + "00" * 31], "0x"), "another size"),
        (LogJson("0x" + "0a" * 20, [], "0x0"), "malformed log of block 5"),
        (LogJson("0x" + "0a" * 20, [], "0x", log_index="0x1"), "log 0 in the order of the receipts has the index 0x1"),
        (LogJson("0x" + "0a" * 20, [], "0x", log_index="one"), "malformed log"),
    ],
)
def test_malformed_logs_are_refused(log: LogJson, text: str) -> None:
    with pytest.raises(ReceiptError, match=text):
        block_logs(BLOCK, [log])


def test_indices_of_the_engine_are_compared() -> None:
    logs = [plain_log(b"a"), plain_log(b"b")]
    logs[1].log_index = "0x1"
    assert len(block_logs(BLOCK, logs).log_hashes) == 64


def test_a_message_is_shown_with_its_checksum() -> None:
    """[MS3]: as access lists name it."""
    text = str(MESSAGE)
    assert text.startswith("message of chain 902, block 7, log 3, time 1007, checksum 0x03")
