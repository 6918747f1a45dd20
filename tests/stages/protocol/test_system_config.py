"""The system config: updates from L1, and reading it back from blocks."""

from typing import Any

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
    ExtraData,
    ExtraDataError,
    ScalarError,
    apply_updates,
    fee_scalars,
    packed_scalar,
    system_config_of_block,
)
from rollup_node.stages.protocol.types import ZERO_HASH, BlockId, Log
from rollup_node.stages.protocol.upgrade_transactions import load_bundle
from tests.support.chains.plain_rollup import PLAIN_ROLLUP

L1_CONFIG = b"\x99" * 20
START = SystemConfig(b"\x01" * 20, (188).to_bytes(32, "big"), (684000).to_bytes(32, "big"), 30_000_000)
BEFORE, AFTER = L1Rules(), L1Rules(packed_fee_scalars=True)
U32 = st.integers(0, 2**32 - 1)


def word(value: int | bytes) -> bytes:
    return value.to_bytes(32, "big") if isinstance(value, int) else value.rjust(32, b"\0")


def update(kind: int | bytes, *words: int | bytes, index: int = 0) -> Log:
    payload = b"".join(map(word, words))
    data = word(32) + word(len(payload)) + payload
    return Log(L1_CONFIG, (CONFIG_UPDATE_TOPIC, ZERO_HASH, word(kind)), data, index)


def applied(*logs: Log, rules: L1Rules = AFTER) -> SystemConfig:
    config, skipped = apply_updates(START, logs, rules)
    assert skipped == ()
    return config


@pytest.mark.parametrize(
    ("log", "changes"),
    [
        (update(0, b"\x07" * 20), {"batcher": b"\x07" * 20}),
        (update(2, 5), {"gas_limit": 5}),
        (update(3, 5), {}),
        (update(4, 250 << 32 | 6), {"eip1559_params": bytes.fromhex("000000fa00000006")}),
        (update(5, 7 << 64 | 8), {"operator_fee_params": word(7 << 64 | 8)}),
        (update(6, 9), {"min_base_fee": 9}),
        (update(7, 10), {"da_footprint_gas_scalar": 10}),
    ],
)
def test_each_type(log: Log, changes: dict[str, Any]) -> None:
    assert applied(log) == applied(log, rules=BEFORE) == msgspec.structs.replace(START, **changes)


def test_fee_scalars_by_the_time_of_the_l1_block() -> None:
    """[SYS21]"""
    packed = packed_scalar(5, 6)
    old = applied(update(1, 7, packed), rules=BEFORE)
    assert (old.overhead, old.scalar) == (word(7), packed)
    new = applied(update(1, 7, packed))
    assert (new.overhead, new.scalar) == (ZERO_HASH, packed)
    for refused in (b"\x02" + bytes(31), b"\x01\x01" + bytes(30), b"\x00\x01" + bytes(30)):
        assert applied(update(1, 7, refused)) == START, "silently left as it was"


def test_later_updates_win_and_bad_ones_are_skipped() -> None:
    """[SYS9]"""
    logs = [update(2, 5), update(9, 1, index=1), update(2, 6), update(2, 2**64, index=3)]
    config, skipped = apply_updates(START, logs, AFTER)
    assert config.gas_limit == 6
    assert [item.log_index for item in skipped] == [1, 3]
    assert skipped[0].text.startswith("unknown SystemConfig event type")
    assert skipped[1].text.startswith("value has more than 8 bytes")


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


@given(st.sampled_from([2, 4, 5, 6, 7]), st.binary(min_size=32, max_size=32))
def test_accepted_updates_are_stored_as_logged(kind: int, value: bytes) -> None:
    config, skipped = apply_updates(START, [update(kind, value)], AFTER)
    number = int.from_bytes(value, "big")
    if not skipped:
        stored: dict[int, int] = {
            2: config.gas_limit,
            4: int.from_bytes(config.eip1559_params, "big"),
            5: int.from_bytes(config.operator_fee_params, "big"),
            6: config.min_base_fee,
            7: config.da_footprint_gas_scalar,
        }
        assert stored[kind] == (number & (2**64 - 1) if kind == 4 else number)


@given(U32, U32)
def test_scalars_round_trip(base: int, blob: int) -> None:
    assert fee_scalars(packed_scalar(base, blob)) == (base, blob)


@given(st.binary(min_size=32, max_size=32))
def test_scalars_are_read_or_refused(scalar: bytes) -> None:
    try:
        base, blob = fee_scalars(scalar)
    except ScalarError:
        assert scalar[0] > 1 or any(scalar[1:24])
    else:
        assert base <= 2**32 - 1 and (scalar[0] == 1 or blob == 0)


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
PARAMS = bytes.fromhex("000000fa00000006")


def test_bedrock_words_are_kept_through_ecotones_activation_block() -> None:
    plain = SystemConfig(b"\x06" * 20, word(188), word(684000), 60_000_000)
    assert read(chain(), 1000, L1InfoFormat.BEDROCK) == plain
    ecotone = chain(**all_until("ecotone", 1000))
    assert read(ecotone, 1000, L1InfoFormat.BEDROCK) == plain
    after = read(ecotone, 1002, L1InfoFormat.ECOTONE)
    assert after == msgspec.structs.replace(plain, overhead=ZERO_HASH, scalar=packed_scalar(11, 12))


