"""Light client objects in the JSON of the Beacon API, decoded with bounds [LCP5]."""

from collections.abc import Sequence
from typing import Any

import msgspec

from rollup_node.stages.l1.light_client.containers import (
    BeaconBlockHeader,
    Branch,
    ExecutionPayloadHeader,
    LightClientBootstrap,
    LightClientHeader,
    LightClientUpdate,
    SyncAggregate,
    SyncCommittee,
    upgraded,
)
from rollup_node.stages.l1.light_client.network import BeaconNetwork
from rollup_node.stages.l1.light_client.ssz import ZERO_ROOT, is_empty_branch
from rollup_node.stages.protocol.foreign_json import BeaconAnswer, MalformedJsonError, decode_json
from rollup_node.stages.protocol.hex_encoding import HexError, from_hex, from_hex_sized

UPDATES_PER_REQUEST = 8
"""Periods that one request asks for."""

MAX_BODY = 2 << 20
"""Bytes of an answer: an update of a committee of 512 has about 60 KB."""

MAX_VALUES = 50_000
MAX_BRANCH = 16
_EMPTY = BeaconBlockHeader(0, 0, ZERO_ROOT, ZERO_ROOT, ZERO_ROOT)
_SIZES = {"fee_recipient": 20, "logs_bloom": 256}


class LightClientDataError(ValueError):
    """An answer is not the light client object that it has to be; the text says why."""


class _Beacon(msgspec.Struct):
    slot: str
    proposer_index: str
    parent_root: str
    state_root: str
    body_root: str


class _Header(msgspec.Struct):
    beacon: _Beacon
    execution: dict[str, str] | None = None
    execution_block_hash: str | None = None
    execution_branch: list[str] = []


class _Committee(msgspec.Struct):
    pubkeys: list[str]
    aggregate_pubkey: str


class _Aggregate(msgspec.Struct):
    sync_committee_bits: str
    sync_committee_signature: str


class _Bootstrap(msgspec.Struct):
    header: _Header
    current_sync_committee: _Committee
    current_sync_committee_branch: list[str]


class _Update(msgspec.Struct):
    attested_header: _Header
    sync_aggregate: _Aggregate
    signature_slot: str
    finalized_header: _Header | None = None
    finality_branch: list[str] = []
    next_sync_committee: _Committee | None = None
    next_sync_committee_branch: list[str] = []


def parse_bootstrap(body: bytes, network: BeaconNetwork) -> LightClientBootstrap:
    """Return the object of `light_client/bootstrap/{root}`. Raises LightClientDataError, as the others do."""
    data: _Bootstrap = _decode(body, BeaconAnswer[_Bootstrap]).data
    try:
        return LightClientBootstrap(
            _header(data.header, network),
            _committee(data.current_sync_committee, network),
            _branch(data.current_sync_committee_branch),
        )
    except HexError as error:
        raise LightClientDataError(str(error)) from None


def parse_update(body: bytes, network: BeaconNetwork) -> LightClientUpdate:
    """Return the object of `light_client/finality_update` or `light_client/optimistic_update`."""
    return _update(_decode(body, BeaconAnswer[_Update]).data, network)


def parse_updates(body: bytes, network: BeaconNetwork) -> list[LightClientUpdate]:
    """Return the objects of `light_client/updates`, at most UPDATES_PER_REQUEST."""
    answers: list[BeaconAnswer[_Update]] = _decode(body, list[BeaconAnswer[_Update]])
    if len(answers) > UPDATES_PER_REQUEST:
        raise LightClientDataError(f"{len(answers)} updates, more than {UPDATES_PER_REQUEST}")
    return [_update(answer.data, network) for answer in answers]


def _decode(body: bytes, shape: Any) -> Any:
    try:
        return decode_json(body, shape, MAX_VALUES)
    except MalformedJsonError as error:
        raise LightClientDataError(str(error)) from None


