"""Transactions to the contracts of games on the L1 of a local network."""

from typing import Any

from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.types import Address
from rollup_node.tools.batcher.driver import Fees, dynamic_fee_transaction
from rollup_node.tools.devnet.files import L1_CHAIN_ID, RECEIVER_KEY
from rollup_node.tools.devnet.games import FACTORY, create_call
from tests.support.processes.programs import call, wait_for

FEES = Fees(10**9, 10**11)


def send_to_l1(l1: str, to: Address | None, data: bytes) -> dict[str, Any]:
    """Send a transaction, which creates a contract without `to`, and wait until it is in a block; its receipt."""
    nonce = int(call(l1, "eth_getTransactionCount", to_hex(RECEIVER_KEY.address), "pending"), 16)
    signed = dynamic_fee_transaction(RECEIVER_KEY, L1_CHAIN_ID, nonce, to, 0, data, 3_000_000, FEES)
    sent = call(l1, "eth_sendRawTransaction", to_hex(signed))
    receipt: dict[str, Any] = wait_for(
        lambda: call(l1, "eth_getTransactionReceipt", sent), "the transaction is in a block"
    )
    assert receipt["status"] == "0x1"
    return receipt


def claim(l1: str, root: bytes, extra: int | bytes, game_type: int = 0, factory: Address = FACTORY) -> None:
    """Create a game that claims a root of an L2 block or time, or a super root of its preimage."""
    send_to_l1(l1, factory, create_call(game_type, root, extra))
