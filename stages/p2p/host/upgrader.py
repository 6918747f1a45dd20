"""From a bare TCP connection to an encrypted, multiplexed one: agree on noise, shake hands, agree on yamux (inside
noise, or early, within the handshake itself). Sans-I/O: bytes in by `receive`, out by `take`."""

from enum import Enum, auto
from typing import NamedTuple

from rollup_node.stages.p2p.encoding.multistream import Initiator, MultistreamError, Responder
from rollup_node.stages.p2p.identity.peer_id import NetworkIdentity, PeerId
from rollup_node.stages.p2p.muxer import yamux
from rollup_node.stages.p2p.security import noise
from rollup_node.stages.p2p.security.noise import (
    FrameDecoder,
    HandshakeResult,
    NoiseHandshake,
    SecureSession,
    encode_frame,
)
from rollup_node.stages.p2p.security.noise_handshake import NoiseError, NoiseKeys

UPGRADE_ERRORS = (MultistreamError, NoiseError)


class UpgradedConnection(NamedTuple):
    """A connection that yamux can use: who is there, the encrypted stream, and yamux's first bytes if they came."""

    peer: PeerId
    stream: SecureSession
    early: bytes


class _Phase(Enum):
    SECURITY = auto()
    HANDSHAKE = auto()
    MUXER = auto()


class Upgrader:
    """The upgrade of one connection. `offer_early` names our muxer within the handshake; the other end need not."""

    def __init__(
        self,
        identity: NetworkIdentity,
        keys: NoiseKeys,
        *,
        initiator: bool,
        expected: PeerId | None = None,
        offer_early: bool = True,
    ) -> None:
        self._initiator = initiator
        self._early = (yamux.PROTOCOL,) if offer_early else ()
        self._phase = _Phase.SECURITY
        self._negotiation = self._negotiate(noise.PROTOCOL)
        self._out: list[bytes] = [self._negotiation.take()]
        self._unframer = FrameDecoder()
        self._handshake = NoiseHandshake(identity, keys, initiator=initiator, muxers=self._early, expected=expected)
        self._secured: HandshakeResult | None = None

    def take(self) -> bytes:
        """Bytes to send, once."""
        out, self._out = b"".join(self._out), []
        return out

    def receive(self, data: bytes) -> UpgradedConnection | None:
        """Takes bytes; the result once it is there. One of UPGRADE_ERRORS when it cannot come."""
        if self._phase is _Phase.SECURITY:
            selected = self._negotiation.receive(data)
            self._out.append(self._negotiation.take())
            if selected is None:
                return None
            self._phase, data = _Phase.HANDSHAKE, self._negotiation.rest
            if self._initiator:
                self._out.append(encode_frame(self._handshake.start()))
        if self._phase is _Phase.HANDSHAKE:
            return self._shake(data)
        return self._choose_muxer(data)

    def _shake(self, data: bytes) -> UpgradedConnection | None:
        while self._handshake.secured is None:
            messages = self._unframer.receive(data, most=1)
            if not messages:
                return None
            data = b""
            answer = self._handshake.receive(messages[0])
            if answer is not None:
                self._out.append(encode_frame(answer))
        secured = self._secured = self._handshake.secured
        rest = self._unframer.take_rest()
        if self._early and yamux.PROTOCOL in secured.muxers:
            return UpgradedConnection(secured.peer, secured.stream, b"".join(secured.stream.receive(rest)))
        self._phase = _Phase.MUXER
        self._negotiation = self._negotiate(yamux.PROTOCOL)
        self._out += secured.stream.seal(self._negotiation.take())
        return self._choose_muxer(rest)

    def _choose_muxer(self, data: bytes) -> UpgradedConnection | None:
        assert self._secured is not None
        stream = self._secured.stream
        selected = self._negotiation.receive(b"".join(stream.receive(data)))
        self._out += stream.seal(self._negotiation.take())
        return None if selected is None else UpgradedConnection(self._secured.peer, stream, self._negotiation.rest)

    def _negotiate(self, protocol: str) -> Initiator | Responder:
        return Initiator([protocol]) if self._initiator else Responder(lambda asked: asked == protocol)
