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
    session: SecureSession
    early_data: bytes


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
        self._early_muxers = (yamux.PROTOCOL,) if offer_early else ()
        self._phase = _Phase.SECURITY
        self._negotiation = self._negotiate(noise.PROTOCOL)
        self._out: list[bytes] = [self._negotiation.data_to_send()]
        self._frame_decoder = FrameDecoder()
        self._handshake = NoiseHandshake(
            identity, keys, initiator=initiator, muxers=self._early_muxers, expected=expected
        )
        self._handshake_result: HandshakeResult | None = None

    def data_to_send(self) -> bytes:
        """Bytes to send, once."""
        out, self._out = b"".join(self._out), []
        return out

    def receive_data(self, data: bytes) -> UpgradedConnection | None:
        """Takes bytes; the result once it is there. One of UPGRADE_ERRORS when it cannot come."""
        if self._phase is _Phase.SECURITY:
            selected = self._negotiation.receive_data(data)
            self._out.append(self._negotiation.data_to_send())
            if selected is None:
                return None
            self._phase, data = _Phase.HANDSHAKE, self._negotiation.trailing_data
            if self._initiator:
                self._out.append(encode_frame(self._handshake.first_message()))
        if self._phase is _Phase.HANDSHAKE:
            return self._continue_handshake(data)
        return self._negotiate_muxer(data)

    def _continue_handshake(self, data: bytes) -> UpgradedConnection | None:
        while self._handshake.result is None:
            messages = self._frame_decoder.receive_data(data, most=1)
            if not messages:
                return None
            data = b""
            answer = self._handshake.receive_message(messages[0])
            if answer is not None:
                self._out.append(encode_frame(answer))
        secured = self._handshake_result = self._handshake.result
        rest = self._frame_decoder.take_trailing_data()
        if self._early_muxers and yamux.PROTOCOL in secured.muxers:
            return UpgradedConnection(secured.peer, secured.session, b"".join(secured.session.receive_data(rest)))
        self._phase = _Phase.MUXER
        self._negotiation = self._negotiate(yamux.PROTOCOL)
        self._out += secured.session.encrypt(self._negotiation.data_to_send())
        return self._negotiate_muxer(rest)

    def _negotiate_muxer(self, data: bytes) -> UpgradedConnection | None:
        assert self._handshake_result is not None
        stream = self._handshake_result.session
        selected = self._negotiation.receive_data(b"".join(stream.receive_data(data)))
        self._out += stream.encrypt(self._negotiation.data_to_send())
        return (
            None
            if selected is None
            else UpgradedConnection(self._handshake_result.peer, stream, self._negotiation.trailing_data)
        )

    def _negotiate(self, protocol: str) -> Initiator | Responder:
        return Initiator([protocol]) if self._initiator else Responder(lambda asked: asked == protocol)
