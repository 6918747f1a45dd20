"""What a beacon node says of finalized blocks, and whether it serves light clients [CMD16]."""

from typing import Annotated, NamedTuple

import msgspec

from rollup_node.node.checks.beacon import GENESIS_PATH, BeaconReader, beacon_version
from rollup_node.stages.io.http.endpoint_errors import EndpointError
from rollup_node.stages.l1.light_client.containers import BeaconBlockHeader
from rollup_node.stages.l1.light_client.network import BEACON_NETWORKS, BeaconNetwork
from rollup_node.stages.l1.light_client.ssz import Root
from rollup_node.stages.protocol.errors import DECODE_ERRORS
from rollup_node.stages.protocol.hex_encoding import HexError, from_hex_sized, to_hex

FINALITY_PATH = "eth/v1/beacon/light_client/finality_update"

LIGHT_CLIENT_FLAGS = {
    "lighthouse": "start it without --disable-light-client-server, or with --light-client-server before version 7",
    "lodestar": "start it without --disableLightClientServer",
    "nimbus": "start it with --rest and --light-client-data-serve=true",
    "prysm": "start it with --enable-light-client",
    "teku": "it has no such routes: ask a beacon node of another client (--l1.checkpoint.beacon)",
}
"""How a client serves light clients. Sources: tests of the flag in sigp/lighthouse (lighthouse/tests/beacon_node.rs),
ChainSafe/lodestar (packages/beacon-node), docs/the_nimbus_book/src/light-client-data.md of status-im/nimbus-eth2,
OffchainLabs/prysm (config/features/flags.go), Consensys/teku#9528."""
_ANY_CLIENT = "turn them on there, or ask another beacon node (--l1.checkpoint.beacon)"


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


class _HeaderAnswer(msgspec.Struct):
    data: _Header


class _Root(msgspec.Struct):
    root: str


class _RootAnswer(msgspec.Struct):
    data: _Root


class _Genesis(msgspec.Struct):
    genesis_validators_root: str


class _GenesisAnswer(msgspec.Struct):
    data: _Genesis


class LightClientGap(NamedTuple):
    """Why a beacon node does not serve light clients, and what to do."""

    text: str
    advice: str


async def finalized_header(reader: BeaconReader) -> BeaconBlockHeader:
    """Return the newest finalized header. Raises EndpointError."""
    path = "eth/v1/beacon/headers/finalized"
    body = await reader.get(path)
    try:
        message = msgspec.json.decode(body, type=_HeaderAnswer, strict=False).data.header.message
        roots = [from_hex_sized(root, 32) for root in (message.parent_root, message.state_root, message.body_root)]
        return BeaconBlockHeader(message.slot, message.proposer_index, *roots)
    except (*DECODE_ERRORS, HexError):
        raise EndpointError(reader.name, f"no header in the response to /{path}") from None


async def root_at(reader: BeaconReader, slot: int) -> Root | None:
    """Return the root of the block in a slot; None for a slot without one. Raises EndpointError."""
    path = f"eth/v1/beacon/blocks/{slot}/root"
    try:
        body = await reader.get(path)
        return from_hex_sized(msgspec.json.decode(body, type=_RootAnswer).data.root, 32)
    except (*DECODE_ERRORS, HexError):
        raise EndpointError(reader.name, f"no block root in the response to /{path}") from None
    except EndpointError as failure:
        if failure.status == 404:
            return None
        raise


async def known_network(reader: BeaconReader) -> BeaconNetwork | None:
    """Return the public network of a beacon node; None for a private one. Raises EndpointError."""
    answer: _GenesisAnswer | None = await reader.read(GENESIS_PATH, _GenesisAnswer)
    root = "" if answer is None else answer.data.genesis_validators_root
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


def light_client_advice(version: str) -> str:
    """Return how a beacon node of this `node/version` is made to serve light clients."""
    client = version.partition("/")[0].lower()
    return LIGHT_CLIENT_FLAGS.get(client, _ANY_CLIENT)
