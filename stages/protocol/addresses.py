"""Fixed accounts and contracts of the rollup protocol [CST10 to CST19]."""

from rollup_node.stages.protocol.types import Address


def predeploy(low: int) -> Address:
    """The predeploy 0x42000000000000000000000000000000000000xx, whose last byte is `low`."""
    return b"\x42" + bytes(18) + low.to_bytes(1, "big")


L1_ATTRIBUTES_DEPOSITOR: Address = bytes.fromhex("deaddeaddeaddeaddeaddeaddeaddeaddead0001")
OPTIMISTIC_BLOCK_DEPOSITOR: Address = bytes.fromhex("deaddeaddeaddeaddeaddeaddeaddeaddead0002")
GAS_PRICE_ORACLE = predeploy(0x0F)
SEQUENCER_FEE_VAULT = predeploy(0x11)
L1_BLOCK = predeploy(0x15)
L2_TO_L1_MESSAGE_PASSER = predeploy(0x16)
PROXY_ADMIN = predeploy(0x18)
OPERATOR_FEE_VAULT = predeploy(0x1B)
ETH_LIQUIDITY = predeploy(0x25)
CONDITIONAL_DEPLOYER = predeploy(0x2C)
