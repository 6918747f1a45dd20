"""The Beacon API routes that a rollup node uses.

Genesis, spec, blobs, sidecars and beacon blocks by slot; light client objects in JSON; and the sidecars of pooled blob
transactions."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import msgspec
import orjson
from aiohttp import web

from rollup_node.stages.blobs.kzg import versioned_hash
from rollup_node.stages.l1.light_client.containers import (
    BeaconBlockHeader,
    Branch,
    ExecutionPayloadHeader,
    LightClientBootstrap,
    LightClientHeader,
    LightClientUpdate,
    SyncAggregate,
    SyncCommittee,
)
from rollup_node.stages.l1.light_client.network import BeaconNetwork
from rollup_node.stages.protocol import rlp
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.types import U64_MASK, ZERO_HASH, Hash
from rollup_node.tools.batcher.kzg_proofs import verify_proof
from rollup_node.tools.devnet.chain.blocks import Block
from rollup_node.tools.devnet.evm.forks import L1Schedule
from rollup_node.tools.devnet.evm.transactions import InvalidTransaction, SignedTransaction, read_signed

Json = dict[str, Any]


def header_json(
    header: LightClientHeader, execution: ExecutionPayloadHeader | None = None, payload_branch: Branch = ()
) -> Json:
    """Return a header in the form of Gloas, or that before it with the payload's header and branch."""
    if execution is None:
        hashes = {"execution_block_hash": to_hex(header.execution_block_hash)}
        return {"beacon": _json(header.beacon), **hashes, "execution_branch": _branch(header.execution_branch)}
    return {
        "beacon": _json(header.beacon),
        "execution": _json(execution),
        "execution_branch": _branch(payload_branch),
    }


def committee_json(committee: SyncCommittee) -> Json:
    """Return a sync committee."""
    keys = [to_hex(key) for key in committee.pubkeys]
    return {"pubkeys": keys, "aggregate_pubkey": to_hex(committee.aggregate_pubkey)}


