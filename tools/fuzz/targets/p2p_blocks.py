"""Gossip, blocks, and requests for blocks."""

from collections.abc import Callable
from functools import partial
from random import Random

import msgspec

from rollup_node.stages.p2p.blocks import block_message
from rollup_node.stages.p2p.blocks.block_message import SszError
from rollup_node.stages.p2p.blocks.signing import LocalSigner, UnsafeBlockSigners
from rollup_node.stages.p2p.blocks.validation import BlockValidator
from rollup_node.stages.p2p.config import PeerScoring
from rollup_node.stages.p2p.encoding import snappy
from rollup_node.stages.p2p.encoding.snappy import SnappyFailure
from rollup_node.stages.p2p.gossipsub.params import MESHSUB_12, GossipParams
from rollup_node.stages.p2p.gossipsub.router import GossipSubRouter, MalformedRpc
from rollup_node.stages.p2p.gossipsub.rpc import (
    ControlMessage,
    IHave,
    Prune,
    PubsubMessage,
    Rpc,
    RpcDecodeError,
    Subscription,
    decode_rpc,
    encode_rpc,
)
from rollup_node.stages.p2p.gossipsub.validation_queue import UnvalidatedMessage, ValidationResult
from rollup_node.stages.p2p.peering.peer_score import PeerScorer
from rollup_node.stages.p2p.reqresp import payload_by_number
from rollup_node.stages.protocol.config import RollupConfig
from rollup_node.tools.fuzz.targets.chain_seeds import GENESIS_TIME, L2_CHAIN, payload, rollup
from rollup_node.tools.fuzz.targets.target import FuzzTarget, one_of

SIGNER = LocalSigner(b"\x11" * 32)
NOW, MAX_SENT = 1000.0, 20_000
LAST_FORK = {1: "regolith", 2: "delta", 3: "holocene", 4: "isthmus"}
RPC = encode_rpc(
    Rpc(
        [Subscription("/t", True), Subscription("/u", False)],
        [PubsubMessage("/t", b"some block"), PubsubMessage("/t", b"")],
        ControlMessage([IHave("/t", [b"a" * 20] * 3)], [b"b" * 20], ["/t"], [Prune("/t", 60)], [b"c" * 20]),
    )
)
_JOINED = encode_rpc(Rpc([Subscription("/t", True)], control=ControlMessage(graft=["/t"])))
_HONEST = encode_rpc(Rpc(messages=[PubsubMessage("/t", snappy.compress(b"an honest block"))]))


def _config(version: int) -> RollupConfig:
    """Return a chain whose blocks have that version."""
    names = [*rollup().fork_times]
    kept = names[: names.index(LAST_FORK[version]) + 1]
    return msgspec.structs.replace(rollup(), fork_times={name: GENESIS_TIME for name in kept})


def gossip(data: bytes) -> object:
    """Return an RPC of gossipsub.

    What is read encodes to one that is read as the same, but for the mark of an author, which we never send."""
    rpc = decode_rpc(data)
    plain = rpc._replace(messages=tuple(message._replace(is_signed=False) for message in rpc.messages))
    assert decode_rpc(encode_rpc(plain)) == plain
    return len(rpc.messages), len(rpc.subscriptions), rpc.control is None


def gossip_router(data: bytes) -> object:
    """Return an RPC of a member of the mesh, a heartbeat, and the same RPC again.

    Honest peers are served meanwhile, and what is kept for them is bounded."""
    router = GossipSubRouter(GossipParams(), ("/t",), PeerScorer(PeerScoring.LIGHT, 2), Random(1))
    peers = [bytes((number,)) * 3 for number in range(3)]
    for number, peer in enumerate(peers):
        router.add_peer(peer, MESHSUB_12, False, [f"10.0.0.{number}"])
        router.receive_rpc(peer, _JOINED, NOW)
    outcomes = []
    for now in (NOW + 1, NOW + 2):
        result = router.receive_rpc(peers[0], data, now)
        if not isinstance(result, MalformedRpc):
            for item in result:
                router.report_validation_result(item.id, ValidationResult.ACCEPT, now)
        outcomes.append(type(result).__name__)
        router.heartbeat(now)
    (honest,) = router.receive_rpc(peers[1], _HONEST, NOW + 3)
    assert isinstance(honest, UnvalidatedMessage)
    assert router.report_validation_result(honest.id, ValidationResult.ACCEPT, NOW + 3)
    for peer in peers:
        sent = 0
        while (frame := router.next_frame(peer)) is not None:
            sent += len(frame)
        assert sent < MAX_SENT + 10 * len(data)
    return outcomes, router.scorer.score(peers[0]) < 0, sorted(event.name for event in router.take_event_counts())


