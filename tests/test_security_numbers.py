"""The numbers in the tables of docs/security.md are those of the source."""

import re
from functools import reduce
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec
import pytest

TEXT = (Path(__file__).parent.parent / "docs" / "security.md").read_text()
UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "KB": 10**3, "MB": 10**6, "ms": 0.001}

NUMBERS: dict[str, dict[str, str]] = {
    "connections | RPC": {
        "512": "stages.rpc.process.stage.RPC_LIMITS.connections",
        "256 per IPv4 address": "stages.rpc.process.stage.RPC_LIMITS.per_address",
        "64 and": "stages.rpc.process.stage.METRICS_LIMITS.connections",
        "32;": "stages.rpc.process.stage.METRICS_LIMITS.per_address",
    },
    "a large body": {
        "5 MiB": "stages.rpc.process.http_server.MAX_BODY",
        "50,000 JSON values": "stages.rpc.jsonrpc.MAX_VALUES",
    },
    "a batch |": {
        "1,000 calls": "stages.rpc.jsonrpc.MAX_BATCH",
        "25 MB of responses": "stages.rpc.jsonrpc.MAX_BATCH_RESPONSE",
    },
    "requests and responses held": {
        "32 MiB": "stages.rpc.process.stage.RPC_LIMITS.held_bytes",
        "8 MiB": "stages.rpc.process.stage.METRICS_LIMITS.held_bytes",
    },
    "work |": {"4 ms": "stages.rpc.process.listener.TURN_SECONDS"},
    "a call that waits": {
        "29.9 s": "stages.rpc.process.http_server.CALL_SECONDS",
        "64 at a time": "stages.io.requests.MAX_PENDING",
    },
    "by WebSocket, with": {
        "64 connections": "stages.rpc.process.websocket.MAX_SESSIONS",
        "16 subscriptions": "stages.rpc.process.websocket.MAX_SUBSCRIPTIONS",
        "64 KiB": "stages.rpc.process.websocket.MAX_MESSAGE",
        "16 messages": "stages.rpc.process.websocket.MAX_CALLS",
        "256 KiB": "stages.rpc.process.websocket.MAX_WAITING_BYTES",
        "512 messages": "stages.rpc.process.websocket.MAX_WAITING",
        "10 s": "stages.rpc.process.websocket.SEND_SECONDS",
    },
    "a message of an interop supervisor": {
        "16 connections": "stages.rpc.process.stage.INTEROP_LIMITS.connections",
        "8 per address": "stages.rpc.process.stage.INTEROP_LIMITS.per_address",
        "5 MiB": "stages.rpc.process.interop_server.MAX_MESSAGE",
        "32 MiB": "stages.rpc.process.stage.INTEROP_LIMITS.held_bytes",
        "16 messages": "stages.rpc.process.websocket.MAX_CALLS",
    },
    "an interop supervisor that does not read": {
        "512 messages": "stages.rpc.process.websocket.MAX_WAITING",
        "64 MiB": "stages.rpc.process.interop_server.MAX_WAITING_BYTES",
        "10 s": "stages.rpc.process.websocket.SEND_SECONDS",
    },
    "promotions by an interop supervisor": {"1,000 wait": "stages.engine.core.interop.MAX_EARLY"},
    "a request for a profile": {
        "16 connections": "stages.rpc.process.stage.PPROF_LIMITS.connections",
        "8 per address": "stages.rpc.process.stage.PPROF_LIMITS.per_address",
        "120 s": "stages.io.profiling.profile.MAX_SECONDS",
        "20,000 stacks": "stages.io.profiling.profile.MAX_STACKS",
        "64 frames": "stages.io.profiling.recordings.MAX_FRAMES",
        "64 MiB": "stages.io.profiling.profile.MAX_BYTES",
    },
    "viewers of the status page": {"8;": "stages.rpc.process.status_server.MAX_VIEWERS"},
    "an answer to `eth_chainId`": {
        "1 MiB": "stages.protocol.answer_limits.SMALL.bytes",
        "50,000": "stages.protocol.answer_limits.SMALL.values",
    },
    "a header for a head poll": {
        "1 MiB": "stages.protocol.answer_limits.HEADER.bytes",
        "30,000": "stages.protocol.answer_limits.HEADER.values",
    },
    "a block with transactions": {
        "32 MiB": "stages.protocol.answer_limits.L1_BLOCK.bytes",
        "500,000": "stages.protocol.answer_limits.L1_BLOCK.values",
    },
    "blocks and receipts over": {"6 MiB": "stages.protocol.answer_limits.ORDINARY_L1_BLOCK.bytes"},
    "HTTP headers": {"256 KiB": "stages.io.http.connection.MAX_FRAMING"},
    "an error message": {"4 KiB": "stages.io.http.json_answers.MAX_ERROR_DATA"},
    "an answer of the engine": {
        "256 MiB": "stages.protocol.answer_limits.L2_BLOCK.bytes",
        "8,000,000": "stages.protocol.answer_limits.L2_BLOCK.values",
    },
    "an answer of the conductor": {"64 KiB": "stages.engine.process.neighbour_clients.MAX_ANSWER"},
    "a status of the follow source": {"64 KiB": "stages.engine.process.neighbour_clients.MAX_ANSWER"},
    "calls of an interop supervisor": {
        "1 MiB": "stages.engine.process.interop_server.MAX_RESPONSE_BYTES",
        "4 blocks": "stages.engine.process.interop_server.MAX_RECEIPTS",
    },
    "blocks of peers": {"500 MiB": "stages.engine.heads.unsafe_chain.MAX_BYTES"},
    "the files `rpc.admin-state`": {"64 KiB": "stages.engine.process.sequencer_store.MAX_ADMIN_BYTES"},
    "blobs, sidecars": {
        "36 MiB": "stages.blobs.process.client.MAX_BODY",
        "128 blobs": "stages.blobs.beacon_api.MAX_BLOBS",
        "500,000": "stages.blobs.beacon_api.MAX_VALUES",
    },
    "an input, or a body": {
        "32 MiB": "stages.blobs.process.da_client.MAX_BODY",
        "1 GiB": "stages.blobs.process.da_client.MAX_HASHED",
    },
    "a batch over": {
        "8 MB": "stages.derivation.codec.packed.MAX_PLAIN_BYTES",
        "131,072": "stages.derivation.codec.packed.MAX_PLAIN_COUNT",
    },
    "very many batches": {
        "16 MB": "stages.derivation.tasks.MAX_RESULT_BYTES",
        "10,000 batches": "stages.derivation.tasks.MAX_BATCHES",
        "32 MiB": "stages.derivation.process.decoding_client.MAX_CACHED_BYTES",
    },
    "frames without data": {
        "48 MiB": "stages.derivation.process.prefetch.MAX_PARSED",
        "24 MiB": "stages.derivation.process.requests.MAX_PREFETCHED",
    },
    "large calldata": {"24 MiB": "stages.derivation.process.l1_buffer.MAX_BUFFERED"},
    "hundreds of thousands of frames": {"1,000 are kept": "stages.derivation.process.derivation_log.KEPT"},
    "connections | 62": {
        "8 per": "stages.p2p.gating.connections.MAX_PER_HOST",
        "4 per peer": "stages.p2p.config.ResourceLimits.connections_per_peer",
    },
    "handshakes": {"64 unfinished": "stages.p2p.config.ResourceLimits.half_open"},
    "unread bytes": {
        "48 MiB": "stages.p2p.config.ResourceLimits.held_bytes",
        "4 MiB": "stages.p2p.config.ResourceLimits.unread_bytes",
    },
    "bytes that a peer does not read": {"2 MiB": "stages.p2p.config.ResourceLimits.backlog_bytes"},
    "streams": {
        "128": "stages.p2p.config.ResourceLimits.inbound_streams",
        "20 opened": "stages.p2p.host.io.connection.STREAM_RATE",
        "64;": "stages.p2p.host.io.connection.STREAM_BURST",
    },
    "CPU time of received bytes": {
        "0.4 of": "stages.p2p.gating.connections.TOTAL_SHARE",
        "4,000": "stages.p2p.host.io.connection.MAX_SMALL_FRAMES",
    },
    "CPU time of gossip": {"0.3 of": "stages.p2p.gossipsub.validation_queue.TOTAL_SHARE"},
    "gossip |": {
        "10 MiB": "stages.p2p.gossipsub.params.MAX_RPC_BYTES",
        "12,000 fields": "stages.p2p.gossipsub.rpc.MAX_FIELDS",
        "24 MiB": "stages.p2p.gossipsub.params.MAX_PENDING_BYTES",
    },
    "requests for blocks": {
        "20 a second": "stages.p2p.reqresp.server_limits.GLOBAL_RATE",
        "4 per peer": "stages.p2p.reqresp.server_limits.PEER_RATE",
        "20 s": "stages.p2p.reqresp.server_limits.MAX_WAIT",
    },
    "blocks that we requested": {
        "10 MiB": "stages.p2p.encoding.snappy.MAX_BYTES",
        "32 MiB": "stages.p2p.reqresp.planner.MAX_BYTES",
    },
    "identify": {
        "2 KiB": "stages.p2p.host.io.services.MAX_STORED_CHARACTERS",
        "16 addresses": "stages.p2p.storage.io.peerstore.MAX_ADDRESSES",
        "10,000 peers": "stages.p2p.storage.io.peerstore.MAX_PEERS",
    },
    "datagrams": {
        "200 a second": "stages.p2p.discv5.node.PACKETS_PER_SECOND",
        "1,000 sessions": "stages.p2p.discv5.sessions.MAX_SESSIONS",
        "128 per": "stages.p2p.discv5.sessions.MAX_SESSIONS_PER_HOST",
        "1,000 challenges": "stages.p2p.discv5.sessions.MAX_CHALLENGES",
        "64 per": "stages.p2p.discv5.sessions.MAX_CHALLENGES_PER_HOST",
    },
    "node records": {
        "2 nodes": "stages.p2p.discv5.table.PER_NETWORK_IN_BUCKET",
        "10 in the table": "stages.p2p.discv5.table.PER_NETWORK",
        "16 records": "stages.p2p.discv5.messages.MAX_RECORDS",
        "1,000 nodes": "stages.p2p.storage.io.node_database.MAX_NODES",
    },
    "an answer | 64 KiB": {"64 KiB": "stages.p2p.signer.io.remote_signer.MAX_ANSWER_BYTES"},
    "nothing, errors": {"16 blocks": "stages.p2p.signer.signing_queue.MAX_WAITING"},
    "descriptions and SOAP": {"64 KiB": "stages.p2p.peering.upnp.MAX_RESPONSE_BYTES"},
    "CA, certificate and key for": {"1 MiB": "stages.p2p.signer.io.remote_signer.MAX_FILE_BYTES"},
    "signed blocks": {
        "4096 heights": "stages.p2p.signer.signed_blocks.MAX_HEIGHTS",
        "128 blocks": "stages.p2p.signer.signed_blocks.MAX_PAYLOADS",
        "32 MiB": "stages.p2p.signer.signed_blocks.MAX_PAYLOAD_BYTES",
    },
}
"""By the beginning of a row: the text of a number in it, and the constant."""

