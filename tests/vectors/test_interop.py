"""Known answers for log hashes, checksums and the expiry of messages [MS2, MS3, EM7, EM8] (interop.json: sources)."""

import json
from pathlib import Path
from typing import Any

import pytest

from rollup_node.stages.interop.message_checks import Invalidity, LogPlace, check_claim
from rollup_node.stages.protocol.interop_messages import (
    EXECUTING_MESSAGE,
    MESSAGE_EXPIRY_WINDOW,
    ExecutingMessage,
    block_logs,
    checksum,
    executing_message,
)
from rollup_node.stages.protocol.receipts import LogJson
from tests.support.interop.values import block, dependency_set, member

VECTORS: dict[str, Any] = json.loads((Path(__file__).parent / "interop.json").read_text())
RESULTS = {"future": Invalidity.IN_THE_FUTURE, "expired": Invalidity.EXPIRED}


@pytest.mark.parametrize("vector", VECTORS["logs"], ids=lambda vector: vector["name"])
def test_the_hash_of_a_log(vector: dict[str, Any]) -> None:
    log = LogJson(vector["address"], vector["topics"], vector["data"])
    assert block_logs(block(1, 1), [log]).log_hashes.hex() == vector["log_hash"][2:]


@pytest.mark.parametrize("vector", VECTORS["messages"], ids=lambda vector: vector["name"])
def test_an_executing_message_and_its_checksum(vector: dict[str, Any]) -> None:
    names = ("block_number", "log_index", "timestamp", "chain_id")
    words = b"".join(int(vector[name]).to_bytes(32, "big") for name in names)
    data = bytes(12) + bytes.fromhex(vector["origin"][2:]) + words
    message = executing_message([EXECUTING_MESSAGE, bytes.fromhex(vector["payload_hash"][2:])], data)
    assert message is not None and message.chain_id == int(vector["chain_id"])
    assert message.log_hash.hex() == vector["log_hash"][2:]
    place = message.block_number, message.timestamp, message.log_index
    assert checksum(message.log_hash, message.chain_id, *place).hex() == vector["checksum"][2:]
    assert vector["checksum"] in str(message)


def test_the_expiry_of_messages() -> None:
    """Windows above the default are refused with the dependency set [IOP25]."""
    decided = 0
    for override, initiated, executed, result in VECTORS["expiry"]:
        assert (override > MESSAGE_EXPIRY_WINDOW) == (result == "configRejected")
        if result != "configRejected":
            window = override or MESSAGE_EXPIRY_WINDOW
            config = dependency_set(member(1, genesis_time=0), activation=0, window=window)
            message = ExecutingMessage((1).to_bytes(32, "big"), initiated, 0, initiated, bytes(32))
            wanted = RESULTS.get(result, LogPlace(1, initiated, 0))
            assert check_claim(config, 1, executed, message) == wanted, (override, initiated, executed)
            decided += 1
    assert decided == 209