def snappy_block(data: bytes) -> object:
    """Return the block format of snappy."""
    return _checked(snappy.decompress(data))


def snappy_frames(data: bytes) -> object:
    """Return the framed format of snappy."""
    return _checked(snappy.decompress_framed(data))


def _checked(data: bytes | SnappyFailure) -> object:
    if isinstance(data, SnappyFailure):
        return data.name
    assert len(data) <= snappy.MAX_BYTES
    return "bytes"


def block(version: int, data: bytes) -> object:
    """Return a block in SSZ: what is read encodes to the same bytes, but for withdrawals, which no block has."""
    signed_part = block_message.decode_signed_part(data, version)
    if not signed_part.withdrawal_count:
        assert block_message.encode_ssz(signed_part.payload, version) == (data[32:] if version >= 3 else data)
    return len(signed_part.payload.transactions) > 1


def signed_block(data: bytes) -> object:
    """Return a block with a valid signature, as a malicious sequencer could send it."""
    signers = UnsafeBlockSigners()
    signers.update(SIGNER.address, 0.0)
    validator = BlockValidator(_CONFIG, signers)
    result = validator.validate(4, SIGNER.sign(L2_CHAIN, data) + data, GENESIS_TIME + 2, 0.0)
    return result.result.name, None if result.failure is None else result.failure.name


def unsigned_block(data: bytes) -> object:
    """Return a compressed gossip message as any peer sends it."""
    validator = BlockValidator(_CONFIG, UnsafeBlockSigners())
    result = validator.validate(4, snappy.decompress(data), GENESIS_TIME + 2, 0.0)
    return result.result.name, None if result.failure is None else result.failure.name


def response(data: bytes) -> object:
    """Return a response to a request for block 1."""
    result = payload_by_number.decode_response(_CONFIG, 1, data)
    assert result.payload is None or result.payload.block_number == 1
    return type(result).__name__


def request(data: bytes) -> object:
    """Return a request for a block."""
    result = payload_by_number.decode_request(data)
    assert result is None or payload_by_number.encode_request(result) == data
    return result is None


_CONFIG = _config(4)
_PARTS = {version: block_message.encode_signed_part(payload(version), version) for version in block_message.VERSIONS}
_MESSAGE = snappy.compress(SIGNER.sign(L2_CHAIN, _PARTS[4]) + _PARTS[4])
_FRAMED = snappy.compress_framed(_PARTS[4])
_RESPONSE = payload_by_number.encode_block(_CONFIG, payload(4))


def _request(chance: Random) -> bytes:
    return payload_by_number.encode_request(chance.randrange(1 << 40))


def _rpc(chance: Random) -> bytes:
    """Return an RPC about topics that we are in and others, of messages that we have and others."""
    topics = ["/t", "/u", "/x", "/t"]
    ids = [chance.choice((b"a" * 20, chance.randbytes(20), b"")) for _ in range(chance.randrange(5))]
    datas = (snappy.compress(b"other"), snappy.compress(chance.randbytes(9)), b"\xff", b"")
    count = chance.randrange
    return encode_rpc(
        Rpc(
            [Subscription(chance.choice(topics), chance.random() < 0.5) for _ in range(count(3))],
            [PubsubMessage(chance.choice(topics), chance.choice(datas)) for _ in range(count(4))],
            ControlMessage(
                ihave=[IHave(chance.choice(topics), ids) for _ in range(count(3))],
                iwant=ids[: count(5)],
                graft=[chance.choice(topics) for _ in range(count(3))],
                prune=[Prune(chance.choice(topics), count(1 << 20)) for _ in range(count(2))],
                idontwant=ids[: count(5)],
            ),
        )
    )


def _reader(version: int) -> Callable[[bytes], object]:
    return partial(block, version)


PEER = "P2P peer"
TARGETS = {
    "gossip-rpc": FuzzTarget(PEER, gossip, one_of([RPC]), (RpcDecodeError,)),
    "gossip-router": FuzzTarget(PEER, gossip_router, _rpc),
    "snappy": FuzzTarget(PEER, snappy_block, one_of([_MESSAGE, snappy.compress(bytes(300))])),
    "snappy-frames": FuzzTarget(PEER, snappy_frames, one_of([_FRAMED])),
    **{
        f"block-v{version}": FuzzTarget(PEER, _reader(version), one_of([part]), (SszError,))
        for version, part in _PARTS.items()
    },
    "gossip-block": FuzzTarget(PEER, unsigned_block, one_of([_MESSAGE])),
    "signed-block": FuzzTarget("sequencer key", signed_block, one_of([_PARTS[4]])),
    "block-response": FuzzTarget(PEER, response, one_of([_RESPONSE, b"\x01"])),
    "block-request": FuzzTarget(PEER, request, _request),
}
"""The targets by name."""
