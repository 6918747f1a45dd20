"""The system config: updates from L1, and reading it back from blocks."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollup_node.stages.protocol import system_config
from rollup_node.stages.protocol.config import ChainOpConfig, Genesis, RollupConfig, SystemConfig
from rollup_node.stages.protocol.forks.rules import L1InfoFormat, L1Rules, L2Rules
from rollup_node.stages.protocol.forks.table import FORK_NAMES
from rollup_node.stages.protocol.l1_info import L1Info, l1_info_deposit
from rollup_node.stages.protocol.system_config import (
    CONFIG_UPDATE_TOPIC,
    BlockConfigError,
    ExtraDataError,
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


def test_a_scalar_with_padding_changes_nothing_from_ecotone_on() -> None:
    """The first and the last byte of each version's padding [SYS21]."""
    for place, version in ((1, 0), (27, 0), (1, 1), (23, 1)):
        scalar = bytearray(bytes((version,)) + bytes(31))
        scalar[place] = 1
        assert apply_updates(START, [update(1, 7, bytes(scalar))], AFTER) == (START, ())


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


def all_until(fork: str, time: int) -> dict[str, int]:
    names = FORK_NAMES[: FORK_NAMES.index(fork) + 1]
    return {name: 0 for name in names} | {fork: time}


INFO = L1Info(
    number=5,
    timestamp=900,
    base_fee=7,
    block_hash=b"\x05" * 32,
    sequence_number=0,
    batcher=b"\x06" * 20,
    overhead=word(188),
    scalar=word(684000),
    base_fee_scalar=11,
    blob_base_fee_scalar=12,
    operator_fee_scalar=13,
    operator_fee_constant=14,
    da_footprint_gas_scalar=15,
)


def read(
    config: RollupConfig, timestamp: int, layout: L1InfoFormat, extra: str = "", gas: int = 60_000_000
) -> SystemConfig:
    return system_config_of_block(
        config,
        number=500,
        block_hash=b"\x07" * 32,
        timestamp=timestamp,
        gas_limit=gas,
        extra_data=bytes.fromhex(extra),
        transactions=(l1_info_deposit(INFO, layout, is_system=False),),
    )


HOLOCENE_EXTRA, JOVIAN_EXTRA = "00000000fa00000006", "01000000fa000000060000000000000009"


def test_less_gas_than_the_upgrade_takes_is_no_limit() -> None:
    with pytest.raises(BlockConfigError, match="gas limit 5 below upgrade gas 55370657"):
        read(chain(**all_until("karst", 1000)), 1000, L1InfoFormat.JOVIAN, JOVIAN_EXTRA, 5)


def test_the_genesis_block_has_the_config_of_the_file() -> None:
    def genesis(block_hash: bytes) -> SystemConfig:
        return system_config_of_block(
            chain(), number=0, block_hash=block_hash, timestamp=0, gas_limit=1, extra_data=b"any", transactions=()
        )

    assert genesis(b"\x02" * 32) == START
    with pytest.raises(BlockConfigError, match="expected L2 genesis hash"):
        genesis(b"\x03" * 32)


@pytest.mark.parametrize(
    ("timestamp", "layout", "extra"),
    [
        (998, L1InfoFormat.ISTHMUS, ""),
        (998, L1InfoFormat.ECOTONE, HOLOCENE_EXTRA),
        (1000, L1InfoFormat.ECOTONE, ""),
        (1000, L1InfoFormat.ECOTONE, JOVIAN_EXTRA),
        (1000, L1InfoFormat.BEDROCK, HOLOCENE_EXTRA),
    ],
)
def test_blocks_with_another_layout_or_extra_data_have_no_config(
    timestamp: int, layout: L1InfoFormat, extra: str
) -> None:
    with pytest.raises(BlockConfigError):
        read(chain(**all_until("holocene", 1000)), timestamp, layout, extra)


HOLOCENE = L2Rules(eip1559_params=True)
JOVIAN = L2Rules(eip1559_params=True, min_base_fee=True)
CONSTANTS = ChainOpConfig(eip1559_elasticity=6, eip1559_denominator=50, eip1559_denominator_canyon=250)


def test_zeros_become_the_constants_of_the_chain() -> None:
    assert system_config.encode_extra_data(bytes(8), None, CONSTANTS).hex() == "00000000fa00000006"
    assert system_config.encode_extra_data(bytes(8), 10**9, CONSTANTS).hex() == "01000000fa00000006000000003b9aca00"
    without = ChainOpConfig(6, 50, None)
    assert system_config.encode_extra_data(bytes(8), None, without).hex() == "000000003200000006"
    assert system_config.encode_extra_data(None, None, CONSTANTS) == b""


@pytest.mark.parametrize(
    ("data", "rules", "text"),
    [
        ("", HOLOCENE, "9 bytes, got 0"),
        ("00000000fa00000000", HOLOCENE, "elasticity"),
        ("00000000fa000000060000000000000000", JOVIAN, "version 1, got 0"),
    ],
)
def test_malformed_extra_data(data: str, rules: L2Rules, text: str) -> None:
    with pytest.raises(ExtraDataError, match=text):
        system_config.decode_extra_data(bytes.fromhex(data), rules)
