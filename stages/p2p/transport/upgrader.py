"""The upgrade of a TCP connection to an encrypted and multiplexed one: noise, then yamux [NET3].

Yamux may be negotiated early within the handshake. Sans-I/O: bytes come in by `receive_data` and go out by
`data_to_send`. Source: https://github.com/libp2p/specs/blob/master/connections/README.md"""

from enum import Enum, auto
from typing import NamedTuple

from rollup_node.stages.p2p.addresses.peer_id import NetworkIdentity, PeerId
from rollup_node.stages.p2p.encoding.multistream import Initiator, MultistreamError, Responder
from rollup_node.stages.p2p.transport import noise, yamux
from rollup_node.stages.p2p.transport.noise import NoiseError, NoiseKeys

UPGRADE_ERRORS = (MultistreamError, NoiseError)
"""What `Upgrader.receive_data` raises."""


class UpgradedConnection(NamedTuple):
    """A connection ready for yamux: the remote peer, the encrypted session, and yamux's first bytes, if any."""

    peer: PeerId
    session: noise.SecureSession
    early_data: bytes


class _Phase(Enum):
    SECURITY = auto()
    HANDSHAKE = auto()
    MUXER = auto()


class Upgrader:
    """The upgrade of one connection; `early_muxer` offers yamux within the handshake, which saves a round trip."""

    def __init__(
        self,
        identity: NetworkIdentity,
        keys: NoiseKeys,
        *,
        initiator: bool,
        expected_peer: PeerId | None = None,
        early_muxer: bool = True,
    ) -> None:
        self._initiator = initiator
        self._early_muxers = (yamux.PROTOCOL,) if early_muxer else ()
        self._phase = _Phase.SECURITY
        self._negotiation = self._negotiate(noise.PROTOCOL)
        self._out: list[bytes] = [self._negotiation.data_to_send()]
        self._frame_decoder = noise.FrameDecoder()
        self._handshake = noise.NoiseHandshake(
            identity, keys, initiator=initiator, muxers=self._early_muxers, expected_peer=expected_peer
        )

    def data_to_send(self) -> bytes:
        """Return the bytes to send and clears them."""
        out, self._out = b"".join(self._out), []
        return out

    def receive_data(self, data: bytes) -> UpgradedConnection | None:
        """Consume bytes and return the connection once it is upgraded. Raises UPGRADE_ERRORS."""
        if self._phase is _Phase.SECURITY:
            selected = self._negotiation.receive_data(data)
            self._out.append(self._negotiation.data_to_send())
            if selected is None:
                return None
            self._phase, data = _Phase.HANDSHAKE, self._negotiation.trailing_data
            if self._initiator:
                self._out.append(noise.encode_frame(self._handshake.first_message()))
        if self._phase is _Phase.HANDSHAKE:
            return self._continue_handshake(data)
        return self._negotiate_muxer(data)

    def _continue_handshake(self, data: bytes) -> UpgradedConnection | None:
        while self._handshake.result is None:
            messages = self._frame_decoder.receive_data(data, max_frames=1)
            if not messages:
                return None
            data = b""
            reply = self._handshake.receive_message(messages[0])
            if reply is not None:
                self._out.append(noise.encode_frame(reply))
        result = self._handshake.result
        rest = self._frame_decoder.take_trailing_data()
        if self._early_muxers and yamux.PROTOCOL in result.muxers:
            return UpgradedConnection(result.peer, result.session, b"".join(result.session.receive_data(rest)))
        self._phase = _Phase.MUXER
        self._negotiation = self._negotiate(yamux.PROTOCOL)
        self._out += result.session.encrypt(self._negotiation.data_to_send())
        return self._negotiate_muxer(rest)

    def _negotiate_muxer(self, data: bytes) -> UpgradedConnection | None:
        assert self._handshake.result is not None
        peer, _, session = self._handshake.result
        selected = self._negotiation.receive_data(b"".join(session.receive_data(data)))
        self._out += session.encrypt(self._negotiation.data_to_send())
        if selected is None:
            return None
        return UpgradedConnection(peer, session, self._negotiation.trailing_data)

    def _negotiate(self, protocol: str) -> Initiator | Responder:
        return Initiator([protocol]) if self._initiator else Responder(lambda proposed: proposed == protocol)