def aggregate_json(aggregate: SyncAggregate) -> Json:
    """Return a sync aggregate."""
    value = sum(1 << index for index, bit in enumerate(aggregate.bits) if bit)
    bits = value.to_bytes(-(-len(aggregate.bits) // 8), "little")
    return {"sync_committee_bits": to_hex(bits), "sync_committee_signature": to_hex(aggregate.signature)}


def bootstrap_json(bootstrap: LightClientBootstrap, header: Json, version: str) -> Json:
    """Return the answer of `light_client/bootstrap/{root}`; `header` is what `header_json` returned."""
    data = {
        "header": header,
        "current_sync_committee": committee_json(bootstrap.current_sync_committee),
        "current_sync_committee_branch": _branch(bootstrap.current_sync_committee_branch),
    }
    return {"version": version, "data": data}


def update_json(update: LightClientUpdate, attested: Json, finalized: Json | None, version: str) -> Json:
    """Return the answer of an update route, or one item of `light_client/updates`; members that are None are absent."""
    data = {
        "attested_header": attested,
        "sync_aggregate": aggregate_json(update.sync_aggregate),
        "signature_slot": str(update.signature_slot),
    }
    if finalized is not None:
        data |= {"finalized_header": finalized, "finality_branch": _branch(update.finality_branch)}
    if update.next_sync_committee is not None:
        data |= {
            "next_sync_committee": committee_json(update.next_sync_committee),
            "next_sync_committee_branch": _branch(update.next_sync_committee_branch),
        }
    return {"version": version, "data": data}


def spec_json(network: BeaconNetwork) -> Json:
    """Return what `config/spec` says of a network."""
    preset = network.preset
    values = {
        "CONFIG_NAME": network.name,
        "SECONDS_PER_SLOT": network.slot_ms // 1000,
        "SLOT_DURATION_MS": network.slot_ms,
        "SLOTS_PER_EPOCH": preset.slots_per_epoch,
        "EPOCHS_PER_SYNC_COMMITTEE_PERIOD": preset.epochs_per_period,
        "SYNC_COMMITTEE_SIZE": preset.sync_committee_size,
    }
    result = {name: str(value) for name, value in values.items()}
    for fork in network.forks:
        result[f"{fork.name.upper()}_FORK_VERSION"] = to_hex(fork.version)
        result |= {f"{fork.name.upper()}_FORK_EPOCH": str(fork.epoch)} if fork.name != "genesis" else {}
    return result


def genesis_json(network: BeaconNetwork) -> Json:
    """Return what `beacon/genesis` says of a network."""
    return {
        "genesis_time": str(network.genesis_time),
        "genesis_validators_root": to_hex(network.genesis_validators_root),
        "genesis_fork_version": to_hex(network.forks[0].version),
    }


def block_header_json(header: BeaconBlockHeader, signature: str) -> Json:
    """Return the signed header of a beacon block with its root."""
    return {
        "root": to_hex(header.root),
        "canonical": True,
        "header": {"message": _json(header), "signature": signature},
    }


def _json(value: BeaconBlockHeader | ExecutionPayloadHeader) -> Json:
    """Return numbers in decimal and bytes in hex; without members that are None."""
    members = {name: getattr(value, name) for name in value.__struct_fields__}
    return {
        name: str(member) if isinstance(member, int) else to_hex(member)
        for name, member in members.items()
        if member is not None
    }


def _branch(branch: Branch) -> list[str]:
    return [to_hex(node) for node in branch]


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


@dataclass(frozen=True)
class Blob:
    """A blob with its commitment and proof."""

    content: bytes
    commitment: bytes
    proof: bytes


def read_pooled(raw: bytes, chain_id: int) -> tuple[SignedTransaction, dict[Hash, Blob]]:
    """Return a transaction as of eth_sendRawTransaction, and its blobs by versioned hash.

    Raises InvalidTransaction for a blob transaction without a valid sidecar with one proof per blob (EIP-4844)."""
    if raw[:1] != bytes((BLOB_TYPE,)):
        return read_signed(raw, chain_id), {}
    try:
        wrapped = rlp.decode(raw[1:])
    except rlp.RlpError as error:
        raise InvalidTransaction(f"blob transaction: {error}") from None
    if not (isinstance(wrapped, list) and len(wrapped) == 4 and all(isinstance(part, list) for part in wrapped)):
        raise InvalidTransaction("blob transaction without a sidecar (body, blobs, commitments, proofs)")
    body, blobs, commitments, proofs = wrapped
    transaction = read_signed(bytes((BLOB_TYPE,)) + rlp.encode(body), chain_id)
    hashes = transaction.body.blob_hashes
    if not len(hashes) == len(blobs) == len(commitments) == len(proofs):
        raise InvalidTransaction("number of blobs in the sidecar differs from the transaction's")
    if tuple(map(versioned_hash, commitments)) != tuple(hashes):
        raise InvalidTransaction("commitments of the sidecar do not match the versioned hashes")
    if not all(map(verify_proof, blobs, commitments, proofs)):
        raise InvalidTransaction("invalid proof in the sidecar")
    result = zip(hashes, blobs, commitments, proofs, strict=True)
    return transaction, {blob_hash: Blob(*parts) for blob_hash, *parts in result}


Handler = Callable[[web.Request], Awaitable[web.Response]]
_SSZ = "application/octet-stream"


class BeaconChain(Protocol):
    """The chain behind the API."""

    network: BeaconNetwork

    def blobs_at(self, slot: int) -> Sequence[tuple[Hash, Blob]] | None:
        """Return the blobs of the canonical block of a slot in block order; None for a slot without a block."""

    def beacon_block(self, slot: int) -> BeaconBlock | None:
        """Return the canonical beacon block of a slot; None for a slot without one."""


def application(chain: BeaconChain) -> web.Application:
    """Return the web application with the routes."""
    app = web.Application()
    get = app.router.add_get
    get("/eth/v1/node/version", _constant({"version": "embedded development L1"}))
    get("/eth/v1/beacon/genesis", _constant(genesis_json(chain.network)))
    get("/eth/v1/config/spec", _constant(spec_json(chain.network)))
    routes = BeaconRoutes(chain)
    get("/eth/v1/beacon/blobs/{slot}", routes.blobs)
    get("/eth/v1/beacon/blob_sidecars/{slot}", routes.sidecars)
    get("/eth/v1/beacon/blinded_blocks/{slot}", routes.blinded_block)
    get("/eth/v2/beacon/blocks/{slot}", routes.block)
    return app


class BeaconRoutes:
    """The routes by slot. Slots have numbers; the API's other names of blocks are not found."""

    def __init__(self, chain: BeaconChain) -> None:
        self._chain = chain

    async def blobs(self, request: web.Request) -> web.Response:
        """getBlobs: all, or those with a wanted versioned hash; in SSZ if that is asked for."""
        result = self._blobs(request)
        if result is None:
            return _not_found()
        wanted = _query_values(request, "versioned_hashes")
        contents = [blob.content for name, blob in result if not wanted or to_hex(name) in wanted]
        if _SSZ in request.headers.get("Accept", ""):
            return web.Response(body=b"".join(contents), content_type=_SSZ)
        return json_response([to_hex(content) for content in contents])

    async def sidecars(self, request: web.Request) -> web.Response:
        """getBlobSidecars, which the API has lost before Gloas: all, or those with a wanted index."""
        result, block = self._blobs(request), self._block(request)
        if result is None or block is None:
            return _not_found()
        if block.rules.has_bids:
            return error_response(400, f"there are no blob sidecars in {block.rules.name}")
        wanted = _query_values(request, "indices")
        return json_response(
            [_sidecar(index, blob) for index, (_, blob) in enumerate(result) if not wanted or str(index) in wanted]
        )

    async def blinded_block(self, request: web.Request) -> web.Response:
        """getBlindedBlock, before Gloas."""
        block = self._block(request)
        if block is None:
            return _not_found()
        result = blinded(block)
        if result is None:
            return error_response(400, f"there are no blinded blocks in {block.rules.name}")
        return _versioned(block, result)

    async def block(self, request: web.Request) -> web.Response:
        """getBlockV2."""
        block = self._block(request)
        return _not_found() if block is None else _versioned(block, block.signed)

    def _blobs(self, request: web.Request) -> Sequence[tuple[Hash, Blob]] | None:
        slot = _slot(request)
        return None if slot is None else self._chain.blobs_at(slot)

    def _block(self, request: web.Request) -> BeaconBlock | None:
        slot = _slot(request)
        return None if slot is None else self._chain.beacon_block(slot)


def _slot(request: web.Request) -> int | None:
    slot = request.match_info["slot"]
    return int(slot) if slot.isdigit() else None


def _query_values(request: web.Request, name: str) -> set[str]:
    return {part for value in request.query.getall(name, []) for part in value.split(",")}


def _sidecar(index: int, blob: Blob) -> dict[str, str]:
    return {
        "index": str(index),
        "blob": to_hex(blob.content),
        "kzg_commitment": to_hex(blob.commitment),
        "kzg_proof": to_hex(blob.proof),
    }


def _constant(data: dict[str, str]) -> Handler:
    async def handle(request: web.Request) -> web.Response:
        return json_response(data)

    return handle


def _versioned(block: BeaconBlock, data: Any) -> web.Response:
    """Return a block with the name of its fork."""
    response = json_response(data, version=block.rules.name, execution_optimistic=False, finalized=block.finalized)
    response.headers["Eth-Consensus-Version"] = block.rules.name
    return response


def json_response(data: Any, **members: Any) -> web.Response:
    """Return the envelope of `data` with other members."""
    return web.Response(body=orjson.dumps({**members, "data": data}), content_type="application/json")


def _not_found() -> web.Response:
    return error_response(404, "block not found")


def error_response(status: int, message: str) -> web.Response:
    """Return an error as the Beacon API has it."""
    body = orjson.dumps({"code": status, "message": message})
    return web.Response(status=status, body=body, content_type="application/json")


BLOB_TYPE = 3
