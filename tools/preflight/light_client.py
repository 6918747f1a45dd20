"""What a beacon node says of itself and of finalized blocks, and whether it serves light clients [CMD16]."""

from typing import Annotated, NamedTuple

import msgspec

from rollup_node.node.checks.beacon import (
    GENESIS_PATH,
    VERSION_PATH,
    BeaconReader,
    GenesisRoot,
    Version,
    light_client_advice,
)
from rollup_node.stages.io.http.endpoint_errors import EndpointError
from rollup_node.stages.l1.light_client.containers import BeaconBlockHeader
from rollup_node.stages.l1.light_client.network import BEACON_NETWORKS, BeaconNetwork
from rollup_node.stages.l1.light_client.ssz import Root
from rollup_node.stages.protocol.errors import DECODE_ERRORS
from rollup_node.stages.protocol.foreign_json import BeaconAnswer
from rollup_node.stages.protocol.hex_encoding import HexError, from_hex_sized, to_hex
from rollup_node.stages.protocol.texts import one_line

FINALITY_PATH = "eth/v1/beacon/light_client/finality_update"


class _Message(msgspec.Struct):
    slot: Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]
    proposer_index: Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]
    parent_root: str
    state_root: str
    body_root: str


class _Signed(msgspec.Struct):
    message: _Message


class _Header(msgspec.Struct):
    header: _Signed


class _Root(msgspec.Struct):
    root: str


class LightClientGap(NamedTuple):
    """Why a beacon node does not serve light clients, and what to do."""

    text: str
    advice: str


async def beacon_version(reader: BeaconReader) -> str | None:
    """Return what the beacon node says it is, None if it does not. Raises EndpointError."""
    result = await reader.read(VERSION_PATH, Version)
    return None if result is None else one_line(result.version)[:100]


async def finalized_header(reader: BeaconReader) -> BeaconBlockHeader:
    """Return the newest finalized header. Raises EndpointError."""
    path = "eth/v1/beacon/headers/finalized"
    body = await reader.get(path)
    try:
        message = msgspec.json.decode(body, type=BeaconAnswer[_Header], strict=False).data.header.message
        roots = [from_hex_sized(root, 32) for root in (message.parent_root, message.state_root, message.body_root)]
        return BeaconBlockHeader(message.slot, message.proposer_index, *roots)
    except (*DECODE_ERRORS, HexError):
        raise EndpointError(reader.name, f"no header in the response to /{path}") from None


async def root_at(reader: BeaconReader, slot: int) -> Root | None:
    """Return the root of the block in a slot; None for a slot without one. Raises EndpointError."""
    path = f"eth/v1/beacon/blocks/{slot}/root"
    try:
        body = await reader.get(path)
        return from_hex_sized(msgspec.json.decode(body, type=BeaconAnswer[_Root]).data.root, 32)
    except (*DECODE_ERRORS, HexError):
        raise EndpointError(reader.name, f"no block root in the response to /{path}") from None
    except EndpointError as failure:
        if failure.status == 404:
            return None
        raise


async def known_network(reader: BeaconReader) -> BeaconNetwork | None:
    """Return the public network of a beacon node; None for a private one. Raises EndpointError."""
    answer = await reader.read(GENESIS_PATH, GenesisRoot)
    root = "" if answer is None else answer.genesis_validators_root
    networks = BEACON_NETWORKS.values()
    return next((item for item in networks if to_hex(item.genesis_validators_root) == root), None)


async def light_client_gap(reader: BeaconReader) -> LightClientGap | None:
    """Return why a beacon node does not serve light clients; None if it does. Raises EndpointError."""
    try:
        await reader.get(FINALITY_PATH)
        return None
    except EndpointError as failure:
        if failure.status is None:
            raise
        return LightClientGap(str(failure), light_client_advice(await beacon_version(reader) or ""))
