"""Withdrawals of L1 blocks (EIP-4895): a node needs only their root [HSH8]."""

from collections.abc import Mapping, Sequence
from typing import Any

from rollup_node.stages.protocol import rlp
from rollup_node.stages.protocol.hex_encoding import address_from_hex, from_quantity
from rollup_node.stages.protocol.mpt import ordered_root
from rollup_node.stages.protocol.rlp import encode_bytes, encode_int
from rollup_node.stages.protocol.types import Hash


def withdrawals_root(withdrawals: Sequence[Mapping[str, Any]]) -> Hash:
    """The withdrawals root of a JSON-RPC block's list. Raises HexError for a malformed entry."""
    return ordered_root([_encode_withdrawal(each) for each in withdrawals])


def _encode_withdrawal(withdrawal: Mapping[str, Any]) -> bytes:
    return rlp.encode_list(
        (
            encode_int(from_quantity(withdrawal.get("index"))),
            encode_int(from_quantity(withdrawal.get("validatorIndex"))),
            encode_bytes(address_from_hex(withdrawal.get("address"))),
            encode_int(from_quantity(withdrawal.get("amount"))),
        )
    )