def _update(data: _Update, network: BeaconNetwork) -> LightClientUpdate:
    try:
        committee_branch = _branch(data.next_sync_committee_branch)
        has_committee = data.next_sync_committee is not None and not is_empty_branch(committee_branch)
        finalized = None if data.finalized_header is None else _header(data.finalized_header, network)
        return LightClientUpdate(
            _header(data.attested_header, network),
            _aggregate(data.sync_aggregate, network),
            _number(data.signature_slot),
            None if finalized == LightClientHeader(_EMPTY) else finalized,
            _branch(data.finality_branch),
            _committee(data.next_sync_committee, network) if data.next_sync_committee and has_committee else None,
            committee_branch,
        )
    except HexError as error:
        raise LightClientDataError(str(error)) from None


def _header(data: _Header, network: BeaconNetwork) -> LightClientHeader:
    """Return a header in the form of Gloas, whichever it has; the form does not depend on its own slot [LCP4]."""
    item = data.beacon
    roots = [from_hex_sized(root, 32) for root in (item.parent_root, item.state_root, item.body_root)]
    beacon = BeaconBlockHeader(_number(item.slot), _number(item.proposer_index), *roots)
    branch = _branch(data.execution_branch)
    # No header is one of zeros.
    if beacon == _EMPTY and is_empty_branch(branch):
        return LightClientHeader(beacon)
    if data.execution_block_hash is not None:
        return LightClientHeader(beacon, from_hex_sized(data.execution_block_hash, 32), branch)
    if data.execution is None or network.fork_at(beacon.slot).indices.block_hash == 0:
        return LightClientHeader(beacon)
    return upgraded(beacon, _execution(data.execution, network.has_blobs(beacon.slot)), branch)


def _execution(data: dict[str, str], has_blobs: bool) -> ExecutionPayloadHeader:
    values: dict[str, Any] = {}
    for field in msgspec.structs.fields(ExecutionPayloadHeader):
        text = data.get(field.name)
        if field.name in ("blob_gas_used", "excess_blob_gas"):
            value = _number(text or "0")
            if value and not has_blobs:
                raise LightClientDataError(f"{field.name} before Deneb")
            values[field.name] = value if has_blobs else None
        elif field.type is int:
            values[field.name] = _number(text, 256 if field.name == "base_fee_per_gas" else 64)
        elif field.name == "extra_data":
            values[field.name] = from_hex(text)
            if len(values[field.name]) > 32:
                raise LightClientDataError("extra_data has more than 32 bytes")
        else:
            values[field.name] = from_hex_sized(text, _SIZES.get(field.name, 32))
    return ExecutionPayloadHeader(**values)


def _committee(data: _Committee, network: BeaconNetwork) -> SyncCommittee:
    size = network.preset.sync_committee_size
    if len(data.pubkeys) != size:
        raise LightClientDataError(f"a sync committee of {len(data.pubkeys)} keys, not of {size}")
    return SyncCommittee(
        tuple(from_hex_sized(key, 48) for key in data.pubkeys), from_hex_sized(data.aggregate_pubkey, 48)
    )


def _aggregate(data: _Aggregate, network: BeaconNetwork) -> SyncAggregate:
    size = network.preset.sync_committee_size
    packed = from_hex_sized(data.sync_committee_bits, -(-size // 8))
    value = int.from_bytes(packed, "little")
    if value >> size:
        raise LightClientDataError(f"participation of more than {size} members")
    bits = tuple(bool(value >> index & 1) for index in range(size))
    return SyncAggregate(bits, from_hex_sized(data.sync_committee_signature, 96))


def _branch(nodes: Sequence[str]) -> Branch:
    if len(nodes) > MAX_BRANCH:
        raise LightClientDataError(f"a branch of {len(nodes)} nodes, more than {MAX_BRANCH}")
    return tuple(from_hex_sized(node, 32) for node in nodes)


def _number(text: str | None, bits: int = 64) -> int:
    if text is None or not (text.isascii() and text.isdigit() and len(text) <= 78):
        raise LightClientDataError(f"not a decimal number: {text!r:.80}")
    value = int(text)
    if value >> bits:
        raise LightClientDataError(f"a number of more than {bits} bits: {text:.80}")
    return value
