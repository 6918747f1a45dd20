"""The system config: updates from L1, and reading it back from blocks."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollup_node.stages.protocol.config import ChainOpConfig, Genesis, RollupConfig, SystemConfig
from rollup_node.stages.protocol.forks.rules import L1InfoFormat, L1Rules
from rollup_node.stages.protocol.forks.table import FORK_NAMES
from rollup_node.stages.protocol.l1_info import L1Info, l1_info_deposit
from rollup_node.stages.protocol.system_config import (
    CONFIG_UPDATE_TOPIC,
    BlockConfigError,
    apply_updates,
    system_config_of_block,
)
from rollup_node.stages.protocol.types import ZERO_HASH, BlockId, Log
from tests.support.chains.plain_rollup import PLAIN_ROLLUP

L1_CONFIG = b"\x99" * 20
START = SystemConfig(b"\x01" * 20, (188).to_bytes(32, "big"), (684000).to_bytes(32, "big"), 30_000_000)
BEFORE, AFTER = L1Rules(), L1Rules(packed_fee_scalars=True)


def word(value: int | bytes) -> bytes:
    return value.to_bytes(32, "big") if isinstance(value, int) else value.rjust(32, b"\0")


def update(kind: int | bytes, *words: int | bytes, index: int = 0) -> Log:
    payload = b"".join(map(word, words))
    data = word(32) + word(len(payload)) + payload
    return Log(L1_CONFIG, (CONFIG_UPDATE_TOPIC, ZERO_HASH, word(kind)), data, index)


@pytest.mark.parametrize(
    ("topics", "text"),
    [
        ((CONFIG_UPDATE_TOPIC, ZERO_HASH), "expected 3 event topics"),
        ((CONFIG_UPDATE_TOPIC, *[ZERO_HASH] * 3), "expected 3 event topics"),
        ((ZERO_HASH, ZERO_HASH, ZERO_HASH), "invalid SystemConfig update event"),
        ((CONFIG_UPDATE_TOPIC, word(1), ZERO_HASH), "unrecognized SystemConfig update event version"),
        ((CONFIG_UPDATE_TOPIC, ZERO_HASH, b"\x01" + bytes(31)), "unknown SystemConfig event type"),
    ],
)
def test_topics_are_checked(topics: tuple[bytes, ...], text: str) -> None:
    _, (skipped,) = apply_updates(START, [Log(L1_CONFIG, topics, update(0, b"").data, 3)], AFTER)
    assert skipped.text.startswith(text)


@given(st.integers(0, 8), st.binary(max_size=140))
def test_no_data_raise(kind: int, data: bytes) -> None:
    log = Log(L1_CONFIG, (CONFIG_UPDATE_TOPIC, ZERO_HASH, word(kind)), data, 0)
    for rules in (BEFORE, AFTER):
        config, skipped = apply_updates(START, [log], rules)
        assert skipped == () or config == START


# --- reading back --------------------------------------------------------------------------------------------------


def chain(**times: int) -> RollupConfig:
    return msgspec.structs.replace(
        PLAIN_ROLLUP,
        genesis=Genesis(BlockId(1, b"\x01" * 32), BlockId(0, b"\x02" * 32), 0, START),
        fork_times=times,
        chain_op_config=ChainOpConfig(6, 50, 250),
    )


def test_less_gas_than_the_upgrade_takes_is_no_limit() -> None:
    forks = dict.fromkeys(FORK_NAMES[: FORK_NAMES.index("karst")], 0) | {"karst": 1000}
    info = L1Info(5, 900, 7, b"\x05" * 32, 0, b"\x06" * 20)
    with pytest.raises(BlockConfigError, match="gas limit 5 below upgrade gas 55370657"):
        system_config_of_block(
            chain(**forks),
            number=500,
            block_hash=b"\x07" * 32,
            timestamp=1000,
            gas_limit=5,
            extra_data=bytes.fromhex("01000000fa000000060000000000000009"),
            transactions=(l1_info_deposit(info, L1InfoFormat.JOVIAN, is_system=False),),
        )


def test_the_genesis_block_has_the_config_of_the_file() -> None:
    def genesis(block_hash: bytes) -> SystemConfig:
        return system_config_of_block(
            chain(), number=0, block_hash=block_hash, timestamp=0, gas_limit=1, extra_data=b"any", transactions=()
        )

    assert genesis(b"\x02" * 32) == START
    with pytest.raises(BlockConfigError, match="expected L2 genesis hash"):
        genesis(b"\x03" * 32)
