"""The system config beyond the known answers of tests/vectors: what is refused of updates and of blocks."""

import msgspec
import pytest

from rollup_node.stages.protocol.config import SystemConfig
from rollup_node.stages.protocol.forks.rules import L1InfoFormat, L1Rules
from rollup_node.stages.protocol.l1_info import L1Info, l1_info_deposit
from rollup_node.stages.protocol.system_config import (
    CONFIG_UPDATE_TOPIC,
    BlockConfigError,
    apply_updates,
    system_config_of_block,
)
from rollup_node.stages.protocol.types import ZERO_HASH
from tests.conformance.kit.chain import (
    GENESIS,
    GENESIS_TIME,
    SYSTEM_CONFIG,
    abi_words,
    config_log,
    forks_until,
    rollup,
)

RULES = L1Rules(), L1Rules(packed_fee_scalars=True)


@pytest.mark.parametrize(
    ("topics", "text"),
    [
        ((CONFIG_UPDATE_TOPIC, ZERO_HASH), "expected 3 event topics"),
        ((CONFIG_UPDATE_TOPIC, *[ZERO_HASH] * 3), "expected 3 event topics"),
        ((ZERO_HASH, ZERO_HASH, ZERO_HASH), "invalid SystemConfig update event"),
        ((CONFIG_UPDATE_TOPIC, abi_words(1), ZERO_HASH), "unrecognized SystemConfig update event version"),
        ((CONFIG_UPDATE_TOPIC, ZERO_HASH, b"\x01" + bytes(31)), "unknown SystemConfig event type"),
    ],
)
def test_topics_are_checked(topics: tuple[bytes, ...], text: str) -> None:
    log = msgspec.structs.replace(config_log(0, abi_words(32, 32, 0)), topics=topics)
    _, (skipped,) = apply_updates(SYSTEM_CONFIG, [log], RULES[1])
    assert skipped.text.startswith(text)


def test_less_gas_than_the_upgrade_takes_is_no_limit() -> None:
    info = L1Info(5, 900, 7, b"\x05" * 32, 0, b"\x06" * 20)
    with pytest.raises(BlockConfigError, match="gas limit 5 below upgrade gas 55370657"):
        system_config_of_block(
            rollup(forks_until("jovian", karst=10)),
            number=500,
            block_hash=b"\x07" * 32,
            timestamp=GENESIS_TIME + 10,
            gas_limit=5,
            extra_data=bytes.fromhex("01000000fa000000060000000000000009"),
            transactions=(l1_info_deposit(info, L1InfoFormat.JOVIAN, is_system=False),),
        )


def test_the_genesis_block_has_the_config_of_the_file() -> None:
    def genesis(block_hash: bytes) -> SystemConfig:
        return system_config_of_block(
            rollup({}),
            number=GENESIS.number,
            block_hash=block_hash,
            timestamp=0,
            gas_limit=1,
            extra_data=b"any",
            transactions=(),
        )

    assert genesis(GENESIS.hash) == SYSTEM_CONFIG
    with pytest.raises(BlockConfigError, match="expected L2 genesis hash"):
        genesis(b"\x03" * 32)
