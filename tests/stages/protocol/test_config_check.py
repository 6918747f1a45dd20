"""Every check of the rollup config by its text [CFG2 to CFG25]."""

from typing import Any

import msgspec
import pytest

from rollup_node.stages.protocol.config import AltDaConfig, Genesis, RollupConfig, SystemConfig
from rollup_node.stages.protocol.config_check import ConfigError, check_config
from rollup_node.stages.protocol.types import ZERO_ADDRESS, ZERO_HASH, BlockId

GOOD = RollupConfig(
    genesis=Genesis(
        l1=BlockId(1, b"\x01" * 32),
        l2=BlockId(0, b"\x02" * 32),
        l2_time=1_000,
        system_config=SystemConfig(batcher=b"\x03" * 20, overhead=ZERO_HASH, scalar=b"\x01" * 32, gas_limit=30_000_000),
    ),
    block_time=2,
    max_sequencer_drift=600,
    seq_window_size=3600,
    channel_timeout=300,
    l1_chain_id=900,
    l2_chain_id=901,
    fork_times={"regolith": 0},
    batch_inbox=b"\x04" * 20,
    deposit_contract=b"\x05" * 20,
    l1_system_config=b"\x06" * 20,
)


def changed(path: str, value: Any) -> RollupConfig:
    """The good configuration with one field, named by its path, replaced."""

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
        (
            "genesis.l2.hash",
            b"\x01" * 32,
            "achievement get! rollup inception: L1 and L2 genesis cannot be the same",
        ),
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
        (
            "alt_da",
            alt_da("KeccakCommitment", None),
            "Must set da_challenge_contract_address for keccak commitments",
        ),
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
