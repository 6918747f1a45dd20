"""Transactions on the chains of a local network."""

from typing import Any

from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.types import Address
from rollup_node.tools.batcher.driver import Key, dynamic_fee_transaction
from rollup_node.tools.devnet.files import DEPOSITOR_KEY, L1_CHAIN_ID, PORTAL, RECEIVER_KEY
from rollup_node.tools.devnet.games import FACTORY, create_call
from rollup_node.tools.devnet.traffic import DEPOSIT_GAS, FEES, deposit_call
from tests.support.processes.programs import call, wait_for


def send(url: str, key: Key, chain_id: int, to: Address | None, data: bytes, gas: int, value: int = 0) -> str:
    """Send a transaction, which creates a contract without `to`, to a node or an engine; its hash."""
    nonce = int(call(url, "eth_getTransactionCount", to_hex(key.address), "pending"), 16)
    raw = dynamic_fee_transaction(key, chain_id, nonce, to, value, data, gas, FEES)
    return str(call(url, "eth_sendRawTransaction", to_hex(raw)))


def send_deposit(l1: str, to: Address = DEPOSITOR_KEY.address, value: int = 1) -> None:
    """Send a deposit that mints `value` wei for an account of L2."""
    data = deposit_call(DEPOSITOR_KEY.address, to, mint=value, value=value, gas=DEPOSIT_GAS)
    send(l1, DEPOSITOR_KEY, L1_CHAIN_ID, PORTAL, data, DEPOSIT_GAS)


def send_to_l1(l1: str, to: Address | None, data: bytes) -> dict[str, Any]:
    """Send a transaction to L1 and wait until it is in a block; its receipt."""
    sent = send(l1, RECEIVER_KEY, L1_CHAIN_ID, to, data, 3_000_000)
    receipt: dict[str, Any] = wait_for(
        lambda: call(l1, "eth_getTransactionReceipt", sent), "the transaction is in a block"
    )
    assert receipt["status"] == "0x1"
    return receipt


def claim(l1: str, root: bytes, extra: int | bytes, game_type: int = 0, factory: Address = FACTORY) -> None:
    """Create a game that claims a root of an L2 block or time, or a super root of its preimage."""
    send_to_l1(l1, factory, create_call(game_type, root, extra))
