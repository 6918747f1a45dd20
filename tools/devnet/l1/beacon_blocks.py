"""The embedded L1's beacon blocks as the Beacon API returns them.

They have what refers to the execution block and its blobs; nobody votes here, and what only votes make is left out."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.types import U64_MASK, ZERO_HASH
from rollup_node.tools.devnet.chain.blocks import Block
from rollup_node.tools.devnet.evm.state_transition.forks import L1Schedule


class ConsensusRules(msgspec.Struct, frozen=True):
    """The rules of a consensus fork for beacon blocks; `name` as the Beacon API has it.

    With `has_bids` a block has the bid for its payload in the place of payload and commitments (EIP-7732)."""

    name: str
    has_bids: bool = False


CONSENSUS_FORKS: Mapping[str, ConsensusRules] = {
    "shanghai": ConsensusRules("capella"),
    "cancun": ConsensusRules("deneb"),
    "prague": ConsensusRules("electra"),
    "osaka": ConsensusRules("fulu"),
    "amsterdam": ConsensusRules("gloas", has_bids=True),
}
"""By the fork of the execution layer."""


def consensus_rules(config: Mapping[str, object]) -> L1Schedule[ConsensusRules]:
    """Return the rules of beacon blocks of an L1 chain by the time of their slot, from its genesis `config`."""
    return L1Schedule(config, ConsensusRules("bellatrix"), CONSENSUS_FORKS)


NO_SIGNATURE = to_hex(b"\xc0" + bytes(95))
"""The point at infinity, with which proposers sign bids of their own."""
_SELF_BUILD = U64_MASK
_PAYLOAD, _PAYLOAD_HEADER = "execution_payload", "execution_payload_header"


class BeaconBlock(NamedTuple):
    """A signed beacon block as JSON, and the rules of its fork."""

    rules: ConsensusRules
    signed: dict[str, Any]
    finalized: bool = False


def beacon_block(
    rules: ConsensusRules, slot: int, block: Block, commitments: Sequence[bytes], finalized: bool
) -> BeaconBlock:
    """Return the beacon block of a slot with this execution block.

    Its blobs have these commitments in its order [BCN19]."""
    listed = {"blob_kzg_commitments": list(map(to_hex, commitments))}
    parent_root = to_hex(block.header.parent_beacon_root or ZERO_HASH)
    if rules.has_bids:
        bid = {
            **_common(block),
            "parent_block_hash": to_hex(block.header.parent_hash),
            "parent_block_root": parent_root,
            "builder_index": str(_SELF_BUILD),
            "slot": str(slot),
            "value": "0",
            "execution_payment": "0",
            **listed,
        }
        signed_bid = {"message": bid, "signature": NO_SIGNATURE}
        body: dict[str, Any] = {"signed_execution_payload_bid": signed_bid, "payload_attestations": []}
    else:
        body = {_PAYLOAD: _payload(block), **listed}
    message = {"slot": str(slot), "proposer_index": "0", "parent_root": parent_root, "body": body}
    return BeaconBlock(rules, {"message": message, "signature": NO_SIGNATURE}, finalized)


def blinded(block: BeaconBlock) -> dict[str, Any] | None:
    """Return the block with its payload's header in the place of the payload.

    None for a block with a bid, which has no payload."""
    message = block.signed["message"]
    payload = message["body"].get(_PAYLOAD)
    if payload is None:
        return None
    body = {name: value for name, value in message["body"].items() if name != _PAYLOAD}
    body[_PAYLOAD_HEADER] = {name: value for name, value in payload.items() if name != "transactions"}
    return {**block.signed, "message": {**message, "body": body}}


def _payload(block: Block) -> dict[str, Any]:
    header = block.header
    return {
        **_common(block),
        "parent_hash": to_hex(header.parent_hash),
        "block_number": str(header.number),
        "gas_used": str(header.gas_used),
        "timestamp": str(header.timestamp),
        "transactions": [to_hex(transaction.raw) for transaction in block.transactions],
    }


def _common(block: Block) -> dict[str, str]:
    """Return what a bid says of its payload, and a payload too."""
    header = block.header
    return {
        "block_hash": to_hex(block.hash),
        "prev_randao": to_hex(header.mix_hash),
        "fee_recipient": to_hex(header.miner),
        "gas_limit": str(header.gas_limit),
    }
