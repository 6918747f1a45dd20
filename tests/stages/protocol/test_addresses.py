"""Fixed addresses of the protocol [CST10 to CST18]."""

import pytest

from rollup_node.stages.protocol import addresses
from rollup_node.stages.protocol.addresses import predeploy
from rollup_node.stages.protocol.types import Address


@pytest.mark.parametrize(
    ("address", "text"),
    [
        (addresses.L1_ATTRIBUTES_DEPOSITOR, "DeaDDEaDDeAdDeAdDEAdDEaddeAddEAdDEAd0001"),
        (addresses.OPTIMISTIC_BLOCK_DEPOSITOR, "deaddeaddeaddeaddeaddeaddeaddeaddead0002"),
        (addresses.L1_BLOCK, "4200000000000000000000000000000000000015"),
        (addresses.GAS_PRICE_ORACLE, "420000000000000000000000000000000000000F"),
        (addresses.SEQUENCER_FEE_VAULT, "4200000000000000000000000000000000000011"),
        (addresses.L2_TO_L1_MESSAGE_PASSER, "4200000000000000000000000000000000000016"),
        (addresses.PROXY_ADMIN, "4200000000000000000000000000000000000018"),
        (addresses.OPERATOR_FEE_VAULT, "420000000000000000000000000000000000001b"),
        (addresses.ETH_LIQUIDITY, "4200000000000000000000000000000000000025"),
    ],
)
def test_fixed_addresses(address: Address, text: str) -> None:
    assert address == bytes.fromhex(text)


def test_a_predeploy_ends_with_its_number() -> None:
    assert predeploy(0xAB) == b"\x42" + bytes(18) + b"\xab"
