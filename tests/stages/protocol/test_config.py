"""The rollup config's derived values."""

from typing import Any

import msgspec
import pytest

from rollup_node.stages.protocol.config import (
    AltDaConfig,
    ConfigError,
    ForeignFork,
    Genesis,
    RollupConfig,
    SystemConfig,
    check_config,
    end_text,
    network_left,
)
from rollup_node.stages.protocol.types import ZERO_ADDRESS, ZERO_HASH, BlockId
from tests.support.chains.chain_fixture import chain_with
from tests.support.chains.plain_rollup import PLAIN_ROLLUP

GENESIS = Genesis(
    BlockId(1, b"\x01" * 32), BlockId(105, b"\x02" * 32), 1000, SystemConfig(bytes(20), ZERO_HASH, ZERO_HASH, 1)
)
CONFIG = msgspec.structs.replace(
    PLAIN_ROLLUP,
    genesis=GENESIS,
    max_sequencer_drift=700,
    channel_timeout=200,
    fork_times={"regolith": 0, "granite": 500},
)


def test_block_numbers_by_time() -> None:
    """[CFG32]"""
    assert [CONFIG.block_number_at(time) for time in (1000, 1001, 1002, 1999)] == [105, 105, 106, 604]
    with pytest.raises(ValueError, match=r"did not reach genesis time \(1000\) yet"):
        CONFIG.block_number_at(999)


def test_times_by_block_number() -> None:
    """[CFG31]"""
    assert [CONFIG.timestamp_of(number) for number in (105, 106, 604)] == [1000, 1002, 1998]


def test_the_schedule_is_built_once() -> None:
    assert CONFIG.schedule() is CONFIG.schedule()
    copy = msgspec.msgpack.decode(msgspec.msgpack.encode(CONFIG), type=RollupConfig)
    assert copy == CONFIG and copy.schedule() is CONFIG.schedule()
    other = msgspec.structs.replace(CONFIG, block_time=1)
    assert other.schedule() is not CONFIG.schedule()


CHAIN = chain_with()
CHAIN_GENESIS = CHAIN.rollup.genesis


def leaving(seconds: int) -> RollupConfig:
    """Return the chain with a foreign fork so many seconds after genesis; its blocks come every 2 s."""
    return msgspec.structs.replace(CHAIN.rollup, foreign_fork=ForeignFork("Somefork", CHAIN_GENESIS.l2_time + seconds))


@pytest.mark.parametrize(("seconds", "last"), [(1, 0), (2, 0), (3, 1), (4, 1), (5, 2)])
def test_the_last_block_is_the_one_before_the_time_of_the_fork(seconds: int, last: int) -> None:
    """[LFT2]"""
    config = leaving(seconds)
    assert config.block_time == 2
    assert config.last_block == CHAIN_GENESIS.l2.number + last
    times = [CHAIN_GENESIS.l2_time + config.block_time * number for number in (last, last + 1)]
    assert [config.is_foreign(time) for time in times] == [False, True]
    assert [config.ends_at(last + step) for step in (-1, 0, 1)] == [False, True, True]


def test_other_chains_have_no_end() -> None:
    config = CHAIN.rollup
    assert config.last_block is None and not config.is_foreign(1 << 62) and not config.ends_at(1 << 62)
    assert end_text(config) == ""


def test_the_error_names_the_last_block_and_the_fork() -> None:
    error = network_left(leaving(4), CHAIN.build(3)[3])
    assert str(error) == (
        "the safe head is block 3, and block 1 is the last that can be derived, Somefork began at 1970-01-01T00:16:44Z"
    )


GOOD = msgspec.structs.replace(
    PLAIN_ROLLUP,
    genesis=Genesis(
        BlockId(1, b"\x01" * 32),
        BlockId(0, b"\x02" * 32),
        1_000,
        SystemConfig(b"\x03" * 20, ZERO_HASH, b"\x01" * 32, 1),
    ),
    fork_times={"regolith": 0},
    l1_chain_id=900,
    l2_chain_id=901,
    batch_inbox=b"\x04" * 20,
    deposit_contract=b"\x05" * 20,
    l1_system_config=b"\x06" * 20,
)


def changed(path: str, value: Any) -> RollupConfig:
    """Return the good configuration with one field, named by its path, replaced."""

    def replace(struct: Any, names: list[str]) -> Any:
        inner = value if len(names) == 1 else replace(getattr(struct, names[0]), names[1:])
        return msgspec.structs.replace(struct, **{names[0]: inner})

    result: RollupConfig = replace(GOOD, path.split("."))
    return result


def alt_da(kind: str, contract: bytes | None) -> AltDaConfig:
    return AltDaConfig(contract, kind, 1, 1)


def test_a_good_configuration_passes() -> None:
    check_config(GOOD)
    check_config(changed("alt_da", alt_da("KeccakCommitment", b"\x07" * 20)))
    check_config(changed("alt_da", alt_da("GenericCommitment", None)))


@pytest.mark.parametrize(
    ("path", "value", "text"),
    [
        ("block_time", 0, "block time cannot be 0"),
        ("channel_timeout", 0, "channel timeout must be set, this should cover at least a L1 block time"),
        ("seq_window_size", 1, "sequencing window size must at least be 2"),
        ("max_sequencer_drift", 0, "maximum sequencer drift must be greater than 0"),
        ("genesis.l1.hash", ZERO_HASH, "genesis L1 hash cannot be empty"),
        ("genesis.l2.hash", ZERO_HASH, "genesis L2 hash cannot be empty"),
        ("genesis.l2.hash", b"\x01" * 32, "achievement get! rollup inception: L1 and L2 genesis cannot be the same"),
        ("genesis.l2_time", 0, "missing L2 genesis time"),
        ("genesis.system_config.batcher", ZERO_ADDRESS, "missing genesis system config batcher address"),
        ("genesis.system_config.scalar", ZERO_HASH, "missing genesis system config scalar"),
        ("genesis.system_config.gas_limit", 0, "missing genesis system config gas limit"),
        ("batch_inbox", ZERO_ADDRESS, "missing batch inbox address"),
        ("deposit_contract", ZERO_ADDRESS, "missing deposit contract address"),
        ("l2_chain_id", 900, "L1 and L2 chain IDs must be different"),
        ("l1_chain_id", 0, "L1 chain ID must be non-zero and positive"),
        ("l2_chain_id", -1, "L2 chain ID must be non-zero and positive"),
        ("alt_da", alt_da("Other", None), "invalid commitment type: Other"),
        ("alt_da", alt_da("KeccakCommitment", None), "Must set da_challenge_contract_address for keccak commitments"),
        (
            "alt_da",
            alt_da("GenericCommitment", b"\x07" * 20),
            "Must set empty da_challenge_contract_address for generic commitments",
        ),
        ("fork_times", {"delta": 5, "regolith": 0}, "fork delta set (to 5), but prior fork canyon missing"),
    ],
)
def test_each_check_has_its_text(path: str, value: Any, text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check_config(changed(path, value))
    assert str(caught.value) == text


def test_the_first_violated_check_is_reported() -> None:
    bad = msgspec.structs.replace(changed("block_time", 0), seq_window_size=0, batch_inbox=ZERO_ADDRESS)
    with pytest.raises(ConfigError, match=r"^block time cannot be 0$"):
        check_config(bad)