def test_values_appear_with_their_forks() -> None:
    holocene = chain(**all_until("holocene", 1000))
    assert read(holocene, 998, L1InfoFormat.ECOTONE).eip1559_params == bytes(8)
    assert read(holocene, 1000, L1InfoFormat.ECOTONE, HOLOCENE_EXTRA).eip1559_params == PARAMS
    isthmus = chain(**all_until("isthmus", 1000))
    assert read(isthmus, 1000, L1InfoFormat.ECOTONE, HOLOCENE_EXTRA).operator_fee_params == ZERO_HASH
    operator_fee = word(13 << 64 | 14)
    assert read(isthmus, 1002, L1InfoFormat.ISTHMUS, HOLOCENE_EXTRA).operator_fee_params == operator_fee
    jovian = chain(**all_until("jovian", 1000))
    activation = read(jovian, 1000, L1InfoFormat.ISTHMUS, JOVIAN_EXTRA)
    assert (activation.min_base_fee, activation.da_footprint_gas_scalar) == (9, 0)
    after = read(jovian, 1002, L1InfoFormat.JOVIAN, JOVIAN_EXTRA)
    assert (after.min_base_fee, after.da_footprint_gas_scalar) == (9, 15)
    assert after.operator_fee_params == operator_fee


def test_upgrade_gas_is_subtracted_once() -> None:
    karst = chain(**all_until("karst", 1000))
    layout = L1InfoFormat.JOVIAN
    assert read(karst, 1000, layout, JOVIAN_EXTRA, 115_370_657).gas_limit == 60_000_000
    assert read(karst, 1002, layout, JOVIAN_EXTRA, 115_370_657).gas_limit == 115_370_657
    keeping = msgspec.structs.replace(karst, keep_karst_upgrade_gas=True)
    assert read(keeping, 1000, layout, JOVIAN_EXTRA, 115_370_657).gas_limit == 115_370_657
    with pytest.raises(BlockConfigError, match="gas limit 5 below upgrade gas 55370657"):
        read(karst, 1000, layout, JOVIAN_EXTRA, 5)
    lagoon = msgspec.structs.replace(chain(**all_until("lagoon", 1000)), keep_karst_upgrade_gas=True)
    assert read(lagoon, 1000, layout, JOVIAN_EXTRA, load_bundle("lagoon").gas + 7).gas_limit == 7


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


PLAIN = L2Rules()
HOLOCENE = L2Rules(eip1559_params=True)
JOVIAN = L2Rules(eip1559_params=True, min_base_fee=True)
CONSTANTS = ChainOpConfig(eip1559_elasticity=6, eip1559_denominator=50, eip1559_denominator_canyon=250)
NONZERO_U32 = st.integers(1, 2**32 - 1)


@given(NONZERO_U32, NONZERO_U32, st.none() | st.integers(0, 2**64 - 1))
def test_values_round_trip(denominator: int, elasticity: int, min_base_fee: int | None) -> None:
    extra = ExtraData(denominator, elasticity, min_base_fee)
    data = system_config.encode_extra_data(extra.params, min_base_fee, CONSTANTS)
    assert system_config.decode_extra_data(data, HOLOCENE if min_base_fee is None else JOVIAN) == extra


def test_zeros_become_the_constants_of_the_chain() -> None:
    assert system_config.encode_extra_data(bytes(8), None, CONSTANTS).hex() == "00000000fa00000006"
    assert system_config.encode_extra_data(bytes(8), 10**9, CONSTANTS).hex() == "01000000fa00000006000000003b9aca00"
    without = ChainOpConfig(6, 50, None)
    assert system_config.encode_extra_data(bytes(8), None, without).hex() == "000000003200000006"
    assert system_config.encode_extra_data(None, None, CONSTANTS) == b""


def test_extra_data_is_empty_before_holocene() -> None:
    assert system_config.decode_extra_data(b"", PLAIN) == ExtraData() and ExtraData().params == bytes(8)
    with pytest.raises(ExtraDataError, match="must be empty"):
        system_config.decode_extra_data(b"\0", PLAIN)


@pytest.mark.parametrize(
    ("data", "rules", "text"),
    [
        ("", HOLOCENE, "9 bytes, got 0"),
        ("00000000fa0000000600", HOLOCENE, "9 bytes, got 10"),
        ("01000000fa00000006", HOLOCENE, "version 0, got 1"),
        ("000000000000000006", HOLOCENE, "denominator"),
        ("00000000fa00000000", HOLOCENE, "elasticity"),
        ("00000000fa00000006", JOVIAN, "17 bytes, got 9"),
        ("00000000fa000000060000000000000000", JOVIAN, "version 1, got 0"),
    ],
)
def test_malformed_extra_data(data: str, rules: L2Rules, text: str) -> None:
    with pytest.raises(ExtraDataError, match=text):
        system_config.decode_extra_data(bytes.fromhex(data), rules)