CASES = [(row, text, name) for row, numbers in NUMBERS.items() for text, name in numbers.items()]


def constant(name: str) -> float:
    """Return the value of a constant, of its attribute, or of the default of a structure's field."""
    parts = name.split(".")
    modules = next(end for end in range(len(parts), 0, -1) if _is_module("rollup_node." + ".".join(parts[:end])))
    module: Any = import_module("rollup_node." + ".".join(parts[:modules]))
    return float(reduce(_attribute, parts[modules:], module))


def _is_module(name: str) -> bool:
    try:
        import_module(name)
    except ModuleNotFoundError:
        return False
    return True


def _attribute(owner: Any, name: str) -> Any:
    return getattr(owner() if isinstance(owner, type) and issubclass(owner, msgspec.Struct) else owner, name)


@pytest.mark.parametrize(("row", "text", "name"), CASES, ids=[name for _, _, name in CASES])
def test_a_number_is_that_of_the_source(row: str, text: str, name: str) -> None:
    rows = [line for line in TEXT.splitlines() if line.startswith(f"| {row}")]
    assert len(rows) == 1, f"{len(rows)} rows begin with {row}"
    assert re.search(rf"(?<![\d.,]){re.escape(text)}", rows[0]), f"the row {row} has no {text!r}"
    number, unit = re.match(r"([\d.,]*\d)(?: (\w+))?", text).groups()  # type: ignore[union-attr]
    assert float(number.replace(",", "")) * UNITS.get(unit, 1) == constant(name)
